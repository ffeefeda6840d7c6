"""Autograd's numpy as the array library of operators: what it computes can be differentiated."""

from __future__ import annotations

import math
from collections.abc import Callable

import autograd.numpy as anp
from autograd.extend import defvjp, primitive
from autograd.tracer import getval

from ir.semantics.arrays import NUMPY, Array, Library, summed_places

_error_function = primitive(NUMPY.error_function)
_placed = primitive(NUMPY.placed)


def _error_gradient(_: Array, array: Array) -> Callable[[Array], Array]:
    slope = 2.0 / math.sqrt(math.pi)
    return lambda back: back * slope * anp.exp(-anp.square(array))


defvjp(_error_function, _error_gradient)
defvjp(_placed, lambda _, __, slots, ___: lambda back: back[slots], argnums=(0,))


def _stretched(array: Array, dims: tuple[int, ...]) -> Array:
    """By an addition, whose gradient undoes it, also where dimensions are added or none is left."""
    out: Array = array + anp.zeros(dims, dtype=array.dtype)
    return out


AUTOGRAD = Library(anp, getval, _error_function, _placed, summed_places, stretched=_stretched)
