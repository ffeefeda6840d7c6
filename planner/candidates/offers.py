"""The assignments of mesh axes to factors that a target offers for an operator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ir.dialects import Dialect
from ir.ops import Engine, OperatorEntry
from ir.rule import ShardingRule
from planner.candidates.assignments import (
    GRADIENT_PARTIAL,
    REPLICATED,
    Assignment,
    Assignments,
    Patterns,
    compound_dims,
    fitting,
    patterns,
)
from topology.mesh import Mesh

__all__ = ["GRADIENT_PARTIAL", "MAX_CANDIDATES", "REPLICATED", "Assignment", "Offers"]

MAX_CANDIDATES = 4096
"""Candidates of one operator; what lies beyond is counted and left out."""


@dataclass(slots=True)
class Offers:
    """The assignments that a target offers on one mesh, the same object for operators alike."""

    dialect: Dialect
    mesh: Mesh
    _patterns: dict[tuple[int, bool], Patterns] = field(default_factory=dict)
    _found: dict[tuple[object, ...], tuple[Assignments, int]] = field(default_factory=dict)
    _known: dict[tuple[tuple[int, ...], bool, bytes], Assignments] = field(default_factory=dict)

    def of(
        self, rule: ShardingRule, entry: OperatorEntry, *, gradient: bool, in_order: bool = True
    ) -> tuple[Assignments, int]:
        """Those of an operator, and how many were left out by the limit.

        Args:
            rule: of the operator.
            entry: of its kind.
            gradient: whether the gradient of an operand is wanted.
            in_order: only what cut counts say, where the target has those.
        """
        ordered = self.dialect.cut_counts and (in_order or not self.dialect.inherits)
        choices = self._choices(rule, entry, gradient=gradient)
        if self.mesh.size == 1:
            choices = (REPLICATED,)
        # Rules that look up are told by all they have; of others only these facts count.
        compound = rule if rule.lookup else tuple(compound_dims(rule))
        windows = rule.windows if self.dialect.cut_positions else ()
        key = (choices, ordered, rule.sizes, rule.divisors, compound, windows)
        if key not in self._found:
            self._found[key] = self._offered(rule, choices, ordered=ordered)
        return self._found[key]

    def assignments(
        self, rule: ShardingRule, entry: OperatorEntry, *, gradient: bool
    ) -> tuple[list[Assignment], int]:
        """The same as a list."""
        found, left_out = self.of(rule, entry, gradient=gradient)
        return list(found.rows), left_out

    def _choices(
        self, rule: ShardingRule, entry: OperatorEntry, *, gradient: bool
    ) -> tuple[int, ...]:
        """What an axis may do: the factors that it may split, then the ways to repeat."""
        terms = gradient and not self.dialect.eager_sums and not self.dialect.cut_counts
        free = (REPLICATED, GRADIENT_PARTIAL) if terms else (REPLICATED,)
        return (*self._factors(rule, entry), *free)

    def _factors(self, rule: ShardingRule, entry: OperatorEntry) -> tuple[int, ...]:
        factors = rule.splittable
        if not self.dialect.cut_positions:
            whole = {window.factor for window in rule.windows}
            factors = tuple(f for f in factors if f not in whole)
        if not self.dialect.cut_counts:
            return factors
        barred = set(rule.uncut)
        if entry.engine is not Engine.VIEW:
            barred.update(_minor_factors(rule))
        return tuple(f for f in factors if f not in barred)

    def _offered(
        self, rule: ShardingRule, choices: tuple[int, ...], *, ordered: bool
    ) -> tuple[Assignments, int]:
        every = self._every(len(choices), ordered=ordered)
        factors = tuple(f for f in choices if f >= 0)
        keep = np.flatnonzero(fitting(rule, factors, every.pieces, self.dialect.max_waste))
        if self.dialect.cut_counts and rule.lookup:
            rows = np.array(choices)[every.chosen[keep]].tolist()
            keep = keep[[_lookup_alone(tuple(row), rule) for row in rows]]
        left_out = max(len(keep) - MAX_CANDIDATES, 0)
        if left_out:
            rows = np.array(choices)[every.chosen[keep]].tolist()
            order = sorted(range(len(rows)), key=lambda i: (len(set(rows[i])), rows[i]))
            keep = keep[order[:MAX_CANDIDATES]]
        same = (choices, ordered, keep.tobytes())
        if same not in self._known:
            chosen, pieces = every.chosen[keep], every.pieces[keep]
            self._known[same] = Assignments(choices, chosen, pieces, self.mesh.sizes)
        return self._known[same], left_out

    def _every(self, choices: int, *, ordered: bool) -> Patterns:
        key = (choices, ordered)
        if key not in self._patterns:
            self._patterns[key] = patterns(choices, self.mesh.sizes, ordered=ordered)
        return self._patterns[key]


def _minor_factors(rule: ShardingRule) -> set[int]:
    out: set[int] = set()
    for mapping in (*rule.operands, *rule.results):
        for dim in mapping or ():
            real = [f for f in dim if rule.sizes[f] > 1]
            out.update(real[1:])
    return out


def _lookup_alone(assignment: Assignment, rule: ShardingRule) -> bool:
    """MindSpore cuts the rows of a table over all devices or not at all: it would repeat such an
    operator over the outermost devices. Where the indices are cut too, their first dimension is.

    Source: MindSpore 2.7.0, `gather_info.cc`, GetGatherMode.
    """
    split = {f for f in assignment if f >= 0}
    if not split & rule.lookup:
        return True
    if REPLICATED in assignment:
        return False
    table, indices = ([f for d in rule.operands[i] or () for f in d] for i in (0, 1))
    cut = split & set(indices)
    if not cut:
        return True
    columns = split & set(table) - rule.lookup
    wide = len(indices) > 2 or (len(indices) == 2 and columns)
    return len(table) == 2 and indices[0] in cut and not wide
