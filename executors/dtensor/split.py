"""What a rule and an assignment of mesh axes say of one operator: layouts and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from executors.splits import (
    GRADIENT_TERMS,
    Assignment,
    in_pieces,
    result_layouts,
    split_dims,
)
from ir.graph import Op, OpGraph
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.rule import ShardingRule

Wires = Counter[frozenset[int]]
"""All-reduces by the axes over which they go."""


@dataclass(frozen=True, slots=True)
class Split:
    """How one operator is split."""

    op: Op
    rule: ShardingRule
    assignment: Assignment
    operands: tuple[Layout | None, ...]
    """None where the rule gives an operand no layout: every device has it in full."""
    results: tuple[Layout, ...]
    """Partial over the axes of what is summed away."""
    operand_gradients: tuple[Layout | None, ...]
    result_gradients: tuple[Layout, ...]
    """In which the operator takes the gradients of its results."""

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes that split something."""
        return tuple(a for a, f in enumerate(self.assignment) if f >= 0)

    @property
    def reaches_over(self) -> bool:
        """Whether windows read positions of neighbours."""
        split = {self.assignment[a] for a in self.axes}
        return any(w.factor in split and w.before + w.after for w in self.rule.windows)

    def inside(self, *, backward: bool) -> Wires:
        """Messages that the rule promises inside the operator."""
        out: Wires = Counter()
        for item in self.rule.internal:
            axes = frozenset(a for a, f in enumerate(self.assignment) if f in item.factors)
            count = item.backward if backward else item.forward
            if axes and count:
                out[axes] += count
        return out


def split_of(op: Op, graph: OpGraph, assignment: Assignment, sizes: Sequence[int]) -> Split:
    """The split of an operator under an assignment."""
    rule = lookup(op.kind).rule(OpView(op, graph))
    operands = tuple(
        None if m is None else Layout(split_dims(rule, m, assignment, sizes)) for m in rule.operands
    )
    results = tuple(
        in_pieces(rule, [None] * len(operands), result_layouts(rule, assignment, sizes))
    )
    terms = tuple(a for a, f in enumerate(assignment) if f == GRADIENT_TERMS)
    return Split(
        op,
        rule,
        assignment,
        operands,
        results,
        tuple(_gradient(rule, i, o, assignment) for i, o in enumerate(operands)),
        tuple(Layout(r.dims, terms) for r in results),
    )


def _gradient(
    rule: ShardingRule, index: int, operand: Layout | None, assignment: Assignment
) -> Layout | None:
    """The gradient of an operand is a term of a sum over the axes of what the operand lacks."""
    if operand is None:
        return None
    own = {f for dim in rule.operands[index] or () for f in dim}
    missing = (
        a for a, f in enumerate(assignment) if f == GRADIENT_TERMS or (f >= 0 and f not in own)
    )
    return Layout(operand.dims, tuple(missing))
