"""A decision of a plan, and causes in the user's words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ir.causes import cause_text
from ir.graph import Role
from ir.layout import Layout
from planner.candidates.layout_tables import LayoutTable
from planner.constraints.pins import cuts_text
from planner.explain.causes import EQUAL, Obstacle, ObstacleKind
from planner.explain.difference_by_cause import FASTER
from planner.explain.plan_problem import PlanProblem
from planner.explain.restricted_problem import Answer
from planner.explain.terms import Term, Terms, by_label
from planner.lowering.lowered import Node, NodeKind
from planner.pipeline.plan_builder import PlanBuilder
from planner.reduction.restriction import IndexArray
from planner.request import Cuts
from report.explanation import Reason
from topology.units import format_bytes, format_seconds


def reason_of(case: PlanProblem, cause: Obstacle, alternatives: Sequence[Sequence[int]]) -> Reason:
    """A cause as a sentence.

    Args:
        case: the plan.
        cause: what was found.
        alternatives: choices with the candidate: all else as planned, all else anew.
    """
    name = _name(case, cause)
    alternatives = [*alternatives, *([cause.choice] if cause.choice else [])]
    return Reason(
        kind=cause.kind.value,
        name=name,
        text=_text(case, cause, name, alternatives),
        share_s=cause.share_s if math.isfinite(cause.share_s) else None,
        left_s=cause.left_s,
        decisive=cause.is_decisive,
    )


def does_not_fit(case: PlanProblem, rival: Answer) -> Reason:
    """The reason of a candidate with which nothing fits into memory, limit or not lifted."""
    text = (
        f"nothing fits with it: the smallest found needs {format_bytes(rival.peak_bytes)} "
        f"of {format_bytes(case.posed.limit_bytes)}"
    )
    return Reason(ObstacleKind.MEMORY.value, "", text, None, math.inf, decisive=False)


def is_missed(case: PlanProblem, rival: Answer) -> bool:
    """Whether a search with the candidate finds what the search of the plan did not."""
    plan_s = case.plan_answer.cost_s
    return rival.fits and rival.cost_s < plan_s * (1 - EQUAL)


def missed(case: PlanProblem, rival: Answer) -> Reason:
    """The reason of a candidate with which a search finds a faster plan."""
    gain_s = case.plan_answer.cost_s - rival.cost_s
    return Reason("search", "", FASTER, None, -gain_s, decisive=True)


def node_name(case: PlanProblem, number: int) -> str:
    """An operator by its name, a tensor by its name and what it is."""
    node = case.lowered.nodes[number]
    name = node.origin.name
    return name if node.kind is NodeKind.OPERATOR else f"{node.kind} {name}"


def _name(case: PlanProblem, cause: Obstacle) -> str:
    if cause.kind is ObstacleKind.HOLD:
        return case.posed.holds[cause.index].text
    if cause.kind is ObstacleKind.NODE:
        return node_name(case, cause.index)
    if cause.kind is ObstacleKind.EDGE:
        edge = case.lowered.edges[cause.index]
        ends = (node_name(case, edge.source), node_name(case, edge.target))
        return f"{case.plain(edge.tensor)} from {ends[0]} to {ends[1]}"
    return ""


def _text(
    case: PlanProblem, cause: Obstacle, name: str, alternatives: Sequence[Sequence[int]]
) -> str:
    if cause.kind is ObstacleKind.HOLD:
        return f"{name} holds the plan: {_then(cause)} without it"
    if cause.kind is ObstacleKind.MEMORY:
        limit = format_bytes(case.posed.limit_bytes)
        return f"the memory of {limit} per device: {_then(cause)} without the limit"
    terms = Terms(case.lowered)
    ways = [terms.of_owner(cause.kind, cause.index, own) for own in (case.choice, *alternatives)]
    times = [math.fsum(term.exposed_s for term in own) for own in ways]
    worst = max(range(len(ways)), key=times.__getitem__)
    noun = _noun(cause, name, ways[worst])
    if times[worst] <= times[0]:
        return f"{noun} is dearer in every other arrangement: {_then(cause)} otherwise"
    return f"{noun} takes {format_seconds(times[worst])}, in the plan {format_seconds(times[0])}"


def _then(cause: Obstacle) -> str:
    about = "about " if cause.is_near else ""
    if cause.left_s < 0:
        gain = format_seconds(-cause.left_s)
        return f"the step would be {about}{gain} faster with this candidate"
    if cause.left_s == 0:
        return "this candidate would be as good as the plan's"
    if math.isinf(cause.share_s):
        return f"it would cost {about}{format_seconds(cause.left_s)} more, but be possible"
    return f"{about}{format_seconds(cause.share_s)} of the difference would go"


def _noun(cause: Obstacle, name: str, parts: Sequence[Term]) -> str:
    """What a node does or an edge moves, with the largest parts of it."""
    found = sorted(by_label(parts).items(), key=lambda kv: -kv[1])
    told = ", ".join(cause_text(label) for label, _ in found[:2]) or "nothing"
    what = "the cost of" if cause.kind is ObstacleKind.NODE else "redistribution of"
    return f"{what} {name} ({told})"


Shown = tuple[tuple[str, ...], tuple[str, ...]]
"""Layouts of inputs and of results."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One node of the problem."""

    case: PlanProblem
    number: int

    @property
    def node(self) -> Node:
        return self.case.lowered.nodes[self.number]

    @property
    def size(self) -> int:
        return self.case.lowered.problem.sizes[self.number]

    @cached_property
    def _evidence(self) -> PlanBuilder:
        return PlanBuilder(self.case.lowered, self.case.choice)

    def layouts(self, candidate: int) -> Shown:
        """Layouts that a candidate gives to operands and results; of a tensor its own."""
        node = self.node
        if node.candidates is None:
            return (), (self.layout_text(node.layout(candidate).forward),)
        at, found = node.row(candidate), node.candidates
        return (
            tuple(self._port_text(port, at) for port in found.operands),
            tuple(self._port_text(port, at) for port in found.results),
        )

    def _port_text(self, table: LayoutTable | None, row: int) -> str:
        return "-" if table is None else self.layout_text(table.states[table.of[row]].forward)

    def layout_text(self, layout: Layout) -> str:
        """A layout with the names of the mesh axes."""
        return str(self._evidence.named(layout))

    def cuts(self, candidate: int) -> Cuts | None:
        """In how many parts an operator's candidate cuts each operand; None for a tensor."""
        node = self.node
        if node.candidates is None:
            return None
        at, sizes = node.row(candidate), self.case.lowered.setting.mesh.sizes
        graph = self.case.graph
        op = next(op for op in graph.ops if op.name == node.name)
        out: list[tuple[int, ...]] = []
        for name, port in zip(op.inputs, node.candidates.operands, strict=True):
            tensor = graph.tensors.get(name)
            if tensor is None or not tensor.dims or tensor.role is Role.CONSTANT:
                continue
            whole = Layout(((),) * len(tensor.dims))
            layout = whole if port is None else port.states[port.of[at]].forward
            out.append(layout.shards(sizes))
        return tuple(out)

    def cuts_text(self, candidate: int) -> str:
        """As `--pin` takes them; the layout of a tensor."""
        cuts = self.cuts(candidate)
        return self.layouts(candidate)[1][0] if cuts is None else cuts_text(cuts)

    @cached_property
    def looks(self) -> tuple[Shown, ...]:
        """Layouts of every candidate."""
        known: dict[int, Shown] = {}
        rows = self.node.columns.assignment.tolist()
        for candidate, row in enumerate(rows):
            if row not in known:
                known[row] = self.layouts(candidate)
        return tuple(known[row] for row in rows)

    def alike(self, candidate: int) -> IndexArray:
        """Candidates with the same layouts, whatever they compute again."""
        look = self.looks[candidate]
        return np.array([i for i, own in enumerate(self.looks) if own == look], dtype=np.intp)

    def label(self) -> str:
        """Kind of an operator; dims and element type of a tensor."""
        graph = self.case.graph
        if self.node.kind is NodeKind.OPERATOR:
            return next(op.label for op in graph.ops if op.name == self.node.name)
        tensor = graph.tensors[self.node.name]
        return f"{'x'.join(map(str, tensor.dims)) or 'scalar'} {tensor.dtype}"

    def scope(self) -> str:
        if self.node.kind is not NodeKind.OPERATOR:
            return ""
        return next(op.scope for op in self.case.graph.ops if op.name == self.node.name)
