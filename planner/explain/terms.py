"""The cost of a choice, term by term."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from costmodel.collectives import CollectiveModel
from costmodel.redistribution import UNREACHABLE_S
from ir.plan import PlannedCollective
from ir.plan_enums import Cause
from planner.explain.causes import ObstacleKind
from planner.lowering.lowered import Lowered, NodeKind
from planner.lowering.parameters import host_bytes, host_s
from planner.pipeline.mesh_collectives import MeshCollectives
from planner.pipeline.plan_builder import PlanBuilder

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
        for index, _ in self.lowered.problem.edges_at[node]:
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
