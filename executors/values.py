"""Numbers for the inputs and weights of a graph, where a model file has none."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from executors.evaluation import working_dtype
from executors.placement import Array
from ir.graph import Op, OpGraph, Role, Tensor
from ir.ops import COMBINE, DISPATCH, lookup
from ir.ops.registry import OpView
from ir.ops.shape import CARRIERS


def numbers(
    graph: OpGraph, names: Iterable[str], known: Mapping[str, Array], seed: int = 0
) -> dict[str, Array]:
    """An array for every name: what is known, cut to its dims, and noise that repeats else."""
    limits, statistics = _index_limits(graph), _statistics(graph)
    out: dict[str, Array] = {}
    for name in names:
        tensor = graph.tensors[name]
        dtype = working_dtype(tensor.dtype)
        if name in known:
            out[name] = _leading(known[name], tensor).astype(dtype)
            if name in limits and dtype.kind in "iu":
                out[name] = _wrapped(out[name], limits[name])
        else:
            positive = name in statistics or tensor.role is Role.BUFFER
            out[name] = _noise(tensor, limits.get(name), seed, positive=positive).astype(dtype)
    out.update(_balanced_routes(graph))
    return out


def _balanced_routes(graph: OpGraph) -> dict[str, Array]:
    """Experts of the token slots, one after the other: a plan's shapes hold for an equal load only,
    which no router gives to noise.
    """
    out: dict[str, Array] = {}
    for op in graph.ops:
        if op.kind in {DISPATCH, COMBINE} and len(op.inputs) > 1 and op.inputs[1]:
            experts = graph.tensors[(op.outputs if op.kind == DISPATCH else op.inputs)[0]].dims[0]
            index = graph.tensors[op.inputs[1]]
            slots = np.arange(index.elements, dtype=working_dtype(index.dtype))
            out[op.inputs[1]] = (slots % experts).reshape(index.dims)
    return out


def _leading(array: Array, tensor: Tensor) -> Array:
    """The first part of an array, for a graph whose extents were cut.

    Where another batch made an extent larger, positions go on counting and all else repeats.
    """
    if array.ndim != len(tensor.dims):
        return np.resize(array, tensor.dims)
    for axis, size in enumerate(tensor.dims):
        array = _continued(array, axis, size)
    return array[tuple(slice(size) for size in tensor.dims)]


def _continued(array: Array, axis: int, size: int) -> Array:
    old = array.shape[axis]
    if old >= size or not old:
        return array
    index = np.arange(size)
    repeated = np.take(array, index % old, axis=axis)
    steps = np.diff(array, axis=axis) if array.dtype.kind in "iuf" else array[:0]
    if old < 2 or not steps.size or not (steps == np.take(steps, [0], axis=axis)).all():
        return repeated
    turns = (index // old).reshape([-1 if d == axis else 1 for d in range(array.ndim)])
    return np.asarray(repeated + turns * old * np.take(steps, [0], axis=axis), dtype=array.dtype)


def _wrapped(array: Array, limit: int) -> Array:
    return np.where(array < 0, -(-array % limit), array % limit)


def _noise(tensor: Tensor, limit: int | None, seed: int, *, positive: bool) -> Array:
    """Numbers that depend on the name and the seed alone."""
    draw = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    if tensor.dtype == "bool":
        return np.ones(tensor.dims, dtype=np.bool_)
    if not tensor.is_float:
        return draw.integers(0, limit if limit is not None else 2, tensor.dims)
    if positive:
        return draw.uniform(0.5, 1.5, tensor.dims)
    width = min(tensor.dims, default=1) if len(tensor.dims) > 1 else 1
    return draw.uniform(-1, 1, tensor.dims) / math.sqrt(width)


def _statistics(graph: OpGraph) -> set[str]:
    """Tensors that hold running means and variances."""
    return {
        op.inputs[i]
        for op in graph.ops
        for i in lookup(op.kind).buffer_operands
        if i < len(op.inputs)
    }


def _index_limits(graph: OpGraph) -> dict[str, int]:
    """For tensors that operators look up by: how many rows there are."""
    limits: dict[str, int] = {}
    every = [each for op in graph.ops for each in (*op.parts, op)]
    for each in reversed(every):
        _limit(each, graph, limits)
    return limits


def _limit(op: Op, graph: OpGraph, limits: dict[str, int]) -> None:
    if op.kind in CARRIERS and op.outputs[0] in limits and op.inputs[0]:
        _lower(limits, op.inputs[0], limits[op.outputs[0]])
    entry = lookup(op.kind)
    if len(op.inputs) > 1 and op.inputs[1] and entry.parameter_operands == (0,):
        view = OpView(op, graph)
        rows = view.dims(0)[view.int("axis")] if view.dims(0) else 1
        _lower(limits, op.inputs[1], rows)


def _lower(limits: dict[str, int], name: str, limit: int) -> None:
    limits[name] = min(limit, limits.get(name, limit))
