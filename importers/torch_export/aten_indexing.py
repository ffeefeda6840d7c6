"""Look-ups and scattered writes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, Converter
from ir.graph import Tensor


def _embedding(call: Call) -> None:
    call.emit("Gather", [call.tensor("weight"), call.tensor("indices")], axis=0)


def _select(call: Call) -> None:
    value = call.tensor("self")
    call.emit("Gather", [value, call.tensor("index")], axis=call.axis("dim", len(value.dims)))


def _elements(call: Call) -> None:
    value = call.tensor("self")
    index = call.tensor("indices" if call.has("indices") else "index")
    if len(index.dims) != len(value.dims) or not call.has("dim"):
        raise UnsupportedError(call.target)
    call.emit("GatherElements", [value, index], axis=call.axis("dim", len(value.dims)))


@parametrised
def _scattered(call: Call, reduction: str, source: str) -> None:
    value, index = call.tensor("self"), call.tensor("index")
    axis = call.axis("dim", len(value.dims))
    updates = call.arguments.get(source)
    if not isinstance(updates, Tensor):
        one = call.scalar(updates, value.dtype)
        updates = call.step("Expand", [one, call.shape(index.dims)], index.dims)
    elif updates.dims != index.dims:
        updates = _leading(call, updates, index.dims)
    kind = reduction or _REDUCTIONS.get(call.text("reduce", ""), "none")
    call.emit("ScatterElements", [value, index, updates], axis=axis, reduction=kind)


_REDUCTIONS: Mapping[str, str] = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul",
                                  "amax": "max", "amin": "min"}  # fmt: skip


def _leading(call: Call, value: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The first part of a tensor along every dimension."""
    axes = list(range(len(dims)))
    ends = [call.shape(v) for v in ([0] * len(axes), list(dims), axes)]
    return call.step("Slice", [value, *ends], dims)


def _indices(call: Call) -> list[Tensor | None]:
    return call.tensors("indices")


def _index(call: Call) -> None:
    """Tensors as indices of some dimensions: one alone is a Gather, several are coordinates."""
    value, indices = call.tensor("self"), _indices(call)
    used = [i for i, t in enumerate(indices) if t is not None]
    if any(t is not None and t.dtype in {"bool", "uint8"} for t in indices):
        raise UnsupportedError(call.target)
    if len(used) == 1:
        only = indices[used[0]]
        call.emit("Gather", [value, only], axis=used[0])
        return
    if used != list(range(used[0], used[-1] + 1)):
        raise UnsupportedError(call.target)
    first, rank = used[0], len(value.dims)
    perm = [*used, *(d for d in range(rank) if d not in used)]
    if first:
        value = call.step("Transpose", [value], tuple(value.dims[p] for p in perm), perm=perm)
    places, width = _coordinates(call, [t for t in indices if t is not None])
    if not first:
        call.emit("GatherND", [value, places])
        return
    # Between the dimensions in front and those behind stand the dimensions of the indices.
    found = (*places.dims[:-1], *value.dims[width:])
    row = call.step("GatherND", [value, places], found)
    count = len(places.dims) - 1
    back = [*range(count, count + first), *range(count), *range(count + first, len(found))]
    call.emit("Transpose", [row], perm=back)


def _coordinates(call: Call, indices: Sequence[Tensor]) -> tuple[Tensor, int]:
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
            whole = call.step("Expand", [whole, call.shape(shape)], shape)
        parts.append(call.step("Unsqueeze", [whole, call.shape([rank])], (*shape, 1)))
    if len(parts) == 1:
        return parts[0], 1
    return call.step("Concat", parts, (*shape, len(parts)), axis=rank), len(parts)


def _index_put(call: Call) -> None:
    """Rows at the coordinates of the leading dimensions are written, or added."""
    value, indices = call.tensor("self"), _indices(call)
    used = [t for t in indices if t is not None]
    leading = indices[: len(used)] == used
    if not used or not leading or any(t.dtype in {"bool", "uint8"} for t in used):
        raise UnsupportedError(call.target)
    places, width = _coordinates(call, used)
    dims = (*places.dims[:-1], *value.dims[width:])
    updates = call.operand("values", value.dtype)
    if updates.dims != dims:
        updates = call.step("Expand", [updates, call.shape(dims)], dims)
    reduction = "add" if call.flag("accumulate") else "none"
    call.emit("ScatterND", [value, places, updates], reduction=reduction)


