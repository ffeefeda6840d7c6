"""Programs that tracers wrote: what the ways in for PyTorch, JAX and MindSpore have in common."""
