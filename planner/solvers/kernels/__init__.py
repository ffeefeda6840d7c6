"""Inner loops over flat arrays, compiled by numba when they are first used and then kept."""
