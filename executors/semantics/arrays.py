"""The array library that operators compute with: autograd's numpy, or another one for a while."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import autograd.numpy as anp
from autograd.extend import defvjp, primitive
from autograd.tracer import getval
from numpy import add as plain_add
from numpy import float64, vectorize

from executors.placement import Array

_ERF = vectorize(math.erf, otypes=[float64])


@dataclass(frozen=True, slots=True)
class Library:
    """What the functions of `executors.semantics` need of an array library."""

    namespace: Any
    """Functions named as numpy names them."""
    constant: Callable[[Array], Array]
    """The array, as one through which no gradient passes."""
    error_function: Callable[[Array], Array]
    """The integral of the normal distribution, as in GELU."""
    placed: Callable[[Array, Array, int], Array]
    """Values added to rows of zeros: value i to row `slots[i]` of `count`."""
    of_places: Callable[[Array, Array], Array]
    """Elements at some places of dimension 1; zero where there is no such place."""
    converted: Callable[[Array, Any], Array] = lambda array, dtype: array.astype(dtype)
    """The array in another element type, one of the library's or of numpy's."""


@primitive  # type: ignore[misc, unused-ignore]
def _error_function(array: Array) -> Array:
    found: Array = _ERF(array).astype(array.dtype) if array.size else array
    return found


def _error_gradient(_: Array, array: Array) -> Callable[[Array], Array]:
    slope = 2.0 / math.sqrt(math.pi)
    return lambda back: back * slope * anp.exp(-anp.square(array))


defvjp(_error_function, _error_gradient)


@primitive  # type: ignore[misc, unused-ignore]
def _placed(values: Array, slots: Array, count: int) -> Array:
    out: Array = anp.zeros((count, *values.shape[1:]), dtype=values.dtype)
    plain_add.at(out, slots, values)
    return out


defvjp(_placed, lambda _, __, slots, ___: lambda back: back[slots], argnums=(0,))


def summed_places(array: Array, places: Array) -> Array:
    """Elements at some places of dimension 1 by a sum, which is split as the array is."""
    every = np.arange(array.shape[1]).reshape((1, -1, *[1] * (array.ndim - 2)))
    return np.sum(np.where(places[:, None] == every, array, 0.0), axis=1)


AUTOGRAD = Library(anp, getval, _error_function, _placed, summed_places)
_LIBRARY: ContextVar[Library] = ContextVar("array library", default=AUTOGRAD)


class _Namespace:
    """The functions of the library of the moment, also of one that comes after the function was
    asked for: tables of functions are made when modules are imported.
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(_LIBRARY.get().namespace, name)
        return _late(name) if callable(found) and not isinstance(found, type) else found


@cache
def _late(name: str) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        return getattr(_LIBRARY.get().namespace, name)(*given, **named)

    return called


np: Any = _Namespace()


@contextmanager
def computing_with(library: Library) -> Iterator[None]:
    """Operators compute with this library inside the context."""
    token = _LIBRARY.set(library)
    try:
        yield
    finally:
        _LIBRARY.reset(token)


def constant(array: Any) -> Any:
    """The array, as one through which no gradient passes."""
    return _LIBRARY.get().constant(array)


def error_function(array: Array) -> Array:
    """The integral of the normal distribution, as in GELU."""
    return _LIBRARY.get().error_function(array)


def placed(values: Array, slots: Array, count: int) -> Array:
    """Values added to rows of zeros: value i to row `slots[i]` of `count`."""
    return _LIBRARY.get().placed(values, slots, count)


def of_places(array: Array, places: Array) -> Array:
    """Elements at some places of dimension 1; zero where there is no such place."""
    return _LIBRARY.get().of_places(array, places)


def converted(array: Array, dtype: Any) -> Array:
    """The array in another element type, one of the library's or of numpy's."""
    return _LIBRARY.get().converted(array, dtype)
