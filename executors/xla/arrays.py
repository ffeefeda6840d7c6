"""JAX as the array library of `executors.semantics`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from executors.semantics.arrays import Library


def _constant(array: Any) -> Any:
    """Numbers that are known stay known: shapes may depend on them."""
    return array if isinstance(array, np.ndarray) else jax.lax.stop_gradient(array)


def _placed(values: Any, slots: Any, count: int) -> Any:
    out = jnp.zeros((count, *values.shape[1:]), dtype=values.dtype)
    return out.at[slots].add(values)


JAX = Library(jnp, _constant, jax.scipy.special.erf, _placed)
