"""Operators that move or rename elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, Converter
from ir.graph import Tensor


def _reshape(call: Call) -> None:
    value = call.tensor("self")
    if value.dims == call.result.dims:
        call.alias(value)
    else:
        call.emit("Reshape", [value, call.shape(call.result.dims)])


def _view_type(call: Call) -> None:
    """The same bits in another element type."""
    raise UnsupportedError(call.target)


def _permuted(call: Call, perm: Sequence[int]) -> None:
    value = call.tensor("self")
    if tuple(perm) == tuple(range(len(value.dims))):
        call.alias(value)
    else:
        call.emit("Transpose", [value], perm=list(perm))


def _permute(call: Call) -> None:
    rank = len(call.tensor("self").dims)
    _permuted(call, [call.normal(d, rank) for d in call.ints("dims")])


@parametrised
def _exchange(call: Call, first: str, second: str) -> None:
    """Two dimensions change places."""
    rank = len(call.tensor("self").dims)
    perm = list(range(rank))
    if rank:
        a, b = call.axis(first, rank), call.axis(second, rank)
        perm[a], perm[b] = perm[b], perm[a]
    _permuted(call, perm)


def _flipped(call: Call) -> None:
    """`t`, `mT`: the last two dimensions change places."""
    rank = len(call.tensor("self").dims)
    _permuted(call, range(rank) if rank < 2 else [*range(rank - 2), rank - 1, rank - 2])


def _numpy_t(call: Call) -> None:
    _permuted(call, list(reversed(range(len(call.tensor("self").dims)))))


def _movedim(call: Call) -> None:
    rank = len(call.tensor("self").dims)
    source = [call.normal(d, rank) for d in call.ints("source")]
    target = [call.normal(d, rank) for d in call.ints("destination")]
    rest = [d for d in range(rank) if d not in source]
    places = dict(zip(target, source, strict=True))
    _permuted(call, [places[i] if i in places else rest.pop(0) for i in range(rank)])


def _expand(call: Call) -> None:
    value = call.tensor("self")
    if value.dims == call.result.dims:
        call.alias(value)
    else:
        call.emit("Expand", [value, call.shape(call.result.dims)])


def _broadcast(call: Call) -> None:
    """Tensors stretched to the dims that all of them have."""
    for index, value in enumerate(call.tensors("tensors")):
        result = call.results[index]
        if value is not None and result is not None and call.wants(index):
            same = value.dims == result.dims
            wide = [value, call.shape(result.dims)]
            call.alias(value if same else call.step("Expand", wide, result.dims), index)


def _unsqueeze(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims) + 1)
    call.emit("Unsqueeze", [value, call.shape([axis])])


def _squeeze(call: Call) -> None:
    value = call.tensor("self")
    rank = len(value.dims)
    asked = call.ints("dim") if call.has("dim") else tuple(range(rank))
    axes = sorted({call.normal(d, rank) for d in asked} & {
        i for i, d in enumerate(value.dims) if d == 1
    })  # fmt: skip
    if axes:
        call.emit("Squeeze", [value, call.shape(axes)])
    else:
        call.alias(value)


def sliced(
    call: Call, value: Tensor, axis: int, start: int, end: int, step: int = 1
) -> list[Tensor]:
    """Operands of a Slice along one dimension, bounds within it."""
    return [value, *(call.shape([n]) for n in (start, end, axis, step))]


def _slice(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), 0)
    size = value.dims[axis]
    start, end, step = call.int("start", 0), call.int("end", size), call.int("step", 1)
    start = min(max(start + size if start < 0 else start, 0), size)
    end = min(max(end + size if end < 0 else end, start), size)
    if (start, end, step) == (0, size, 1):
        call.alias(value)
    else:
        call.emit("Slice", sliced(call, value, axis, start, end, step))


def _narrow(call: Call) -> None:
    value = call.tensor("self")
    axis, start = call.axis("dim", len(value.dims)), call.int("start")
    call.emit("Slice", sliced(call, value, axis, start, start + call.int("length")))


def _select(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims))
    index = call.normal(call.int("index"), value.dims[axis])
    dims = (*value.dims[:axis], 1, *value.dims[axis + 1 :])
    piece = call.step("Slice", sliced(call, value, axis, index, index + 1), dims)
    call.emit("Squeeze", [piece, call.shape([axis])])


def _split(call: Call) -> None:
    """Pieces of the sizes that the tracer noted of the results."""
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), 0)
    sizes = [r.dims[axis] for r in call.results if r is not None]
    if len(sizes) == 1:
        call.alias(value)
    else:
        call.emit("Split", [value, call.shape(sizes)], axis=axis)


def _unbind(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), 0)
    dims = (*value.dims[:axis], 1, *value.dims[axis + 1 :])
    for index in range(len(call.results)):
        result = call.results[index]
        if result is not None and call.wants(index):
            piece = call.step("Slice", sliced(call, value, axis, index, index + 1), dims)
            call.alias(call.step("Squeeze", [piece, call.shape([axis])], result.dims), index)


def _cat(call: Call) -> None:
    """Empty vectors count for nothing."""
    dtype, rank = call.result.dtype, len(call.result.dims)
    parts = [t for t in call.tensors("tensors") if t is not None and t.dims != (0,)]
    axis = call.axis("dim", rank, 0)
    if len(parts) == 1:
        call.finish(parts[0])
    else:
        call.emit("Concat", [call.cast(t, dtype) for t in parts], axis=axis)


def _stack(call: Call) -> None:
    rank = len(call.result.dims)
    axis = call.axis("dim", rank, 0)
    parts = []
    for tensor in call.tensors("tensors"):
        if tensor is not None:
            dims = (*tensor.dims[:axis], 1, *tensor.dims[axis:])
            wide = call.step("Unsqueeze", [tensor, call.shape([axis])], dims)
            parts.append(call.cast(wide, call.result.dtype))
    call.emit("Concat", parts, axis=axis)


def _repeat(name: str) -> Converter:
    return lambda c: _repeated(c, c.ints(name))


def _repeated(call: Call, repeats: tuple[int, ...]) -> None:
    value = call.tensor("self")
    if len(repeats) < len(value.dims):
        repeats = (*[1] * (len(value.dims) - len(repeats)), *repeats)
    rank = len(repeats)
    if len(value.dims) < rank:
        dims = (*[1] * (rank - len(value.dims)), *value.dims)
        value = call.step("Reshape", [value, call.shape(dims)], dims)
    if all(n == 1 for n in repeats):
        call.alias(value)
    else:
        call.emit("Tile", [value, call.shape(repeats)])


def _repeat_each(call: Call) -> None:
    """Each element along a dimension some times: stretched and merged."""
    value = call.tensor("self")
    if not call.has("dim"):
        flat = (math.prod(value.dims),)
        value = call.step("Reshape", [value, call.shape(flat)], flat)
    axis = call.axis("dim", len(value.dims), 0)
    times = call.int("repeats")
    dims = (*value.dims[: axis + 1], 1, *value.dims[axis + 1 :])
    wide = (*value.dims[: axis + 1], times, *value.dims[axis + 1 :])
    apart = call.step("Unsqueeze", [value, call.shape([axis + 1])], dims)
    many = call.step("Expand", [apart, call.shape(wide)], wide)
    call.emit("Reshape", [many, call.shape(call.result.dims)])


def _pad(call: Call) -> None:
    """Pairs begin at the last dimension."""
    value, pad = call.tensor("self"), call.ints("pad")
    if call.text("mode", "constant") not in {"constant", "reflect", "replicate", "circular"}:
        raise call.fault("its mode is none of constant, reflect, replicate, circular")
    rank = len(value.dims)
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    mode = {"replicate": "edge", "circular": "wrap"}.get(
        call.text("mode", "constant"), call.text("mode", "constant")
    )
    filling = call.scalar(call.float("value", 0.0), value.dtype) if mode == "constant" else None
    call.emit("Pad", [value, call.shape([*before, *after]), filling], mode=mode)


def _flip(call: Call) -> None:
    value = call.tensor("self")
    axes = [call.normal(d, len(value.dims)) for d in call.ints("dims")]
    least = [-(2**62)] * len(axes)
    operands = [call.shape(v) for v in ([-1] * len(axes), least, axes, [-1] * len(axes))]
    call.emit("Slice", [value, *operands])


def _roll(call: Call) -> None:
    """Along each dimension the end comes first."""
    value = call.tensor("self")
    shifts, axes = call.ints("shifts"), call.ints("dims")
    if not axes:
        raise UnsupportedError(call.target)
    for shift, asked in zip(shifts, axes, strict=True):
        axis = call.normal(asked, len(value.dims))
        size = value.dims[axis]
        cut = -shift % size
        if cut:
            head, tail = (
                call.step("Slice", sliced(call, value, axis, a, b),
                          (*value.dims[:axis], b - a, *value.dims[axis + 1 :]))
                for a, b in ((cut, size), (0, cut))
            )  # fmt: skip
            value = call.step("Concat", [head, tail], value.dims, axis=axis)
    call.finish(value)


@parametrised
def _triangle(call: Call, upper: int) -> None:
    offset = call.writer.constant(call.int("diagonal", 0), "int64")
    call.emit("Trilu", [call.tensor("self"), offset], upper=upper)


def _difference(call: Call) -> None:
    """`diff` once: neighbours along a dimension, with what is put in front and behind."""
    if call.int("n", 1) != 1:
        raise UnsupportedError(call.target)
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), -1)
    parts = [t for t in (call.optional("prepend"), value, call.optional("append")) if t is not None]
    size = sum(t.dims[axis] for t in parts)
    dims = (*value.dims[:axis], size, *value.dims[axis + 1 :])
    row = value if len(parts) == 1 else call.step("Concat", parts, dims, axis=axis)
    less = (*value.dims[:axis], size - 1, *value.dims[axis + 1 :])
    later, earlier = (
        call.step("Slice", sliced(call, row, axis, a, b), less)
        for a, b in ((1, size), (0, size - 1))
    )
    call.emit("Sub", [later, earlier])


MOVES: Mapping[str, Converter] = MappingProxyType(
    {
        "view(self, size)": _reshape,
        "view.dtype(self, dtype)": _view_type,
        "_unsafe_view(self, size)": _reshape,
        "reshape(self, shape)": _reshape,
        "view_as(self, other)": _reshape,
        "reshape_as(self, other)": _reshape,
        "view_copy(self, size)": _reshape,
        "flatten.using_ints(self, start_dim, end_dim)": _reshape,
        "unflatten.int(self, dim, sizes)": _reshape,
        "permute(self, dims)": _permute,
        "permute_copy(self, dims)": _permute,
        "transpose.int(self, dim0, dim1)": _exchange("dim0", "dim1"),
        "swapaxes(self, axis0, axis1)": _exchange("axis0", "axis1"),
        "t(self)": _flipped,
        "mT(self)": _flipped,
        "numpy_T(self)": _numpy_t,
        "movedim.{intlist,int}(self, source, destination)": _movedim,
        "expand(self, size, implicit)": _expand,
        "expand_as(self, other)": _expand,
        "expand_copy(self, size)": _expand,
        "broadcast_to(self, size)": _expand,
        "broadcast_tensors(tensors)": _broadcast,
        "unsqueeze(self, dim)": _unsqueeze,
        "unsqueeze_copy(self, dim)": _unsqueeze,
        "squeeze(self)": _squeeze,
        "squeeze.{dim,dims}(self, dim)": _squeeze,
        "squeeze_copy(self)": _squeeze,
        "squeeze_copy.{dim,dims}(self, dim)": _squeeze,
        "slice.Tensor(self, dim, start, end, step)": _slice,
        "slice_copy.Tensor(self, dim, start, end, step)": _slice,
        "narrow(self, dim, start, length)": _narrow,
        "select.int(self, dim, index)": _select,
        "select_copy.int(self, dim, index)": _select,
        "split.{Tensor,sizes}(self, split_size, dim)": _split,
        "split_with_sizes(self, split_sizes, dim)": _split,
        "split_with_sizes_copy(self, split_sizes, dim)": _split,
        "chunk(self, chunks, dim)": _split,
        "unsafe_chunk(self, chunks, dim)": _split,
        "tensor_split.sections(self, sections, dim)": _split,
        "unbind.int(self, dim)": _unbind,
        "cat(tensors, dim)": _cat,
        "concat(tensors, dim)": _cat,
        "stack(tensors, dim)": _stack,
        "repeat(self, repeats)": _repeat("repeats"),
        "tile(self, dims)": _repeat("dims"),
        "repeat_interleave.self_int(self, repeats, dim, output_size)": _repeat_each,
        "constant_pad_nd(self, pad, value)": _pad,
        "pad(self, pad, mode, value)": _pad,
        "flip(self, dims)": _flip,
        "roll(self, shifts, dims)": _roll,
        "tril(self, diagonal)": _triangle(0),
        "triu(self, diagonal)": _triangle(1),
        "diff(self, n, dim, prepend, append)": _difference,
    }
)
