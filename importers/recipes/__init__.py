"""Training recipes of frameworks, read as data: nothing in them is executed."""
