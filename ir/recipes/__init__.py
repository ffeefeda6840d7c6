"""Training recipes of frameworks: what their settings say, as tables that are read both ways."""
