"""Files of MindSpore: strategies, groups, code that sets it up, and how each is read back."""
