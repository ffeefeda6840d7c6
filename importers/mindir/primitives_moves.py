"""Primitives that move, look up or make elements."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.torch_export.aten import aten
from importers.traced.call import Call, Converter
from ir.graph import Tensor


def _squeeze(call: Call) -> None:
    """The named dimensions, or all of size one."""
    value = call.tensor("self")
    rank = len(value.dims)
    asked = {call.normal(a, rank) for a in call.ints("axis")} or range(rank)
    axes = [a for a in asked if value.dims[a] == 1]
    if axes:
        call.emit("Squeeze", [value, call.shape(sorted(axes))])
    else:
        call.alias(value)


def _slice(call: Call) -> None:
    """From a place on, so many elements; -1 is all that are left."""
    value, begin = call.tensor("self"), call.ints("begin")
    ends = [b + d for b, d in zip(begin, call.result.dims, strict=True)]
    axes = list(range(len(ends)))
    call.emit("Slice", [value, *(call.shape(v) for v in (begin, ends, axes))])


def _strided(call: Call) -> None:
    """Python's slicing: masks say which bounds are open, which dimensions are new or go."""
    value, result = call.tensor("self"), call.result
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
    axes = list(range(len(begin)))
    operands = [value, *(call.shape(v) for v in (begin, end, axes, step))]
    if not gone:
        call.emit("Slice", operands)
        return
    dims = list(result.dims)
    for axis in gone:
        dims.insert(axis, 1)
    piece = call.step("Slice", operands, tuple(dims))
    call.emit("Squeeze", [piece, call.shape(gone)])


def _gather(call: Call) -> None:
    value = call.tensor("self")
    if call.int("batch_dims", 0):
        raise UnsupportedError(call.target)
    call.emit("Gather", [value, call.tensor("index")], axis=call.axis("axis", len(value.dims)))


def _gather_nd(call: Call) -> None:
    call.emit("GatherND", [call.tensor("self"), call.cast(call.tensor("indices"), "int64")])


@parametrised
def _scattered(call: Call, reduction: str) -> None:
    places = call.cast(call.tensor("indices"), "int64")
    call.emit("ScatterND", [call.tensor("self"), places, call.tensor("updates")],
              reduction=reduction)  # fmt: skip


def _scatter_nd(call: Call) -> None:
    """Into zeros; what falls on one place is added."""
    result = call.result
    zeros = call.step(
        "Expand", [call.scalar(0, result.dtype), call.shape(result.dims)], result.dims
    )
    places = call.cast(call.tensor("indices"), "int64")
    call.emit("ScatterND", [zeros, places, call.tensor("updates")], reduction="add")


def _elements(call: Call) -> None:
    value, axis = call.tensor("self"), call.int("axis", 0)
    words = {0: "none", 1: "add", "none": "none", "add": "add"}
    word = call.get("reduce", 0)
    reduction = words.get(word) if isinstance(word, int | str) else None
    if reduction is None:
        raise UnsupportedError(call.target)
    call.emit(
        "ScatterElements", [value, call.tensor("indices"), call.tensor("updates")],
        axis=call.normal(axis, len(value.dims)), reduction=reduction,
    )  # fmt: skip


def _one_hot(call: Call) -> None:
    """In the type of the two values."""
    indices, dtype = call.tensor("self"), call.result.dtype
    pair = [call.operand(n, dtype) for n in ("off_value", "on_value")]
    wide = [call.step("Reshape", [each, call.shape([1])], (1,)) for each in pair]
    values = call.step("Concat", wide, (2,), axis=0)
    depth = call.writer.constant(call.result.dims[call.int("axis", -1)], "int64")
    call.emit("OneHot", [indices, depth, values], axis=call.int("axis", -1))


def _pad_pairs(call: Call) -> None:
    """A pair for every dimension, the first one first."""
    value, pairs = call.tensor("self"), call.get("paddings")
    flat: list[int] = []
    for pair in pairs if isinstance(pairs, tuple) else ():
        flat.extend(v for v in (pair if isinstance(pair, tuple) else ()) if isinstance(v, int))
    if len(flat) != 2 * len(value.dims):
        raise call.fault("its paddings are no pairs")
    zero = call.scalar(0, value.dtype)
    call.emit("Pad", [value, call.shape([*flat[::2], *flat[1::2]]), zero], mode="constant")


def _pad(call: Call) -> None:
    """Pairs begin at the last dimension, unless they are told apart from each other."""
    value, rank = call.tensor("self"), len(call.tensor("self").dims)
    pad = list(call.ints("paddings"))
    if not call.flag("paddings_contiguous", default=True):
        half = len(pad) // 2
        pad = [v for pair in zip(pad[:half], pad[half:], strict=True) for v in pair]
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge", "circular": "wrap"}[
        call.text("mode", "constant")
    ]
    filling = call.operand("value", value.dtype) if mode == "constant" else None
    call.emit("Pad", [value, call.shape([*before, *after]), filling], mode=mode)


@parametrised
def _filled(call: Call, name: str, number: int = 0) -> None:
    """One number throughout, that of an argument if it is named."""
    value = call.get(name) if name else number
    dtype = call.result.dtype
    one = call.cast(value, dtype) if isinstance(value, Tensor) else call.scalar(value, dtype)
    call.emit("Expand", [one, call.shape(call.result.dims)])


