"""What profilers say of a training step: kernels and messages by class, and constants of them."""
