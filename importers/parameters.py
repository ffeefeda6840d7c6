"""Converters of one shape that differ by a name or a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

_Context = TypeVar("_Context")
_Result = TypeVar("_Result")
_Parameters = ParamSpec("_Parameters")


def parametrised(
    convert: Callable[Concatenate[_Context, _Parameters], _Result],
) -> Callable[_Parameters, Callable[[_Context], _Result]]:
    """From a converter with parameters what makes one of each choice of them.

    >>> @parametrised
    ... def scaled(value: int, factor: int) -> int:
    ...     return value * factor
    >>> scaled(3)(2)
    6
    """

    def chosen(
        *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> Callable[[_Context], _Result]:
        return wraps(convert)(lambda context: convert(context, *args, **kwargs))

    return chosen
