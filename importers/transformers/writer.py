"""Operators one after the other, with the dims of what they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NewType

from importers.operators import GraphOperators
from importers.transformers.fillings import Array, Filling, filled
from ir.graph import AttributeValue, Op, OpGraph, Role, Tensor

Value = NewType("Value", str)
"""Name of a tensor of the graph."""


class Writer(GraphOperators[Value]):
    """A graph in the making: every method appends one operator and returns what it makes."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self._tensors: dict[str, Tensor] = {}
        self._ops: list[Op] = []
        self._inputs: list[str] = []
        self._scope = ""
        self._counts: dict[str, int] = {}
        self._fillings: dict[str, Filling] = {}

    @contextmanager
    def module(self, *path: str) -> Iterator[None]:
        """Operators inside belong to this module; what they make is named after it."""
        outer, self._scope = self._scope, ".".join(p for p in path if p)
        yield
        self._scope = outer

    def graph(self, name: str, outputs: Sequence[Value], notes: Sequence[str]) -> OpGraph:
        """The graph of everything written."""
        return OpGraph(
            name=name,
            tensors=self._tensors,
            ops=tuple(self._ops),
            inputs=tuple(self._inputs),
            outputs=tuple(outputs),
            notes=tuple(notes),
        )

    def numbers(self, name: str, most_elements: int) -> Array | None:
        """The array of a constant; None for other tensors, and for larger arrays."""
        if name not in self._fillings or self._tensors[name].elements > most_elements:
            return None
        return self._fillings[name](self._tensors[name].dims)

    def dims(self, value: Value) -> tuple[int, ...]:
        return self._tensors[value].dims

    def dtype_of(self, value: Value) -> str:
        return self._tensors[value].dtype

    def input(self, name: str, dims: Sequence[int], dtype: str) -> Value:
        self._inputs.append(name)
        return self._tensor(name, dims, dtype, Role.INPUT)

    def parameter(self, name: str, *dims: int) -> Value:
        """A weight; the same name is the same weight."""
        return self._tensor(name, dims, self.dtype, Role.PARAMETER)

    def constant(
        self,
        name: str,
        filling: Filling | float,
        dims: Sequence[int] = (),
        dtype: str = "",
    ) -> Value:
        """Numbers that nobody trains, or one number; the same name is the same array."""
        self._fillings[name] = filling if callable(filling) else filled(filling)
        return self._tensor(name, dims, dtype or self.dtype, Role.CONSTANT)

    def _tensor(self, name: str, dims: Sequence[int], dtype: str, role: Role) -> Value:
        known = self._tensors.setdefault(name, Tensor(name, tuple(dims), dtype, role))
        if known.dims != tuple(dims):
            raise ValueError(f"{name} has dims {list(known.dims)} and {list(dims)}")
        return Value(name)

    def op(
        self,
        kind: str,
        inputs: Sequence[Value],
        dims: Sequence[int],
        dtype: str = "",
        **attributes: AttributeValue,
    ) -> Value:
        """An operator with one result, of its first operand's element type if none is given."""
        return self.several(kind, inputs, [(dims, dtype)], **attributes)[0]

    def several(
        self,
        kind: str,
        inputs: Sequence[Value],
        results: Sequence[tuple[Sequence[int], str]],
        **attributes: AttributeValue,
    ) -> list[Value]:
        """An operator with several results, given by their dims and element types."""
        stem = f"{self._scope}/{kind}" if self._scope else kind
        self._counts[stem] = count = self._counts.get(stem, 0) + 1
        name = stem if count == 1 else f"{stem}_{count}"
        made: list[Value] = []
        for index, (dims, dtype) in enumerate(results):
            result = f"{name}:{index}"
            given = dtype or self._tensors[inputs[0]].dtype
            self._tensors[result] = Tensor(result, tuple(dims), given)
            made.append(Value(result))
        self._ops.append(Op(name, kind, tuple(inputs), tuple(made), attributes, self._scope))
        return made

    def scaled(self, value: Value, name: str, factor: float) -> Value:
        """The value times one number, a constant of that name."""
        constant = self.constant(name, factor, (), self.dtype_of(value))
        return self.mul(value, constant)

    def linear(self, value: Value, module: str, columns: int, *, bias: bool = False) -> Value:
        """A product with a weight of (columns, rows), as `torch.nn.Linear` stores it."""
        with self.module(module):
            rows = self.dims(value)[-1]
            weight = self.parameter(f"{module}.weight", columns, rows)
            made = self.matmul(value, self.transpose(weight, 1, 0))
            return self.biased(made, module, columns) if bias else made

    def rows_first_linear(self, value: Value, module: str, columns: int) -> Value:
        """A product with bias, the weight stored rows first (`Conv1D` of GPT-2)."""
        with self.module(module):
            weight = self.parameter(f"{module}.weight", self.dims(value)[-1], columns)
            return self.biased(self.matmul(value, weight), module, columns)

    def biased(self, value: Value, module: str, columns: int) -> Value:
        return self.add(value, self.parameter(f"{module}.bias", columns))
