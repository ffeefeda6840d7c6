"""Look-ups and scattered writes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call
from importers.traced.operations.slices import bounds
from importers.traced.table import spelled
from ir.graph import Tensor


@spelled(
    aten="embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)",
    mindir="Embedding(input as indices, weight, padding_idx, max_norm, norm_type,"
    "scale_grad_by_freq)",
)
def _embedding(call: Call) -> None:
    call.answer.gather(call.tensor("weight"), call.tensor("indices"), 0)


@spelled(
    aten="index_select(self, dim, index)",
    mindir="IndexSelect(input as self, dim, index);"
    "Gather(input_params as self, input_indices as index, axis as dim, batch_dims)",
)
def _select(call: Call) -> None:
    value = call.tensor("self")
    if call.int("batch_dims", 0):
        raise UnsupportedError(call.target)
    call.answer.gather(value, call.tensor("index"), call.axis("dim", len(value.dims)))


@spelled(mindir="GatherNd(input_x as self, indices)")
def _rows(call: Call) -> None:
    call.answer.gather_nd(call.tensor("self"), call.cast(call.tensor("indices"), "int64"))


@spelled(
    aten="gather(self, dim, index, sparse_grad); take_along_dim(self, indices as index, dim)",
    mindir="GatherD(x as self, dim, index)",
)
def _elements(call: Call) -> None:
    value, index = call.tensor("self"), call.tensor("index")
    if len(index.dims) != len(value.dims) or not call.has("dim"):
        raise UnsupportedError(call.target)
    call.answer.gather_elements(value, index, call.axis("dim", len(value.dims)))


_REDUCTIONS: Mapping[str, str] = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul",
                                  "amax": "max", "amin": "min", "1": "add"}  # fmt: skip
"""By PyTorch's word, or MindSpore's number."""


@parametrised
def _scattered(call: Call, reduction: str = "") -> None:
    """One number, or a tensor of which the leading part counts, at places along a dimension."""
    value, index = call.tensor("self"), call.tensor("index")
    axis = call.axis("dim", len(value.dims), 0)
    updates = call.arguments.get("src")
    if not isinstance(updates, Tensor):
        updates = call.expand(call.scalar(updates, value.dtype), *index.dims)
    elif updates.dims != index.dims:
        updates = _leading(call, updates, index.dims)
    kind = reduction or _REDUCTIONS.get(call.text("reduce", ""), "none")
    call.answer.scatter_elements(value, index, updates, axis, kind)


spelled(aten="scatter.src(self, dim, index, src); scatter.value(self, dim, index, value as src)")(
    _scattered("none")
)
spelled(
    aten="scatter_add(self, dim, index, src)",
    mindir="ScatterAddExt(input as self, dim, index, src)",
)(_scattered("add"))
spelled(
    aten="scatter_reduce.two(self, dim, index, src, reduce, include_self)",
    mindir="TensorScatterElements(data as self, indices as index, updates as src, axis as dim,"
    "reduce)",
)(_scattered())


@parametrised
def _scattered_rows(call: Call, reduction: str) -> None:
    places = call.cast(call.tensor("indices"), "int64")
    call.answer.scatter_nd(call.tensor("self"), places, call.tensor("updates"), reduction)


for _kind in ("none", "add", "mul", "max", "min"):
    _name = "Update" if _kind == "none" else _kind.capitalize()
    spelled(mindir=f"TensorScatter{_name}(input_x as self, indices, updates)")(
        _scattered_rows(_kind)
    )


@spelled(mindir="ScatterNd(indices, updates, shape)")
def _scatter_nd(call: Call) -> None:
    """Into zeros; what falls on one place is added."""
    zeros = call.expand(call.scalar(0, call.result.dtype), *call.result.dims)
    places = call.cast(call.tensor("indices"), "int64")
    call.answer.scatter_nd(zeros, places, call.tensor("updates"), "add")


def _leading(call: Call, value: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The first part of a tensor along every dimension."""
    return call.slices(value, [0] * len(dims), dims, range(len(dims)))


@spelled(aten="index.Tensor _unsafe_index.Tensor(self, indices)")
def _index(call: Call) -> None:
    """Tensors as indices of some dimensions: one alone is a Gather, several are coordinates."""
    value, indices = call.tensor("self"), call.tensors("indices")
    used = [i for i, t in enumerate(indices) if t is not None]
    if any(t is not None and t.dtype in {"bool", "uint8"} for t in indices):
        raise UnsupportedError(call.target)
    known = [t for t in indices if t is not None]
    if len(used) == 1:
        call.answer.gather(value, known[0], used[0])
        return
    if used != list(range(used[0], used[-1] + 1)):
        raise UnsupportedError(call.target)
    first, rank = used[0], len(value.dims)
    perm = [*used, *(d for d in range(rank) if d not in used)]
    if first:
        value = call.transpose(value, *perm)
    places = _coordinates(call, known)
    if not first:
        call.answer.gather_nd(value, places)
        return
    # Between the dimensions in front and those behind stand the dimensions of the indices.
    row = call.gather_nd(value, places)
    count = len(places.dims) - 1
    back = [*range(count, count + first), *range(count), *range(count + first, len(row.dims))]
    call.answer.transpose(row, *back)


