"""A decision of a plan, the cost of a choice term by term, and causes in the user's words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from costmodel.collectives import CollectiveModel
from costmodel.redistribution import UNREACHABLE_S
from ir.graph import Role
from ir.layout import Layout
from ir.plan import PlannedCollective
from ir.plan_enums import Cause
from planner.candidates.layout_tables import LayoutTable
from planner.constraints.pins import cuts_text
from planner.explain.causes import EQUAL, Obstacle, ObstacleKind
from planner.explain.difference_by_cause import FASTER
from planner.explain.plan_problem import PlanProblem
from planner.explain.restricted_problem import Answer
from planner.lowering.lowered import Lowered, Node, NodeKind
from planner.lowering.parameters import host_bytes, host_s
from planner.pipeline.mesh_collectives import MeshCollectives
from planner.pipeline.plan_builder import PlanBuilder
from planner.reduction.restriction import IndexArray
from planner.request import Cuts
from report.explanation import Reason
from topology.units import format_bytes, format_seconds

ROUNDING = 1e-12
"""Relative size below which what is left of a sum is rounding."""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the cost of a step."""

    owner: ObstacleKind
    """`node` or `edge`."""
    index: int
    """Which one of the problem."""
    what: str
    """`compute forward`, `compute backward`, `recompute`, `optimizer update`, what optimizer state
    takes from and to the host, a collective such as `all_reduce`, or `other`."""
    tier: str
    """Outermost tier that a collective crosses; empty for computation."""
    cause: str
    """For a collective: `forward`, `activation gradient`, `parameter gather`, `gradient sync` or
    `inside operators`."""
    time_s: float
    """Whether computation hides it or not."""
    hidden_s: float = 0.0

    @property
    def label(self) -> str:
        """As `time_by_cause` of a plan has it."""
        return f"{self.what} in {self.tier}" if self.tier else self.what

    @property
    def exposed_s(self) -> float:
        """Seconds that a step is longer for it."""
        return self.time_s - self.hidden_s


HiddenShare: TypeAlias = Callable[[PlannedCollective], float]
"""Of the time of a message, what computation hides."""


def in_turn(_: PlannedCollective) -> float:
    """Nothing hides."""
    return 0.0


