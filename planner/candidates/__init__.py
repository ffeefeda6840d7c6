"""Candidates of operators and tensors: every way to split them."""
