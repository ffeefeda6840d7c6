"""Ways out: what a framework reads to apply a plan."""
