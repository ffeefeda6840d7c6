"""What MindSpore redistributes between operators, and what its own searches count."""
