"""MindSpore's own cost of operators and redistributions, in its own units."""