def _coordinates(call: Call, indices: Sequence[Tensor]) -> Tensor:
    """Indices side by side in a last dimension, counted from the front."""
    rank = max(len(t.dims) for t in indices)
    shape = tuple(
        max((t.dims[len(t.dims) - rank + i] if len(t.dims) - rank + i >= 0 else 1) for t in indices)
        for i in range(rank)
    )
    parts = []
    for index in indices:
        whole = call.cast(index, "int64")
        if whole.dims != shape:
            whole = call.expand(whole, *shape)
        parts.append(call.unsqueeze(whole, rank))
    return parts[0] if len(parts) == 1 else call.concat(rank, *parts)


@spelled(aten="index_put _unsafe_index_put(self, indices, values, accumulate)")
def _index_put(call: Call) -> None:
    """Rows at the coordinates of the leading dimensions are written, or added."""
    value, indices = call.tensor("self"), call.tensors("indices")
    used = [t for t in indices if t is not None]
    leading = indices[: len(used)] == used
    if not used or not leading or any(t.dtype in {"bool", "uint8"} for t in used):
        raise UnsupportedError(call.target)
    places = _coordinates(call, used)
    dims = (*places.dims[:-1], *value.dims[len(used) :])
    updates = call.operand("values", value.dtype)
    if updates.dims != dims:
        updates = call.expand(updates, *dims)
    reduction = "add" if call.flag("accumulate") else "none"
    call.answer.scatter_nd(value, places, updates, reduction)


@spelled(aten="slice_scatter(self, src, dim, start, end, step)")
def _slice_scatter(call: Call) -> None:
    """A part of a tensor replaced: what is before, the part, and what is behind."""
    value, part = call.tensor("self"), call.tensor("src")
    axis = call.axis("dim", len(value.dims), 0)
    if call.int("step", 1) != 1:
        raise UnsupportedError(call.target)
    _replaced(call, value, part, axis, bounds(call, value.dims[axis]))


@spelled(aten="select_scatter(self, src, dim, index)")
def _select_scatter(call: Call) -> None:
    value, part = call.tensor("self"), call.tensor("src")
    axis = call.axis("dim", len(value.dims))
    index = call.normal(call.int("index"), value.dims[axis])
    _replaced(call, value, call.unsqueeze(part, axis), axis, (index, index + 1))


def _replaced(call: Call, value: Tensor, part: Tensor, axis: int, span: tuple[int, int]) -> None:
    pieces = [part]
    for low, high, place in ((0, span[0], 0), (span[1], value.dims[axis], len(value.dims))):
        if high > low:
            piece = call.slices(value, [low], [high], [axis])
            pieces.insert(0 if not place else len(pieces), piece)
    if len(pieces) == 1:
        call.finish(part)
    else:
        call.answer.concat(axis, *pieces)


@spelled(aten="index_add(self, dim, index, source, alpha)")
def _index_add(call: Call) -> None:
    """Rows along one dimension are added where the index says."""
    value, index, source = call.tensor("self"), call.tensor("index"), call.tensor("source")
    axis = call.axis("dim", len(value.dims))
    if call.get("alpha", 1) != 1:
        raise UnsupportedError(call.target)
    shape = [1] * len(source.dims)
    shape[axis] = math.prod(index.dims)
    wide = call.expand(call.reshape(index, *shape), *source.dims)
    call.answer.scatter_elements(value, wide, source, axis, "add")


@spelled(aten="one_hot(self, num_classes)")
def _one_hot(call: Call) -> None:
    value = call.tensor("self")
    depth = call.result.dims[-1]
    pair = call.writer.constant([0, 1], "int64")
    call.emit("OneHot", [value, call.writer.constant(depth, "int64"), pair], axis=-1)


@spelled(
    mindir="OneHot(indices as self, depth, on_value, off_value, axis);"
    "OneHotExt(tensor as self, num_classes, on_value, off_value, axis)"
)
def _one_of(call: Call) -> None:
    """In the type of the two values."""
    indices, dtype = call.tensor("self"), call.result.dtype
    pair = [call.operand(n, dtype) for n in ("off_value", "on_value")]
    values = call.concat(0, *(call.reshape(v, 1) for v in pair))
    depth = call.writer.constant(call.result.dims[call.int("axis", -1)], "int64")
    call.emit("OneHot", [indices, depth, values], axis=call.int("axis", -1))
