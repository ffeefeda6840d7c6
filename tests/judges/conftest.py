"""Settings of the judges' tests."""

import jax

# The first use of JAX, in whatever test it is, decides how many devices the process has.
jax.config.update("jax_num_cpu_devices", 16)
