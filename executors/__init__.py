"""Ways to run a plan: the reference on virtual devices of one process."""
