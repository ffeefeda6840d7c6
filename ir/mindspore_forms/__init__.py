"""What MindSpore knows an operator as: its primitive, the cuts that this takes, its defaults."""