def _slice_scatter(call: Call) -> None:
    """A part of a tensor replaced: what is before, the part, and what is behind."""
    value, part = call.tensor("self"), call.tensor("src")
    axis = call.axis("dim", len(value.dims), 0)
    size, step = value.dims[axis], call.int("step", 1)
    start, end = call.int("start", 0), call.int("end", size)
    start = min(max(start + size if start < 0 else start, 0), size)
    end = min(max(end + size if end < 0 else end, start), size)
    if step != 1:
        raise UnsupportedError(call.target)
    _replaced(call, value, part, axis, (start, end))


def _select_scatter(call: Call) -> None:
    value, part = call.tensor("self"), call.tensor("src")
    axis = call.axis("dim", len(value.dims))
    index = call.normal(call.int("index"), value.dims[axis])
    dims = (*value.dims[:axis], 1, *value.dims[axis + 1 :])
    wide = call.step("Unsqueeze", [part, call.shape([axis])], dims)
    _replaced(call, value, wide, axis, (index, index + 1))


def _replaced(call: Call, value: Tensor, part: Tensor, axis: int, span: tuple[int, int]) -> None:
    pieces = [part]
    for low, high, place in ((0, span[0], 0), (span[1], value.dims[axis], len(value.dims))):
        if high > low:
            dims = (*value.dims[:axis], high - low, *value.dims[axis + 1 :])
            bounds = [call.shape([n]) for n in (low, high, axis)]
            piece = call.step("Slice", [value, *bounds], dims)
            pieces.insert(0 if not place else len(pieces), piece)
    if len(pieces) == 1:
        call.finish(part)
    else:
        call.emit("Concat", pieces, axis=axis)


def _index_add(call: Call) -> None:
    """Rows along one dimension are added where the index says."""
    value, index, source = call.tensor("self"), call.tensor("index"), call.tensor("source")
    axis = call.axis("dim", len(value.dims))
    if call.get("alpha", 1) != 1:
        raise UnsupportedError(call.target)
    shape = [1] * len(source.dims)
    shape[axis] = math.prod(index.dims)
    row = call.step("Reshape", [index, call.shape(shape)], tuple(shape))
    wide = call.step("Expand", [row, call.shape(source.dims)], source.dims)
    call.emit("ScatterElements", [value, wide, source], axis=axis, reduction="add")


def _one_hot(call: Call) -> None:
    value = call.tensor("self")
    depth = call.result.dims[-1]
    pair = call.writer.constant([0, 1], "int64")
    call.emit("OneHot", [value, call.writer.constant(depth, "int64"), pair], axis=-1)


INDEXING: Mapping[str, Converter] = MappingProxyType(
    {
        "embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)": _embedding,
        "index_select(self, dim, index)": _select,
        "gather(self, dim, index, sparse_grad)": _elements,
        "take_along_dim(self, indices, dim)": _elements,
        "index.Tensor(self, indices)": _index,
        "_unsafe_index.Tensor(self, indices)": _index,
        "index_put(self, indices, values, accumulate)": _index_put,
        "_unsafe_index_put(self, indices, values, accumulate)": _index_put,
        "index_add(self, dim, index, source, alpha)": _index_add,
        "scatter.src(self, dim, index, src)": _scattered("none", "src"),
        "scatter.value(self, dim, index, value)": _scattered("none", "value"),
        "scatter_add(self, dim, index, src)": _scattered("add", "src"),
        "scatter_reduce.two(self, dim, index, src, reduce, include_self)": _scattered("", "src"),
        "slice_scatter(self, src, dim, start, end, step)": _slice_scatter,
        "select_scatter(self, src, dim, index)": _select_scatter,
        "one_hot(self, num_classes)": _one_hot,
    }
)
