"""Formulas of operators: `x * Sigmoid(x)` becomes a Sigmoid and a Mul.

A capitalised call is an operator of that kind, a small name an argument of the call or what a line
in front names, a number one of the type of the operand beside it. Lines are separated by
semicolons; the last one is the result. Operators are written from left to right, operands first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from importers.operators import Operators
from importers.parameters import parametrised
from importers.traced.call import Call
from ir.graph import Tensor

_METHODS: Mapping[type[ast.AST], Callable[..., Tensor]] = MappingProxyType(
    {ast.Add: Operators.add, ast.Sub: Operators.sub, ast.Mult: Operators.mul,
     ast.Div: Operators.div, ast.USub: Operators.neg, ast.Gt: Operators.greater,
     ast.Eq: Operators.equal}
)  # fmt: skip
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
    work.write(last, call.answer)


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
        return self.write(node, self.call)

    def _named(self, name: str) -> _Value:
        if name in self.numbers:
            return self.call.float(name, self.numbers[name])
        if name not in self.known:
            call, dtype = self.call, self.call.result.dtype
            self.known[name] = call.operand(name, dtype) if self.same else call.tensor(name)
        return self.known[name]

    def write(self, node: ast.AST, writer: Operators[Tensor]) -> Tensor:
        """An operator with its operands as tensors."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return _METHODS[type(op)](writer, *self._operands(left, right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _METHODS[type(op)](writer, *self._operands(left, right))
            case ast.UnaryOp(op=op, operand=operand):
                return _METHODS[type(op)](writer, *self._operands(operand))
            case ast.Call(func=ast.Name(id=kind), args=arguments):
                return writer.pointwise(kind, *self._operands(*arguments))
            case _:
                raise ValueError(f"no formula: {ast.unparse(node)}")

    def _operands(self, *nodes: ast.AST) -> list[Tensor]:
        values = [self.value(node) for node in nodes]
        tensors = [v for v in values if isinstance(v, Tensor)]
        return [
            v if isinstance(v, Tensor) else self.call.scalar(v, tensors[-1].dtype) for v in values
        ]
