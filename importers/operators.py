"""Operators by name, for every writer of a front end: a method names its kind once, and works out
the dims and the type of what it makes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from importers.errors import ModelError
from ir.ops import Form, catalogue

Dims: TypeAlias = tuple[int, ...]
Setting: TypeAlias = int | float | str | tuple[int, ...]
Value = TypeVar("Value")
FLAGS = frozenset(
    kind
    for kind, entry in catalogue().items()
    if entry.spelling and entry.spelling.form in {Form.TEST, Form.COMPARISON}
)
"""Operators that make flags of what is none."""
_TO_THE_END = 2**63 - 1
"""The end of a slice that goes to the end, as exporters write it."""


def broadcast_dims(kind: str, *shapes: Dims) -> Dims:
    """Dims of what a kind makes of tensors element by element, however large.

    Raises:
        ModelError: they do not fit each other.
    """
    longest = max(map(len, shapes), default=0)
    aligned = [(1,) * (longest - len(dims)) + dims for dims in shapes]
    several = [{size for size in sizes if size != 1} for sizes in zip(*aligned, strict=True)]
    if any(len(sizes) > 1 for sizes in several):
        raise ModelError(
            f"operands of {kind} have dims {' and '.join(map(str, shapes))}",
            fix="sizes of a model must fit each other: equal, or 1",
        )
    return tuple(next(iter(sizes), 1) for sizes in several)


def product_dims(left: Dims, right: Dims) -> Dims:
    """Dims of a product of matrices, or of many; a vector has one dimension less.

    Raises:
        ModelError: they are not as many.
    """
    batch = broadcast_dims("MatMul", left[:-2], right[:-2])
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


class Operators(ABC, Generic[Value]):
    """What a writer of operators can write."""

    __slots__ = ()

    @abstractmethod
    def dims(self, value: Value) -> Dims: ...

    @abstractmethod
    def dtype_of(self, value: Value) -> str: ...

    @abstractmethod
    def op(
        self,
        kind: str,
        inputs: Sequence[Value],
        dims: Sequence[int],
        dtype: str = "",
        **attributes: Setting,
    ) -> Value:
        """An operator with one result, of its first operand's element type if none is given."""

    @abstractmethod
    def with_numbers(
        self,
        kind: str,
        value: Value,
        dims: Sequence[int],
        numbers: Mapping[str, Sequence[int]],
        **told: Setting,
    ) -> Value:
        """An operator of one tensor and lists of numbers.

        Args:
            kind: its kind.
            value: the tensor.
            dims: of the result.
            numbers: operands of a node of ONNX, attributes of an operator of a graph, which has no
                `shape`: its result tells that.
            told: attributes of a node that the dims of a graph's tensors tell.
        """

    def cast_settings(self, dtype: str) -> Mapping[str, Setting]:
        """Attributes of a cast; none where the type of the result tells it."""
        del dtype
        return {}

    def broadcast(self, kind: str, *values: Value) -> Dims:
        """Dims of what a kind makes of these element by element.

        Raises:
            ModelError: they do not fit each other.
        """
        return broadcast_dims(kind, *(self.dims(v) for v in values))

    def pointwise(self, kind: str, *inputs: Value, **attributes: Setting) -> Value:
        """An operator on every element, in the type of the last operand or flags."""
        dtype = "bool" if kind in FLAGS else self.dtype_of(inputs[-1])
        return self.op(kind, inputs, self.broadcast(kind, *inputs), dtype, **attributes)

    def add(self, left: Value, right: Value) -> Value:
        return self.pointwise("Add", left, right)

    def sub(self, left: Value, right: Value) -> Value:
        return self.pointwise("Sub", left, right)

    def mul(self, left: Value, right: Value) -> Value:
        return self.pointwise("Mul", left, right)

    def div(self, left: Value, right: Value) -> Value:
        return self.pointwise("Div", left, right)

    def power(self, base: Value, exponent: Value) -> Value:
        return self.op("Pow", [base, exponent], self.broadcast("Pow", base, exponent))

    def remainder(self, left: Value, right: Value, *, fmod: int) -> Value:
        """With the sign of the dividend, or without `fmod` that of the divisor."""
        return self.pointwise("Mod", left, right, fmod=fmod)

    def maximum(self, left: Value, right: Value) -> Value:
        return self.pointwise("Max", left, right)

    def minimum(self, left: Value, right: Value) -> Value:
        return self.pointwise("Min", left, right)

    def equal(self, left: Value, right: Value) -> Value:
        return self.pointwise("Equal", left, right)

    def greater(self, left: Value, right: Value) -> Value:
        return self.pointwise("Greater", left, right)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.pointwise("Where", condition, yes, no)

    def neg(self, value: Value) -> Value:
        return self.pointwise("Neg", value)

    def logical_not(self, value: Value) -> Value:
        return self.pointwise("Not", value)

    def is_nan(self, value: Value) -> Value:
        return self.pointwise("IsNaN", value)

    def sqrt(self, value: Value) -> Value:
        return self.pointwise("Sqrt", value)

    def reciprocal(self, value: Value) -> Value:
        return self.pointwise("Reciprocal", value)

    def relu(self, value: Value) -> Value:
        return self.pointwise("Relu", value)

    def sigmoid(self, value: Value) -> Value:
        return self.pointwise("Sigmoid", value)

    def tanh(self, value: Value) -> Value:
        return self.pointwise("Tanh", value)

    def gelu(self, value: Value, approximate: str) -> Value:
        return self.pointwise("Gelu", value, approximate=approximate)

    def swish(self, value: Value, **settings: Setting) -> Value:
        return self.pointwise("Swish", value, **settings)

    def softmax(self, value: Value, axis: int, **settings: Setting) -> Value:
        return self.pointwise("Softmax", value, axis=axis, **settings)

    def rms_norm(self, value: Value, scale: Value, axis: int, **settings: Setting) -> Value:
        """The value over the root of its mean square from a dimension on, times a scale."""
        operands = [value, scale]
        return self.op("RMSNormalization", operands, self.dims(value), "", axis=axis, **settings)

    def cast(self, value: Value, dtype: str) -> Value:
        """The value in another element type; itself if that is the same."""
        if self.dtype_of(value) == dtype:
            return value
        return self.op("Cast", [value], self.dims(value), dtype, **self.cast_settings(dtype))

    def matmul(self, left: Value, right: Value, **flags: Setting) -> Value:
        """A product over the last dimension of the one and the last but one of the other; with
        `trans_a` or `trans_b` the left or the right matrix is turned.
        """
        rows, columns = self.dims(left), self.dims(right)
        if flags.get("trans_a"):
            rows = (*rows[:-2], *rows[:-3:-1])
        if flags.get("trans_b"):
            columns = (*columns[:-2], *columns[:-3:-1])
        return self.op("MatMul", [left, right], product_dims(rows, columns), "", **flags)

    def conv(
        self,
        operands: Sequence[Value],
        dims: Sequence[int],
        *,
        transposed: bool = False,
        **settings: Setting,
    ) -> Value:
        """A convolution of data with a weight, and a bias if there is one."""
        kind = "ConvTranspose" if transposed else "Conv"
        return self.op(kind, operands, dims, "", **settings)

    def reshape(self, value: Value, *dims: int) -> Value:
        return self.with_numbers("Reshape", value, dims, {"shape": dims})

    def heads_apart(self, value: Value, heads: int) -> Value:
        """From batch, rows, heads times width to batch, heads, rows, width."""
        batch, rows, width = self.dims(value)
        apart = self.reshape(value, batch, rows, heads, width // heads)
        return self.transpose(apart, 0, 2, 1, 3)

    def expand(self, value: Value, *dims: int) -> Value:
        return self.with_numbers("Expand", value, dims, {"shape": dims})

    def transpose(self, value: Value, *perm: int) -> Value:
        old = self.dims(value)
        return self.op("Transpose", [value], [old[p] for p in perm], perm=perm)

    def flipped(self, value: Value) -> Value:
        """A matrix, or several, with rows and columns changed."""
        rank = len(self.dims(value))
        return self.transpose(value, *range(rank - 2), rank - 1, rank - 2)

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """With dimensions of size one more, at these places of the result."""
        dims = list(self.dims(value))
        for axis in axes:
            dims.insert(axis, 1)
        return self.with_numbers("Unsqueeze", value, dims, {"axes": axes})

    def squeeze(self, value: Value, *axes: int) -> Value:
        dims = [d for i, d in enumerate(self.dims(value)) if i not in axes]
        return self.with_numbers("Squeeze", value, dims, {"axes": axes})

    def concat(self, axis: int, *values: Value) -> Value:
        dims = list(self.dims(values[0]))
        dims[axis] = sum(self.dims(v)[axis] for v in values)
        return self.op("Concat", values, dims, axis=axis)

    def slices(
        self,
        value: Value,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] = (),
    ) -> Value:
        """A part of a tensor, cut as Python does."""
        cuts = zip(starts, ends, steps or (1,) * len(axes), strict=True)
        parts = {axis: slice(a, b, c or None) for axis, (a, b, c) in zip(axes, cuts, strict=True)}
        own = enumerate(self.dims(value))
        dims = [len(range(d)[parts[i]]) if i in parts else d for i, d in own]
        numbers = {"starts": starts, "ends": ends, "axes": axes}
        if steps:
            numbers["steps"] = steps
        return self.with_numbers("Slice", value, dims, numbers)

    def cut(self, value: Value, axis: int, start: int, end: int | None, step: int = 1) -> Value:
        """A slice of one dimension, `start` to `end` in steps."""
        stop = _TO_THE_END if end is None else end
        return self.slices(value, (start,), (stop,), (axis,), (step,))

    def gather(self, table: Value, index: Value, axis: int) -> Value:
        """What an index names along a dimension."""
        rows = self.dims(table)
        dims = (*rows[:axis], *self.dims(index), *rows[axis + 1 :])
        return self.op("Gather", [table, index], dims, axis=axis)

    def gather_nd(self, table: Value, places: Value, **settings: Setting) -> Value:
        """What coordinates in the last dimension of `places` name."""
        found, rows = self.dims(places), self.dims(table)
        dims = (*found[:-1], *rows[found[-1] :])
        return self.op("GatherND", [table, places], dims, "", **settings)

    def gather_elements(self, value: Value, index: Value, axis: int) -> Value:
        """For each number of an index the element at that place of a dimension."""
        return self.op("GatherElements", [value, index], self.dims(index), axis=axis)

    def scatter_elements(
        self, value: Value, index: Value, updates: Value, axis: int, reduction: str
    ) -> Value:
        """The value with elements at places of a dimension written, or added to."""
        operands = [value, index, updates]
        kind = "ScatterElements"
        return self.op(kind, operands, self.dims(value), axis=axis, reduction=reduction)

    def scatter_nd(self, value: Value, places: Value, updates: Value, reduction: str) -> Value:
        """The value with slices at coordinates written, or added to."""
        operands = [value, places, updates]
        return self.op("ScatterND", operands, self.dims(value), reduction=reduction)

    def reduce(self, kind: str, value: Value, axes: Sequence[int], *, keep: bool) -> Value:
        own = enumerate(self.dims(value))
        dims = [1 if i in axes else d for i, d in own if keep or i not in axes]
        return self.with_numbers(kind, value, dims, {"axes": axes}, keepdims=int(keep))

    def reduce_sum(self, value: Value, *axes: int, keep: bool = True) -> Value:
        return self.reduce("ReduceSum", value, axes, keep=keep)

    def reduce_mean(self, value: Value, *axes: int, keep: bool = True) -> Value:
        return self.reduce("ReduceMean", value, axes, keep=keep)

    def reduce_max(self, value: Value, *axes: int, keep: bool = True) -> Value:
        return self.reduce("ReduceMax", value, axes, keep=keep)


class GraphOperators(Operators[Value]):
    """What a writer of a graph can write: operators in the normal form."""

    __slots__ = ()

    @abstractmethod
    def several(
        self,
        kind: str,
        inputs: Sequence[Value],
        results: Sequence[tuple[Sequence[int], str]],
        **attributes: Setting,
    ) -> list[Value]:
        """An operator with several results, given by their dims and element types."""

    def with_numbers(
        self,
        kind: str,
        value: Value,
        dims: Sequence[int],
        numbers: Mapping[str, Sequence[int]],
        **told: Setting,
    ) -> Value:
        """Numbers are attributes, as far as the result does not tell them."""
        del told
        known = {key: tuple(each) for key, each in numbers.items() if key != "shape"}
        if "starts" in known:  # the axes that lose elements, and those that the numbers are of
            known = {"axes": known["axes"], "slice_axes": known["axes"], **known}
        return self.op(kind, [value], dims, "", **known)

    def split(self, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """Pieces of a tensor along a dimension."""
        dims = self.dims(value)
        results = [((*dims[:axis], size, *dims[axis + 1 :]), "") for size in sizes]
        return self.several("Split", [value], results, axis=axis)
