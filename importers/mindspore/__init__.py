"""Files in formats of others that MindSpore exports: what they leave out of its network."""
