"""Reductions, softmax, sorting and scanning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from ir.ops.reduction import SOFTMAXES
from ir.semantics.arrays import Array, constant, converted, np
from ir.semantics.call import Call, Semantics


def largest(array: Array, dims: tuple[int, ...]) -> Array:
    """Maximum over some dimensions, which stay; the least of all numbers where a part is empty."""
    plain = constant(array)
    if all(plain.shape[d] for d in dims):
        return np.max(plain, axis=dims, keepdims=True)
    return np.sum(plain, axis=dims, keepdims=True) - np.inf


def _log_sum_exp(array: Array, axis: tuple[int, ...], *, keepdims: bool) -> Array:
    top = largest(array, axis)
    found = top + np.log(np.sum(np.exp(array - top), axis=axis, keepdims=True))
    kept = [d for i, d in enumerate(array.shape) if i not in axis]
    return found if keepdims else np.reshape(found, kept)


class Combine(Enum):
    """How the results of parts become that of the whole."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PRODUCT = "product"
    LOG_SUM_EXP = "logarithm of the sum of exponentials"


def _same(array: Array) -> Array:
    return array


Reduced: TypeAlias = tuple[Callable[..., Array], Combine, Callable[[Array], Array]]
REDUCED: Mapping[str, Reduced] = MappingProxyType(
    {
        "ReduceProd": (np.prod, Combine.PRODUCT, _same),
        "ReduceL1": (lambda x, **k: np.sum(np.abs(x), **k), Combine.SUM, _same),
        "ReduceL2": (lambda x, **k: np.sum(np.square(x), **k), Combine.SUM, np.sqrt),
        "ReduceSumSquare": (lambda x, **k: np.sum(np.square(x), **k), Combine.SUM, _same),
        "ReduceLogSum": (np.sum, Combine.SUM, np.log),
        "ReduceLogSumExp": (_log_sum_exp, Combine.LOG_SUM_EXP, _same),
    }
)
"""On the part of a device, between devices, and at the end."""


def _axes(call: Call) -> tuple[tuple[int, ...], bool]:
    """What is reduced, and whether it stays with one element."""
    rank = call[0].ndim
    return call.ints("axes", tuple(range(rank))), len(call.result_dims[0]) == rank


def _plain(function: Callable[..., Array]) -> Semantics:
    def run(call: Call) -> list[Array]:
        axes, keep = _axes(call)
        return [function(call[0], axis=axes, keepdims=keep)]

    return run


total, average, maximum, minimum = _plain(np.sum), _plain(np.mean), _plain(np.max), _plain(np.min)


def reduction(call: Call) -> list[Array]:
    axes, keep = _axes(call)
    own, _, finish = REDUCED[call.op.kind]
    return [finish(own(call[0], axis=axes, keepdims=keep))]


def softmax(call: Call) -> list[Array]:
    data = call[0]
    axis = call.int("axis", data.ndim - 1)
    axes = tuple(range(axis, data.ndim)) if call.int("to_end") else (axis,)
    if SOFTMAXES[call.op.kind]:
        return [data - _log_sum_exp(data, axes, keepdims=True)]
    powers = np.exp(data - np.max(constant(data), axis=axes, keepdims=True))
    return [powers / np.sum(powers, axis=axes, keepdims=True)]


def hardmax(call: Call) -> list[Array]:
    """One where the largest is, the first of equal ones."""
    data, axis = call[0], call.int("axis", call[0].ndim - 1)
    last = (
        np.reshape(data, (*data.shape[:axis], -1))
        if call.int("to_end")
        else np.moveaxis(data, axis, -1)
    )
    hit = np.argmax(last, axis=-1)[..., None] == np.arange(last.shape[-1])
    return [np.reshape(hit, data.shape) if call.int("to_end") else np.moveaxis(hit, -1, axis)]


def place(call: Call) -> list[Array]:
    """Place of the largest or least element, the first of equal ones unless told."""
    data, axis = call[0], call.int("axis")
    function = np.argmax if call.op.kind == "ArgMax" else np.argmin
    keep = len(call.result_dims[0]) == data.ndim
    if not call.int("select_last_index"):
        return [function(data, axis=axis, keepdims=keep)]
    return [data.shape[axis] - 1 - function(np.flip(data, axis), axis=axis, keepdims=keep)]


def top_k(call: Call) -> list[Array]:
    """The largest first; of equal ones the first."""
    data, chosen = call[0], call.result_dims[0]
    axis = call.int("axis", data.ndim - 1)
    plain = constant(data)
    order = np.argsort(-plain if call.int("largest", 1) else plain, axis=axis, kind="stable")
    index = order[tuple(slice(0, n) for n in chosen)]
    places = [
        np.arange(n).reshape([-1 if d == dim else 1 for d in range(data.ndim)])
        for dim, n in enumerate(chosen)
    ]
    places[axis] = index
    return [data[tuple(places)], converted(index, np.int64)][: len(call.result_dims)]


def scan(call: Call) -> list[Array]:
    """Running sums or products along an axis."""
    data, axis = call[0], call.int("axis")
    combine = np.add if call.op.kind == "CumSum" else np.multiply
    lines = [data[(slice(None),) * axis + (i,)] for i in range(data.shape[axis])]
    if not lines:
        return [data]
    if call.int("reverse"):
        lines.reverse()
    start = (
        np.zeros_like(constant(lines[0])) if combine is np.add else np.ones_like(constant(lines[0]))
    )
    found = [start + 0 * lines[0]] if call.int("exclusive") else [lines[0]]
    for line in lines[:-1] if call.int("exclusive") else lines[1:]:
        found.append(combine(found[-1], line))
    if call.int("reverse"):
        found.reverse()
    return [np.stack(found, axis=axis)]
