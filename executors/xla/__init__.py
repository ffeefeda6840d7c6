"""A plan as a JAX program, and what XLA makes of it."""
