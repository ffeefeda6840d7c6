"""Operators that move or rename elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from importers.errors import UnsupportedError
from importers.operators import Operators
from importers.parameters import parametrised
from importers.traced.call import Call
from importers.traced.table import spelled
from ir.graph import Tensor


@spelled(
    aten="view _unsafe_view view_copy(self, size); reshape(self, shape);"
    "view_as reshape_as(self, other); flatten.using_ints(self, start_dim, end_dim);"
    "unflatten.int(self, dim, sizes)",
    mindir="Reshape View(input as self, shape); FlattenExt(input as self, start_dim, end_dim)",
)
def _reshape(call: Call) -> None:
    _to_result(call, Operators.reshape)


def _to_result(call: Call, write: Callable[..., Tensor]) -> None:
    """An operator that the dims of its result tell; none where the operand has them."""
    value = call.tensor("self")
    if value.dims == call.result.dims:
        call.alias(value)
    else:
        write(call.answer, value, *call.result.dims)


@spelled(mindir="Flatten(input_x as self)")
def _flattened(call: Call) -> None:
    """What is behind the batch becomes one dimension: no rows are merged."""
    value = call.tensor("self")
    if value.dims == call.result.dims:
        call.alias(value)
    else:
        call.emit("Flatten", [value], axis=1)


@spelled(aten="view.dtype(self, dtype)")
def _view_type(call: Call) -> None:
    """The same bits in another element type."""
    raise UnsupportedError(call.target)


def _permuted(call: Call, perm: Sequence[int]) -> None:
    value = call.tensor("self")
    if tuple(perm) == tuple(range(len(value.dims))):
        call.alias(value)
    else:
        call.answer.transpose(value, *perm)


@spelled(
    aten="permute permute_copy(self, dims)",
    mindir="Transpose(input as self, dims); TransposeView(input as self, input_perm as dims)",
)
def _permute(call: Call) -> None:
    rank = len(call.tensor("self").dims)
    _permuted(call, [call.normal(d, rank) for d in call.ints("dims")])


@spelled(
    aten="transpose.int(self, dim0, dim1); swapaxes(self, axis0 as dim0, axis1 as dim1)",
    mindir="TransposeExtView(input as self, dim0, dim1)",
)
def _exchange(call: Call) -> None:
    """Two dimensions change places."""
    rank = len(call.tensor("self").dims)
    perm = list(range(rank))
    if rank:
        a, b = call.axis("dim0", rank), call.axis("dim1", rank)
        perm[a], perm[b] = perm[b], perm[a]
    _permuted(call, perm)


@spelled(aten="t mT(self)", mindir="TExt(input as self)")
def _flipped(call: Call) -> None:
    """The last two dimensions change places."""
    rank = len(call.tensor("self").dims)
    _permuted(call, range(rank) if rank < 2 else [*range(rank - 2), rank - 1, rank - 2])


@spelled(aten="numpy_T(self)")
def _numpy_t(call: Call) -> None:
    _permuted(call, list(reversed(range(len(call.tensor("self").dims)))))


@spelled(aten="movedim.{intlist,int}(self, source, destination)")
def _movedim(call: Call) -> None:
    rank = len(call.tensor("self").dims)
    source = [call.normal(d, rank) for d in call.ints("source")]
    target = [call.normal(d, rank) for d in call.ints("destination")]
    rest = [d for d in range(rank) if d not in source]
    places = dict(zip(target, source, strict=True))
    _permuted(call, [places[i] if i in places else rest.pop(0) for i in range(rank)])


@spelled(
    aten="expand(self, size, implicit); expand_as(self, other);"
    "expand_copy broadcast_to(self, size)",
    mindir="BroadcastTo BroadcastToView(input as self, shape); ExpandAs(input as self, other)",
)
def _expand(call: Call) -> None:
    _to_result(call, Operators.expand)


@spelled(aten="broadcast_tensors(tensors)")
def _broadcast(call: Call) -> None:
    """Tensors stretched to the dims that all of them have."""
    for index, value in enumerate(call.tensors("tensors")):
        result = call.results[index]
        if value is not None and result is not None and call.is_read(index):
            same = value.dims == result.dims
            call.alias(value if same else call.expand(value, *result.dims), index)


@spelled(
    aten="unsqueeze unsqueeze_copy(self, dim)",
    mindir="ExpandDims(input_x as self, axis as dim); Unsqueeze(x as self, axis as dim);"
    "ExpandDimsView(input as self, dim)",
)
def _unsqueeze(call: Call) -> None:
    value = call.tensor("self")
    axis = call.axis("dim", len(value.dims) + 1)
    call.answer.unsqueeze(value, axis)


@spelled(
    aten="squeeze squeeze_copy(self);squeeze.{dim,dims} squeeze_copy.{dim,dims}(self, dim)",
    mindir="Squeeze(input as self, axis as dim)",
)
def _squeeze(call: Call) -> None:
    """The named dimensions, or all of size one."""
    value = call.tensor("self")
    rank = len(value.dims)
    asked = {call.normal(d, rank) for d in call.ints("dim")} or range(rank)
    axes = sorted(a for a in asked if value.dims[a : a + 1] == (1,))
    if axes and value.dims != call.result.dims:
        call.answer.squeeze(value, *axes)
    else:
        call.alias(value)


@spelled(aten="cat concat(tensors, dim)", mindir="Concat(tensors, axis as dim)")
def _cat(call: Call) -> None:
    """Empty vectors count for nothing."""
    dtype, rank = call.result.dtype, len(call.result.dims)
    parts = [t for t in call.tensors("tensors") if t is not None and t.dims != (0,)]
    axis = call.axis("dim", rank, 0)
    if len(parts) == 1:
        call.finish(parts[0])
    else:
        call.answer.concat(axis, *(call.cast(t, dtype) for t in parts))


@spelled(
    aten="stack(tensors, dim)", mindir="Stack(x as tensors, axis as dim); StackExt(tensors, dim)"
)
def _stack(call: Call) -> None:
    axis = call.axis("dim", len(call.result.dims), 0)
    tensors, dtype = call.tensors("tensors"), call.result.dtype
    parts = [call.cast(call.unsqueeze(t, axis), dtype) for t in tensors if t is not None]
    call.answer.concat(axis, *parts)


@spelled(
    aten="repeat(self, repeats); tile(self, dims as repeats)",
    mindir="Tile(input as self, dims as repeats); Repeat(input as self, repeats)",
)
def _repeated(call: Call) -> None:
    value, repeats = call.tensor("self"), call.ints("repeats")
    if len(repeats) < len(value.dims):
        repeats = (*[1] * (len(value.dims) - len(repeats)), *repeats)
    if len(value.dims) < len(repeats):
        value = call.reshape(value, *[1] * (len(repeats) - len(value.dims)), *value.dims)
    if all(n == 1 for n in repeats):
        call.alias(value)
    else:
        call.emit("Tile", [value, call.shape(repeats)])


@spelled(
    aten="repeat_interleave.self_int(self, repeats, dim, output_size)",
    mindir="RepeatInterleaveInt(input as self, repeats, dim, output_size)",
)
def _repeat_each(call: Call) -> None:
    """Each element along a dimension some times: stretched and merged."""
    value = call.tensor("self")
    if not call.has("dim"):
        value = call.reshape(value, math.prod(value.dims))
    axis = call.axis("dim", len(value.dims), 0)
    times = call.int("repeats")
    apart = call.unsqueeze(value, axis + 1)
    many = call.expand(apart, *value.dims[: axis + 1], times, *value.dims[axis + 1 :])
    call.answer.reshape(many, *call.result.dims)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge",
          "circular": "wrap"}  # fmt: skip


@spelled(
    aten="constant_pad_nd(self, pad, value); pad(self, pad, mode, value)",
    mindir="PadV3(x as self, paddings as pad, constant_value as value, mode, paddings_contiguous);"
    "ConstantPadND(input as self, padding as pad, value)",
)
def _pad(call: Call) -> None:
    """Pairs begin at the last dimension; MindSpore may put all in front first."""
    value, pad = call.tensor("self"), call.ints("pad")
    mode = _MODES.get(call.text("mode", "constant"))
    if mode is None:
        raise call.fault("its mode is none of constant, reflect, replicate, circular")
    half = len(pad) // 2
    if call.flag("paddings_contiguous", default=True):
        lows, highs = pad[: 2 * half : 2], pad[1::2]
    else:
        lows, highs = pad[:half], pad[half:]
    rest = (0,) * (len(value.dims) - half)
    ends = [*rest, *lows[::-1], *rest, *highs[::-1]]
    filling = None
    if mode == "constant":
        zero = call.scalar(0, value.dtype) if not call.has("value") else None
        filling = zero or call.operand("value", value.dtype)
    call.emit("Pad", [value, call.shape(ends), filling], mode=mode)


@spelled(mindir="Pad(x as self, paddings)")
def _pad_pairs(call: Call) -> None:
    """A pair for every dimension, the first one first."""
    value, pairs = call.tensor("self"), call.get("paddings")
    flat: list[int] = []
    for each in pairs if isinstance(pairs, tuple) else ():
        flat.extend(v for v in (each if isinstance(each, tuple) else ()) if isinstance(v, int))
    if len(flat) != 2 * len(value.dims):
        raise call.fault("its paddings are no pairs")
    zero = call.scalar(0, value.dtype)
    call.emit("Pad", [value, call.shape([*flat[::2], *flat[1::2]]), zero], mode="constant")


def triangle(writer: Operators[Tensor], value: Tensor, first: Tensor, upper: int) -> Tensor:
    """What is above a diagonal, or below it, and zeros."""
    return writer.op("Trilu", [value, first], value.dims, upper=upper)


@parametrised
def _triangle(call: Call, upper: int) -> None:
    diagonal = call.scalar(call.int("diagonal", 0), "int64")
    triangle(call.answer, call.tensor("self"), diagonal, upper)


spelled(
    aten="tril(self, diagonal)",
    mindir="Tril(x as self, diagonal); TrilExt(input as self, diagonal)",
)(_triangle(0))
spelled(aten="triu(self, diagonal)", mindir="Triu(input as self, diagonal)")(_triangle(1))