@dataclass(frozen=True, eq=False)
class Terms:
    """Splits the costs of a lowered problem: the parts of a choice sum to its time with overlap,
    those of an entry of a table, in turn, to the entry.
    """

    lowered: Lowered

    @property
    def _micro_batches(self) -> int:
        """The problem is that of a whole step, what is priced of one micro-batch."""
        return self.lowered.setting.micro_batches

    def _in_block(self, name: str) -> bool:
        """Whether the backward pass computes an operator again with its block."""
        liveness = self.lowered.liveness
        return liveness.block_of(liveness.position[name]) is not None

    @cached_property
    def _messages(self) -> MeshCollectives:
        return MeshCollectives(self.lowered, ())

    @cached_property
    def _model(self) -> CollectiveModel:
        return CollectiveModel(self.lowered.setting.cluster, self.lowered.setting.mesh)

    def hidden_share(self, choice: Sequence[int]) -> HiddenShare:
        """What hides beside the computation of a choice."""
        return PlanBuilder(self.lowered, tuple(choice)).hidden_share(self._micro_batches)

    def of_choice(self, choice: Sequence[int]) -> list[Term]:
        """All parts of what a choice costs."""
        hidden, out = self.hidden_share(choice), list[Term]()
        for index, candidate in enumerate(choice):
            out += self.of_node(index, candidate)
        for index in range(len(self.lowered.edges)):
            out += self.of_edge(index, choice, hidden)
        return out

    def of_owner(self, owner: ObstacleKind, index: int, choice: Sequence[int]) -> list[Term]:
        """The parts of one node or edge under a choice."""
        if owner is ObstacleKind.NODE:
            return [*self.of_node(index, choice[index])]
        return [*self.of_edge(index, choice, self.hidden_share(choice))]

    def near(self, choice: Sequence[int], node: int) -> list[Term]:
        """The parts that a node and its edges have."""
        hidden, out = self.hidden_share(choice), [*self.of_node(node, choice[node])]
        for index, edge in enumerate(self.lowered.edges):
            if node in {edge.source, edge.target}:
                out += self.of_edge(index, choice, hidden)
        return out

    def of_node(self, index: int, candidate: int) -> Iterator[Term]:
        """Parts of a node's own cost, of which nothing hides."""
        problem, node = self.lowered.problem, self.lowered.nodes[index]
        total = float(problem.node_tables[problem.node_table_of[index]].time_s[candidate])
        if node.candidates is None:
            yield from self._of_tensor(index, candidate, total)
            return
        at, found = node.row(candidate), node.candidates
        times, forward_s = self._micro_batches, float(found.forward_s[at])
        again_s = forward_s if self._in_block(node.name) else 0.0
        backward_s = float(found.backward_s[at]) - again_s
        parts = [
            Term(ObstacleKind.NODE, index, what, "", "", spent_s * times)
            for what, spent_s in (
                (Cause.COMPUTE_FORWARD, forward_s),
                (Cause.COMPUTE_BACKWARD, backward_s),
                (Cause.RECOMPUTE, again_s),
            )
        ]
        for item in found.inner[at]:
            if item.forward + item.backward:
                tier = self._model.tier_of(tuple(sorted(item.axes)))
                what, spent_s = item.kind.value, item.time_s * times
                parts.append(Term(ObstacleKind.NODE, index, what, tier, Cause.INSIDE, spent_s))
        yield from (part for part in parts if part.time_s)
        again = bool(node.columns.recompute[candidate])
        left = total - math.fsum(part.time_s for part in parts)
        yield from self._rest(
            ObstacleKind.NODE, index, Cause.RECOMPUTE if again else "other", left, total
        )

    def _of_tensor(self, index: int, candidate: int, total: float) -> Iterator[Term]:
        """What a tensor is computed again for, or the update of a parameter."""
        node, host = self.lowered.nodes[index], 0.0
        if node.kind is NodeKind.PARAMETER:
            host = host_s(self.lowered, host_bytes(self.lowered, node, candidate))
        if host:
            yield Term(ObstacleKind.NODE, index, Cause.HOST, "", "", host)
        what = Cause.RECOMPUTE if node.kind is NodeKind.TENSOR else Cause.UPDATE
        yield from self._rest(ObstacleKind.NODE, index, what, total - host, total)

    def of_edge(
        self, index: int, choice: Sequence[int], hidden: HiddenShare = in_turn
    ) -> Iterator[Term]:
        """Parts of an edge's cost: the collectives behind it."""
        problem, edge = self.lowered.problem, self.lowered.edges[index]
        ends = choice[edge.source], choice[edge.target]
        total = float(problem.edge_tables[problem.edge_table_of[index]].time_s[ends])
        if total >= UNREACHABLE_S:
            yield Term(ObstacleKind.EDGE, index, "cannot be reached", "", "", total)
            return
        left = total
        for item in self._messages.along(edge, *ends):
            if item.time_s:
                left -= item.time_s
                hidden_s = hidden(item) * item.time_s
                parts = item.kind, item.tier, item.cause, item.time_s, hidden_s
                yield Term(ObstacleKind.EDGE, index, *parts)
        yield from self._rest(ObstacleKind.EDGE, index, "other", left, total)

    @staticmethod
    def _rest(
        kind: ObstacleKind, index: int, what: str, left: float, whole: float
    ) -> Iterator[Term]:
        if abs(left) > ROUNDING * abs(whole):
            yield Term(kind, index, what, "", "", left)


def by_label(terms: Iterable[Term]) -> dict[str, float]:
    """Exposed seconds by cause, as `time_by_cause` of a plan has them."""
    out: dict[str, list[float]] = {}
    for term in terms:
        out.setdefault(term.label, []).append(term.exposed_s)
    return {label: math.fsum(times) for label, times in out.items()}


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
        return f"{noun} costs other ways to arrange it more than the plan: {_then(cause)} otherwise"
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
    told = ", ".join(label for label, _ in found[:2]) or "nothing"
    what = "the work of" if cause.kind is ObstacleKind.NODE else "moving"
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

    def edges(self) -> Iterator[tuple[int, int]]:
        """Edges at the node: number and the node at the other end."""
        for index, edge in enumerate(self.case.lowered.edges):
            if edge.source == self.number:
                yield index, edge.target
            elif edge.target == self.number:
                yield index, edge.source
