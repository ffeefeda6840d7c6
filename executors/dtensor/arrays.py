"""Torch as the array library of operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from executors.dtensor.call import Call, Kernel
from executors.dtensor.numbers import torch_dtype
from ir.semantics.arrays import Library, computing_with
from ir.semantics.call import Semantics

_NOT_OF_TORCH = (AttributeError, IndexError, TypeError, ValueError)
"""Raised where torch has no such function, argument, method, slice or maximum of nothing."""


def _largest(array: Any, axis: Any, *, keepdims: bool = False) -> Any:
    return torch.amax(array, axis, keepdim=keepdims)


def _least(array: Any, axis: Any, *, keepdims: bool = False) -> Any:
    return torch.amin(array, axis, keepdim=keepdims)


def _sum(array: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Over no dimensions it is the array, where torch would sum over all of them."""
    return array if axis == () else torch.sum(array, axis, keepdim=keepdims)


def _where(condition: Any, one: Any, other: Any) -> Any:
    return torch.where(torch.as_tensor(condition), one, other)


def _repeat(array: Any, count: int, axis: int) -> Any:
    return torch.repeat_interleave(array, count, axis)


def _mean(array: Any, axis: Any, *, keepdims: bool = False) -> Any:
    """A sum over a known count: DTensor's own mean would be a sum of means."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    count = math.prod(array.shape[a] for a in axes)
    return torch.sum(array, axes, keepdim=keepdims) / count


def _bounded(function: Callable[[Any, Any], Any], side: str) -> Callable[[Any, Any], Any]:
    """A function of two tensors, one of which may be a number."""

    def run(one: Any, other: Any) -> Any:
        if isinstance(other, int | float):
            return torch.clamp(one, **{side: other})
        if isinstance(one, int | float):
            return torch.clamp(other, **{side: one})
        return function(one, other)

    return run


def _converted(array: Any, dtype: Any) -> Any:
    """Types are torch's, names of a graph's, or numpy's."""
    if not isinstance(dtype, torch.dtype):
        dtype = torch_dtype(dtype if isinstance(dtype, str) else np.dtype(dtype).name)
    return array.to(dtype)


def _order(array: Any, axis: int = -1, kind: str = "") -> Any:
    return torch.argsort(array, dim=axis, stable=kind == "stable")


def _flip(array: Any, axis: int) -> Any:
    return torch.flip(array, (axis,))


def _indices(shape: Iterable[int]) -> Any:
    return torch.stack(torch.meshgrid([torch.arange(n) for n in shape], indexing="ij"))


def _pad(
    array: Any, widths: Sequence[tuple[int, int]], mode: str = "constant", **value: Any
) -> Any:
    flat = [n for pair in reversed(widths) for n in pair]
    return torch.nn.functional.pad(array, flat, mode, value["constant_values"])


def _add_exponentials(one: Any, other: Any) -> Any:
    if isinstance(other, int | float):
        other = torch.full_like(one, other)
    return torch.logaddexp(one, other)


def _reshape(array: Any, shape: int | Iterable[int]) -> Any:
    return array.reshape((shape,) if isinstance(shape, int) else tuple(shape))


class _Names:
    """Torch's functions by their names, which are mostly numpy's too; those that differ here."""

    max = staticmethod(_largest)
    min = staticmethod(_least)
    mean = staticmethod(_mean)
    maximum = staticmethod(_bounded(torch.maximum, "min"))
    minimum = staticmethod(_bounded(torch.minimum, "max"))
    logaddexp = staticmethod(_add_exponentials)
    reshape = staticmethod(_reshape)
    transpose = staticmethod(torch.permute)
    argsort = staticmethod(_order)
    equal = staticmethod(torch.eq)
    flip = staticmethod(_flip)
    indices = staticmethod(_indices)
    invert = staticmethod(torch.bitwise_not)
    pad = staticmethod(_pad)
    rint = staticmethod(torch.round)
    power = staticmethod(torch.pow)
    repeat = staticmethod(_repeat)
    sum = staticmethod(_sum)
    where = staticmethod(_where)
    bool_ = torch.bool

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _placed(values: Any, slots: Any, count: int) -> Any:
    return values.new_zeros((count, *values.shape[1:])).index_add(0, slots, values)


def _of_places(array: Any, places: Any) -> Any:
    """By a gather: a sum over classes would keep as many numbers again as there are scores."""
    mine = (places >= 0) & (places < array.shape[1])
    found = torch.gather(array, 1, torch.where(mine, places, 0).unsqueeze(1)).squeeze(1)
    return torch.where(mine, found, 0.0)


TORCH = Library(
    _Names(),
    torch.detach,
    torch.erf,
    _placed,
    _of_places,
    _converted,
    stretched=torch.broadcast_to,
    sigmoid=torch.sigmoid,
    gelu=lambda array, how: torch.nn.functional.gelu(array, approximate=how),
)


def in_torch(function: Semantics) -> Kernel:
    """The semantics of a kind on torch tensors."""
    return lambda call: torch_results(call, function)


def torch_results(call: Call, function: Semantics) -> list[Any]:
    """What a function that is written for any array library makes of torch tensors.

    Raises:
        NotImplementedError: it needs what torch does not have.
    """
    device = next((x.device for x in call.present), "cpu")
    try:
        with computing_with(TORCH), torch.device(device):
            return [
                torch.as_tensor(x).to(torch_dtype(t))
                for x, t in zip(function(call), call.result_dtypes, strict=True)
            ]
    except _NOT_OF_TORCH as error:
        raise NotImplementedError(f"{call.op.kind} is not written for torch") from error
