"""Expressions that are looked for in a draft: `Mul(x, Sigmoid(x))`.

A capitalised call is a step of that kind, a number a constant that has it throughout (to the
precision of a short float), a name beginning with `n_` any such constant, and any other name a
tensor, the same wherever the name stands. Operands of what commutes may stand in either order.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from importers.stablehlo.draft import Draft
from importers.traced.writer import Step
from ir.ops.elementwise import COMMUTATIVE

_CLOSE = 4e-3
"""Constants of bfloat16 have 8 bits."""


@dataclass(frozen=True, slots=True)
class Match:
    """What an expression was found to stand for."""

    root: Step
    names: Mapping[str, str] = field(default_factory=dict)
    """Tensors by the names of the expression."""
    steps: tuple[Step, ...] = ()
    """Steps on the way, in the order of the expression."""


@cache
def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def matches(draft: Draft, text: str, root: Step) -> Iterator[Match]:
    """Every way in which a step is the root of an expression."""
    for names, steps in _found(draft, _expression(text), root.outputs[0], {}):
        yield Match(root, names, steps)


_Found = Iterator[tuple[dict[str, str], tuple[Step, ...]]]


def _found(draft: Draft, node: ast.expr, tensor: str, names: dict[str, str]) -> _Found:
    match node:
        case ast.Constant(value=int() | float() as value):
            if math.isclose(_number(draft, tensor), value, rel_tol=_CLOSE):
                yield names, ()
        case ast.Name(id=name):
            if name.startswith("n_") and draft.scalar(tensor) is None:
                return
            if names.get(name, tensor) == tensor:
                yield {**names, name: tensor}, ()
        case ast.Call(func=ast.Name(id=kind), args=arguments):
            step = draft.makers.get(tensor)
            if step is None or step.kind != kind or len(step.inputs) != len(arguments):
                return
            for inputs in _orders(step):
                for bound, steps in _all(draft, arguments, inputs, names):
                    yield bound, (step, *steps)


def _number(draft: Draft, tensor: str) -> float:
    known = draft.scalar(tensor)
    return math.nan if known is None else known


def _orders(step: Step) -> list[tuple[str, ...]]:
    """Operands in every order that means the same."""
    if step.kind in COMMUTATIVE and step.inputs[0] != step.inputs[1]:
        return [step.inputs, step.inputs[::-1]]
    return [step.inputs]


def _all(
    draft: Draft, arguments: list[ast.expr], inputs: tuple[str, ...], names: dict[str, str]
) -> _Found:
    if not arguments:
        yield names, ()
        return
    for bound, steps in _found(draft, arguments[0], inputs[0], names):
        for rest, more in _all(draft, arguments[1:], inputs[1:], bound):
            yield rest, (*steps, *more)
