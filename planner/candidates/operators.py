"""Candidates of one operator: every way to split it, with its times and the layouts of its
tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import CollectiveModel
from costmodel.operators import OperatorModel
from costmodel.software import GENERIC, SoftwareProfile
from ir.dialects import Dialect
from ir.graph import Role
from ir.ops import OpView, lookup
from ir.ops.shape import RESHAPES
from ir.plan import NamedLayout, Plan
from ir.plan_stages import axis_sizes
from ir.rule import ShardingRule
from planner.candidates.assignments import Assignment, Assignments
from planner.candidates.internal_collectives import InternalCollective, InternalPricer
from planner.candidates.layout_tables import LayoutTable
from planner.candidates.mesh_tables import MeshTables, mesh_tables
from planner.candidates.operator_cost import OperatorCost, priced_together
from planner.request import Cuts
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]


class Times(NamedTuple):
    """What the candidates of an operator take."""

    forward_s: FloatArray
    """Computation forward, shape (C,)."""
    backward_s: FloatArray
    inner: Sequence[tuple[InternalCollective, ...]]
    """Communication inside, per candidate."""
    inner_s: FloatArray
    whole_forward_s: float
    """Forward computation of the whole operator on one device."""

    def again(self) -> Times:
        """The same where the backward pass computes the operator again first."""
        inner = [tuple(_sent_again(item) for item in own) for own in self.inner]
        spent = np.array([sum(item.time_s for item in own) for own in inner], dtype=np.float64)
        backward = self.backward_s + self.forward_s
        return self._replace(backward_s=backward, inner=inner, inner_s=spent)


def _sent_again(item: InternalCollective) -> InternalCollective:
    """What is sent forward is sent once more before the backward pass."""
    times = item.forward + item.backward
    time_s = item.time_s * (times + item.forward) / times if times else 0.0
    return replace(item, backward=item.backward + item.forward, time_s=time_s)


@dataclass(frozen=True, eq=False)
class OpCandidates:
    """All candidates of one kind of operator with given operands; shared by equal operators."""

    splits: Assignments
    left_out: int
    """Assignments beyond the limit."""
    operands: tuple[LayoutTable | None, ...]
    results: tuple[LayoutTable | None, ...]
    priced: Callable[[], Times]
    """Finds the times when they are asked for: another cost than time may not need them."""

    @cached_property
    def times(self) -> Times:
        return self.priced()

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """What each candidate does with the mesh axes."""
        return self.splits.rows

    @property
    def forward_s(self) -> FloatArray:
        """Computation forward, shape (C,)."""
        return self.times.forward_s

    @property
    def backward_s(self) -> FloatArray:
        return self.times.backward_s

    @property
    def inner(self) -> Sequence[tuple[InternalCollective, ...]]:
        """Communication inside, per candidate."""
        return self.times.inner

    @property
    def inner_s(self) -> FloatArray:
        return self.times.inner_s

    @property
    def whole_forward_s(self) -> float:
        """Forward computation of the whole operator on one device."""
        return self.times.whole_forward_s

    @property
    def time_s(self) -> FloatArray:
        return self.forward_s + self.backward_s + self.inner_s

    @cached_property
    def again(self) -> OpCandidates:
        """The same where the backward pass computes the operator again first."""
        return replace(self, priced=self._times_again)

    def _times_again(self) -> Times:
        return self.times.again()


@dataclass(slots=True)
class OpPricer:
    """Makes candidates on one mesh for one target."""

    mesh: Mesh
    dialect: Dialect
    operators: OperatorModel
    collectives: CollectiveModel
    software: SoftwareProfile = GENERIC
    """What kernels take in a step over what they take alone."""
    tables: MeshTables = field(init=False)
    _inner: InternalPricer = field(init=False)

    def __post_init__(self) -> None:
        self.tables = mesh_tables(self.mesh, self.dialect)
        self._inner = InternalPricer(self.collectives, self.dialect.partial_edges)

    def candidates(self, view: OpView, gradient: Sequence[bool]) -> OpCandidates:
        """Candidates of an operator.

        Args:
            view: the operator.
            gradient: for every operand whether its gradient is wanted.
        """
        return self.all_candidates([(view, gradient)])[0]

    def all_candidates(self, wanted: Sequence[tuple[OpView, Sequence[bool]]]) -> list[OpCandidates]:
        """Candidates of several operators, priced together; each as for `candidates`."""
        drafts = [self._draft(view, gradient) for view, gradient in wanted]
        found: list[Times] = []

        def times(number: int) -> Times:
            if not found:
                found.extend(self._times(drafts))
            return found[number]

        return [
            OpCandidates(d.splits, d.left_out, d.operands, d.results, partial(times, number))
            for number, d in enumerate(drafts)
        ]

    def _draft(self, view: OpView, gradient: Sequence[bool]) -> _Draft:
        entry = lookup(view.op.kind)
        rule = entry.rule(view)
        if rule.divisors != view.op.divisors:
            rule = replace(rule, divisors=view.op.divisors)
        splits, left_out = self.tables.offers.of(
            rule, entry, gradient=any(gradient), in_order=not _inherits(view, rule)
        )
        summed = tuple(_summed(rule, i) for i in range(len(rule.results)))
        operands = tuple(
            None if m is None or t is None else self.tables.ports.operand(m, splits)
            for m, t in zip(rule.operands, view.inputs, strict=True)
        )
        results = tuple(
            None if m is None else self.tables.ports.result(m, splits, s)
            for m, s in zip(rule.results, summed, strict=True)
        )
        return _Draft(view, gradient, rule, splits, left_out, summed, operands, results)

    def _times(self, drafts: Sequence[_Draft]) -> Iterator[Times]:
        priced = [
            OperatorCost(
                self.operators, self.mesh, lookup(d.view.op.kind), d.rule, d.splits
            ).times_s(d.view, d.operands, d.results, d.gradient)
            for d in drafts
        ]
        computed = priced_together(self.operators, priced)
        for d, alone in zip(drafts, computed, strict=True):
            inner = self._inner.messages(
                d.rule, d.splits, d.view.outputs, d.summed, gradient=d.gradient
            )
            slower = self.software.kernels(lookup(d.view.op.kind))
            forward, backward = (slower * each for each in alone)
            yield Times(forward[:-1], backward[:-1], inner, inner.time_s(), float(forward[-1]))


class _Draft(NamedTuple):
    """An operator, its candidates and what they do to its tensors."""

    view: OpView
    gradient: Sequence[bool]
    rule: ShardingRule
    splits: Assignments
    left_out: int
    summed: tuple[frozenset[int], ...]
    """For each result the factors that are summed away."""
    operands: tuple[LayoutTable | None, ...]
    results: tuple[LayoutTable | None, ...]


def _inherits(view: OpView, rule: ShardingRule) -> bool:
    """Whether an operator may take over any layout of a neighbour: it works element by
    element, on one operand or on several that other operators make, or moves its dimensions.
    """
    maps = [mapping for mapping in (*rule.operands, *rule.results) if mapping is not None]
    plain = not (rule.internal or rule.locked or rule.uncut or rule.windows or rule.lookup)
    if not plain or len(maps) != len(rule.operands) + len(rule.results):
        return False
    made = all(t is not None and t.role in {Role.ACTIVATION, Role.INPUT} for t in view.inputs)
    if len(rule.operands) > 1:
        made = all(t is not None and t.role is Role.ACTIVATION for t in view.inputs)
        made = made and all(mapping == maps[0] for mapping in maps)
    if view.op.kind in RESHAPES:
        return made
    every = {dim for mapping in maps for dim in mapping}
    return made and all(
        len(dim) == 1 and {*mapping} == every for mapping in maps for dim in mapping
    )


def _summed(rule: ShardingRule, result: int) -> frozenset[int]:
    """Factors of the operands that a result lacks and that no internal collective reduces."""
    mapping = rule.results[result]
    kept = {f for dim in mapping or () for f in dim}
    inside = {f for item in rule.internal for f in item.factors}
    present = {f for m in rule.operands if m is not None for dim in m for f in dim}
    return frozenset(present - kept - inside)


def splits_of(candidates: OpCandidates, sizes: Sequence[int]) -> list[Cuts]:
    """Cuts of operands, then of results, of every candidate; of a tensor without layout none."""
    columns = []
    for port in (*candidates.operands, *candidates.results):
        if port is None:
            columns.append([()] * len(candidates.assignments))
            continue
        cuts = [state.forward.shards(tuple(sizes)) for state in port.states]
        columns.append([cuts[state] for state in port.of])
    return list(zip(*columns, strict=True)) if columns else [()] * len(candidates.assignments)


def splits_in(plan: Plan) -> tuple[tuple[str, Cuts], ...]:
    """The same of every operator of a plan, by name."""

    def cuts(layout: NamedLayout | None, sizes: Mapping[str, int]) -> tuple[int, ...]:
        if layout is None:
            return ()
        out = []
        for dim in layout.dims:
            pieces = 1
            for axis in dim:
                pieces *= sizes[axis]
            out.append(pieces)
        return tuple(out)

    return tuple(
        (op.name, tuple(cuts(each, sizes) for each in (*op.inputs, *op.outputs)))
        for op in plan.operators
        for sizes in (axis_sizes(plan, op.stage),)
    )
