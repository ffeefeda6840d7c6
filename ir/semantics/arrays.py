"""The array library that operators compute with: numpy, or another one for a while."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy  # noqa: ICN001  `np` is the library of the moment
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
_ERF = numpy.vectorize(math.erf, otypes=[numpy.float64])


def _gelu(array: Array, approximate: str) -> Array:
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (array + 0.044715 * array**3)
        return 0.5 * array * (1.0 + np.tanh(inner))
    return 0.5 * array * (1.0 + error_function(array / math.sqrt(2.0)))


@dataclass(frozen=True, slots=True)
class Library:
    """What the functions of operators need of an array library."""

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
    stretched: Callable[[Array, tuple[int, ...]], Array] = numpy.broadcast_to
    """The array broadcast to these dims."""
    sigmoid: Callable[[Array], Array] = lambda array: 0.5 * (np.tanh(0.5 * array) + 1.0)
    """The logistic function; the tangent does not overflow."""
    gelu: Callable[[Array, str], Array] = _gelu
    """GELU, approximated as ONNX says: `tanh` or `none`."""


def _plain_error_function(array: Array) -> Array:
    found: Array = _ERF(array).astype(array.dtype) if array.size else array
    return found


def _plainly_placed(values: Array, slots: Array, count: int) -> Array:
    out: Array = numpy.zeros((count, *values.shape[1:]), dtype=values.dtype)
    numpy.add.at(out, slots, values)
    return out


def summed_places(array: Array, places: Array) -> Array:
    """Elements at some places of dimension 1 by a sum, which is split as the array is."""
    every = np.arange(array.shape[1]).reshape((1, -1, *[1] * (array.ndim - 2)))
    return np.sum(np.where(places[:, None] == every, array, 0.0), axis=1)


NUMPY = Library(numpy, lambda array: array, _plain_error_function, _plainly_placed, summed_places)
_LIBRARY: ContextVar[Library] = ContextVar("array library", default=NUMPY)


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


def sigmoid(array: Array) -> Array:
    """The logistic function."""
    return _LIBRARY.get().sigmoid(array)


def gelu(array: Array, approximate: str) -> Array:
    """GELU, approximated as ONNX says: `tanh` or `none`."""
    return _LIBRARY.get().gelu(array, approximate)


def stretched(array: Array, dims: tuple[int, ...]) -> Array:
    """The array broadcast to these dims."""
    return array if tuple(array.shape) == dims else _LIBRARY.get().stretched(array, dims)