MOVES: Mapping[str, Converter] = MappingProxyType(
    {
        "Reshape(input as self, shape)": aten("reshape"),
        "View(input as self, shape)": aten("reshape"),
        "Flatten(input_x as self)": aten("reshape"),
        "FlattenExt(input as self, start_dim, end_dim)": aten("reshape"),
        "ExpandDims(input_x as self, axis as dim)": aten("unsqueeze"),
        "ExpandDimsView(input as self, dim)": aten("unsqueeze"),
        "Unsqueeze(x as self, axis as dim)": aten("unsqueeze"),
        "Squeeze(input as self, axis)": _squeeze,
        "Transpose(input as self, dims)": aten("permute"),
        "TransposeView(input as self, input_perm as dims)": aten("permute"),
        "TransposeExtView(input as self, dim0, dim1)": aten("transpose.int"),
        "TExt(input as self)": aten("t"),
        "BroadcastTo(input as self, shape)": aten("expand"),
        "BroadcastToView(input as self, shape)": aten("expand"),
        "ExpandAs(input as self, other)": aten("expand"),
        "Tile(input as self, dims as repeats)": aten("repeat"),
        "Repeat(input as self, repeats)": aten("repeat"),
        "RepeatInterleaveInt(input as self, repeats, dim, output_size)":
            aten("repeat_interleave.self_int"),
        "Concat(tensors, axis as dim)": aten("cat"),
        "Stack(x as tensors, axis as dim)": aten("stack"),
        "StackExt(tensors, dim)": aten("stack"),
        "Unstack(x as self, axis as dim, num)": aten("unbind.int"),
        "UnstackExtView(input as self, dim)": aten("unbind.int"),
        "Split(input_x as self, axis as dim, output_num)": aten("split.Tensor"),
        "SplitTensor(input as self, split_size, dim)": aten("split.Tensor"),
        "SplitTensorView(input as self, split_size, dim)": aten("split.Tensor"),
        "SplitWithSize(input as self, split_size, dim)": aten("split.Tensor"),
        "SplitWithSizeView(input as self, split_size, dim)": aten("split.Tensor"),
        "SplitV(input_x as self, size_splits, split_dim as dim, num_split)": aten("split.Tensor"),
        "Chunk(input as self, chunks, dim)": aten("chunk"),
        "ChunkView(input as self, chunks, dim)": aten("chunk"),
        "Slice(input as self, begin, size)": _slice,
        "StridedSlice(input_x as self, begin, end, strides, begin_mask, end_mask, ellipsis_mask, "
        "new_axis_mask, shrink_axis_mask)": _strided,
        "SliceExt(input as self, dim, start, end, step)": aten("slice.Tensor"),
        "SliceExtView(input as self, dim, start, end, step)": aten("slice.Tensor"),
        "Narrow(input as self, dim, start, length)": aten("narrow"),
        "NarrowView(input as self, dim, start, length)": aten("narrow"),
        "SelectExtView(input as self, dim, index)": aten("select.int"),
        "Pad(x as self, paddings)": _pad_pairs,
        "PadV3(x as self, paddings, constant_value as value, mode, paddings_contiguous)": _pad,
        "ConstantPadND(input as self, padding as paddings, value)": _pad,
        "ReverseV2(input as self, axis as dims)": aten("flip"),
        "Roll(input as self, shifts, dims)": aten("roll"),
        "Tril(x as self, diagonal)": aten("tril"),
        "TrilExt(input as self, diagonal)": aten("tril"),
        "Triu(input as self, diagonal)": aten("triu"),
        "Gather(input_params as self, input_indices as index, axis, batch_dims)": _gather,
        "GatherD(x as self, dim, index)": aten("gather"),
        "GatherNd(input_x as self, indices)": _gather_nd,
        "Embedding(input as indices, weight, padding_idx, max_norm, norm_type, "
        "scale_grad_by_freq)": aten("embedding"),
        "IndexSelect(input as self, dim, index)": aten("index_select"),
        "TensorScatterUpdate(input_x as self, indices, updates)": _scattered("none"),
        "TensorScatterAdd(input_x as self, indices, updates)": _scattered("add"),
        "TensorScatterMul(input_x as self, indices, updates)": _scattered("mul"),
        "TensorScatterMax(input_x as self, indices, updates)": _scattered("max"),
        "TensorScatterMin(input_x as self, indices, updates)": _scattered("min"),
        "TensorScatterElements(data as self, indices, updates, axis, reduce)": _elements,
        "ScatterNd(indices, updates, shape)": _scatter_nd,
        "ScatterAddExt(input as self, dim, index, src)": aten("scatter_add"),
        "OneHot(indices as self, depth, on_value, off_value, axis)": _one_hot,
        "OneHotExt(tensor as self, num_classes, on_value, off_value, axis)": _one_hot,
        "Fill(type, shape, value)": _filled("value"),
        "FillV2(shape, value)": _filled("value"),
        "FillScalar(size, fill_value, dtype)": _filled("fill_value"),
        "FullLike(input as self, fill_value, dtype)": _filled("fill_value"),
        "Zeros(size, dtype)": _filled(""),
        "ZerosLike(x)": _filled(""),
        "ZerosLikeExt(input, dtype)": _filled(""),
        "Ones(shape, dtype)": _filled("", 1),
        "OnesLike(x)": _filled("", 1),
        "OnesLikeExt(input, dtype)": _filled("", 1),
        "Range(start, end, step, maxlen)": aten("arange.start_step"),
        "Arange(start, end, step, dtype)": aten("arange.start_step"),
        "LinSpace(start, stop as end, num as steps)": aten("linspace"),
    }
)  # fmt: skip
