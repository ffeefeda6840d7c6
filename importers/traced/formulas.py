"""Formulas of operators: `x * Sigmoid(x)` becomes a Sigmoid and a Mul.

A capitalised call is an operator of that kind, a small name an argument of the call or what a line
in front names, a number one of the type of the operand beside it. Lines are separated by
semicolons; the last one is the result. Operators are written from left to right, operands first.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from importers.parameters import parametrised
from importers.traced.call import Call
from ir.graph import Tensor
from ir.ops import Form, catalogue

_KINDS: Mapping[type[ast.AST], str] = MappingProxyType(
    {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.USub: "Neg",
     ast.Gt: "Greater", ast.Eq: "Equal"}
)  # fmt: skip
_FLAGS = frozenset(
    kind
    for kind, entry in catalogue().items()
    if entry.spelling and entry.spelling.form in {Form.TEST, Form.COMPARISON}
)
"""Operators that make flags of what is none."""
_Value: TypeAlias = Tensor | float


@parametrised
def formula(call: Call, /, text: str, *, same: bool = False, **numbers: float) -> None:
    """An operator by its formula.

    Args:
        call: what is called.
        text: the formula.
        same: whether operands are first made of the type of the result.
        numbers: arguments that are numbers, with their defaults.
    """
    *lines, last = _parsed(text)
    work = _Work(call, same, numbers)
    for line in lines:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                work.known[name] = work.value(value)
    kind, operands = work.parts(last)
    call.emit(kind, operands)


@cache
def _parsed(text: str) -> tuple[ast.AST, ...]:
    lines = ast.parse(text).body
    return tuple(line.value if isinstance(line, ast.Expr) else line for line in lines)


@dataclass(slots=True)
class _Work:
    call: Call
    same: bool
    numbers: Mapping[str, float]
    known: dict[str, _Value] = field(default_factory=dict)

    def value(self, node: ast.AST) -> _Value:
        """A tensor or a number."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Name(id=name):
                return self._named(name)
        kind, operands = self.parts(node)
        try:
            dims = np.broadcast_shapes(*(t.dims for t in operands))
        except ValueError as error:
            raise self.call.fault(f"the operands of {kind} have other dims") from error
        dtype = "bool" if kind in _FLAGS else operands[-1].dtype
        return self.call.step(kind, operands, dims, dtype)

    def _named(self, name: str) -> _Value:
        if name in self.numbers:
            return self.call.float(name, self.numbers[name])
        if name not in self.known:
            call, dtype = self.call, self.call.result.dtype
            self.known[name] = call.operand(name, dtype) if self.same else call.tensor(name)
        return self.known[name]

    def parts(self, node: ast.AST) -> tuple[str, list[Tensor]]:
        """An operator, and its operands as tensors."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return _KINDS[type(op)], self._operands(left, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _KINDS[type(op)], self._operands(left, right)
            case ast.UnaryOp(op=op, operand=operand):
                return _KINDS[type(op)], self._operands(operand)
            case ast.Call(func=ast.Name(id=kind), args=arguments):
                return kind, self._operands(*arguments)
            case _:
                raise ValueError(f"no formula: {ast.unparse(node)}")

    def _operands(self, *nodes: ast.AST) -> list[Tensor]:
        values = [self.value(node) for node in nodes]
        tensors = [v for v in values if isinstance(v, Tensor)]
        return [
            v if isinstance(v, Tensor) else self.call.scalar(v, tensors[-1].dtype) for v in values
        ]
