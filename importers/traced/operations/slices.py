"""Parts of tensors."""

from __future__ import annotations

from importers.errors import UnsupportedError
from importers.traced.call import Call
from importers.traced.table import spelled
from ir.graph import Tensor


@spelled(
    aten="slice.Tensor slice_copy.Tensor(self, dim, start, end, step)",
    mindir="SliceExt SliceExtView(input as self, dim, start, end, step)",
)
def _slice(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), 0)
    (start, end), step = bounds(call, value.dims[axis]), call.int("step", 1)
    if (start, end, step) == (0, value.dims[axis], 1):
        call.alias(value)
    else:
        call.answer.cut(value, axis, start, end, step)


def bounds(call: Call, size: int) -> tuple[int, int]:
    """`start` and `end` of a part, within the size of its dimension."""
    start, end = call.int("start", 0), call.int("end", size)
    start = min(max(start + size if start < 0 else start, 0), size)
    return start, min(max(end + size if end < 0 else end, start), size)


@spelled(
    aten="narrow(self, dim, start, length)",
    mindir="Narrow NarrowView(input as self, dim, start, length)",
)
def _narrow(call: Call) -> None:
    value = call.tensor("self")
    axis, start = call.axis("dim", len(value.dims)), call.int("start")
    call.answer.cut(value, axis, start, start + call.int("length"))


@spelled(mindir="Slice(input as self, begin, size)")
def _sliced_from(call: Call) -> None:
    """From a place on, so many elements; -1 is all that are left."""
    value, begin = call.tensor("self"), call.ints("begin")
    ends = [b + d for b, d in zip(begin, call.result.dims, strict=True)]
    call.answer.slices(value, begin, ends, range(len(ends)))


@spelled(
    mindir="StridedSlice(input_x as self, begin, end, strides, begin_mask, end_mask,"
    "ellipsis_mask, new_axis_mask, shrink_axis_mask)"
)
def _strided(call: Call) -> None:
    """Python's slicing: masks say which bounds are open, which dimensions are new or go."""
    value = call.tensor("self")
    masks = {n: call.int(f"{n}_mask", 0) for n in ("begin", "end", "ellipsis", "shrink_axis")}
    masks["new"] = call.int("new_axis_mask", 0)
    begin, end, step = (list(call.ints(n)) for n in ("begin", "end", "strides"))
    if masks["ellipsis"] or masks["new"] or not len(begin) == len(end) == len(step):
        raise UnsupportedError(call.target)
    gone = []
    for axis, size in enumerate(value.dims[: len(begin)]):
        if masks["shrink_axis"] >> axis & 1:
            first = call.normal(begin[axis], size)
            begin[axis], end[axis], step[axis] = first, first + 1, 1
            gone.append(axis)
            continue
        if masks["begin"] >> axis & 1:
            begin[axis] = 0 if step[axis] > 0 else size - 1
        if masks["end"] >> axis & 1:
            end[axis] = size if step[axis] > 0 else -(2**62)
    axes = range(len(begin))
    if gone:
        call.answer.squeeze(call.slices(value, begin, end, axes, step), *gone)
    else:
        call.answer.slices(value, begin, end, axes, step)


@spelled(
    aten="select.int select_copy.int(self, dim, index)",
    mindir="SelectExtView(input as self, dim, index)",
)
def _select(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims))
    index = call.normal(call.int("index"), value.dims[axis])
    call.answer.squeeze(call.cut(value, axis, index, index + 1), axis)


@spelled(
    aten="split.{Tensor,sizes}(self, split_size, dim);"
    "split_with_sizes split_with_sizes_copy(self, split_sizes, dim);"
    "chunk unsafe_chunk(self, chunks, dim); tensor_split.sections(self, sections, dim)",
    mindir="Split(input_x as self, axis as dim, output_num);"
    "SplitTensor SplitTensorView SplitWithSize SplitWithSizeView(input as self, split_size, dim);"
    "SplitV(input_x as self, size_splits, split_dim as dim, num_split);"
    "Chunk ChunkView(input as self, chunks, dim)",
)
def _split(call: Call) -> None:
    """Pieces of the sizes that the tracer noted of the results."""
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), 0)
    sizes = [r.dims[axis] for r in call.results if r is not None]
    if len(sizes) == 1:
        call.alias(value)
    else:
        call.emit("Split", [value, call.shape(sizes)], axis=axis)


def halves(call: Call) -> list[Tensor]:
    """The halves of an operand, each with the dims of the result."""
    value, dims = call.tensor("self"), call.result.dims
    axis = call.axis("dim", len(value.dims), -1)
    parts = [call.writer.tensor(f"{call.name}/half{i}", dims, value.dtype) for i in (0, 1)]
    call.write("Split", [value], parts, "/halves", axis=axis, num_outputs=2)
    return parts


@spelled(
    aten="unbind.int(self, dim)",
    mindir="Unstack(x as self, axis as dim, num); UnstackExtView(input as self, dim)",
)
def _unbind(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), 0)
    for index, result in enumerate(call.results):
        if result is not None and call.is_read(index):
            piece = call.cut(value, axis, index, index + 1)
            call.alias(call.squeeze(piece, axis), index)


@spelled(aten="flip(self, dims)", mindir="ReverseV2(input as self, axis as dims)")
def _flip(call: Call) -> None:
    value = call.tensor("self")
    axes = [call.normal(d, len(value.dims)) for d in call.ints("dims")]
    least = [-(2**62)] * len(axes)
    call.answer.slices(value, [-1] * len(axes), least, axes, [-1] * len(axes))


@spelled(aten="roll(self, shifts, dims)", mindir="Roll(input as self, shifts, dims)")
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
            pieces = [call.cut(value, axis, a, b) for a, b in ((cut, size), (0, cut))]
            value = call.concat(axis, *pieces)
    call.finish(value)


@spelled(aten="diff(self, n, dim, prepend, append)")
def _difference(call: Call) -> None:
    """Once: neighbours along a dimension, with what is put in front and behind."""
    if call.int("n", 1) != 1:
        raise UnsupportedError(call.target)
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims), -1)
    parts = [t for t in (call.optional("prepend"), value, call.optional("append")) if t is not None]
    size = sum(t.dims[axis] for t in parts)
    row = value if len(parts) == 1 else call.concat(axis, *parts)
    later, earlier = (call.cut(row, axis, a, b) for a, b in ((1, size), (0, size - 1)))
    call.answer.sub(later, earlier)
