"""The cost of a choice, term by term: which node or edge, for what, on which links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from costmodel.collectives import CollectiveModel
from costmodel.redistribution import UNREACHABLE_S
from ir.plan import CAUSE_HOST
from planner.edges import CAUSE_INSIDE
from planner.explain.causes import CauseKind
from planner.lowered import Lowered, NodeKind
from planner.stages.offload import host_bytes, host_s

ROUNDING = 1e-12
"""Relative size below which what is left of a sum is rounding."""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the cost of a step."""

    owner: CauseKind
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

    @property
    def label(self) -> str:
        """As `time_by_cause` of a plan has it."""
        return f"{self.what} in {self.tier}" if self.tier else self.what


@dataclass(frozen=True, eq=False)
class Terms:
    """Splits the costs of a lowered problem; parts sum to its tables' entries."""

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
    def _model(self) -> CollectiveModel:
        return CollectiveModel(self.lowered.setting.cluster, self.lowered.setting.mesh)

    def of_choice(self, choice: Sequence[int]) -> list[Term]:
        """All parts of what a choice costs."""
        out: list[Term] = []
        for index, candidate in enumerate(choice):
            out += self.of_node(index, candidate)
        for index, edge in enumerate(self.lowered.edges):
            out += self.of_edge(index, choice[edge.source], choice[edge.target])
        return out

    def near(self, choice: Sequence[int], node: int) -> list[Term]:
        """The parts that a node and its edges have."""
        out = [*self.of_node(node, choice[node])]
        for index, edge in enumerate(self.lowered.edges):
            if node in {edge.source, edge.target}:
                out += self.of_edge(index, choice[edge.source], choice[edge.target])
        return out

    def of_node(self, index: int, candidate: int) -> Iterator[Term]:
        """Parts of a node's own cost."""
        problem, node = self.lowered.problem, self.lowered.nodes[index]
        total = float(problem.node_tables[problem.node_table_of[index]].time_s[candidate])
        if node.candidates is None:
            yield from self._of_tensor(index, candidate, total)
            return
        at, found = node.assignment_index(candidate), node.candidates
        times, forward_s = self._micro_batches, float(found.forward_s[at])
        again_s = forward_s if self._in_block(node.name) else 0.0
        backward_s = float(found.backward_s[at]) - again_s
        parts = [
            Term(CauseKind.NODE, index, what, "", "", spent_s * times)
            for what, spent_s in (("compute forward", forward_s), ("compute backward", backward_s),
                                  ("recompute", again_s))
        ]  # fmt: skip
        for item in found.inner[at]:
            if item.forward + item.backward:
                tier = self._model.tier_of(tuple(sorted(item.axes)))
                what, spent_s = item.kind.value, item.time_s * times
                parts.append(Term(CauseKind.NODE, index, what, tier, CAUSE_INSIDE, spent_s))
        yield from (part for part in parts if part.time_s)
        again = bool(node.recomputes) and candidate != at
        left = total - math.fsum(part.time_s for part in parts)
        yield from self._rest(CauseKind.NODE, index, "recompute" if again else "other", left, total)

    def _of_tensor(self, index: int, candidate: int, total: float) -> Iterator[Term]:
        """What a tensor is computed again for, or the update of a parameter."""
        node, host = self.lowered.nodes[index], 0.0
        if node.kind is NodeKind.PARAMETER and node.port is not None:
            state = node.port.states[node.port.of[candidate]]
            host = host_s(self.lowered, host_bytes(self.lowered, node, state))
        if host:
            yield Term(CauseKind.NODE, index, CAUSE_HOST, "", "", host)
        what = "recompute" if node.kind is NodeKind.TENSOR else "optimizer update"
        yield from self._rest(CauseKind.NODE, index, what, total - host, total)

    def of_edge(self, index: int, source: int, target: int) -> Iterator[Term]:
        """Parts of an edge's cost: the collectives behind it."""
        problem, edge = self.lowered.problem, self.lowered.edges[index]
        total = float(problem.edge_tables[problem.edge_table_of[index]].time_s[source, target])
        if total >= UNREACHABLE_S:
            yield Term(CauseKind.EDGE, index, "cannot be reached", "", "", total)
            return
        before = edge.source_port.states[edge.source_port.of[source]]
        after = edge.target_port.states[edge.target_port.of[target]]
        left = total
        for move in self.lowered.pricer.transfers(edge.kind, before, after):
            step = move.step
            if step.kind is not None and step.time_s:
                tier = self._model.tier_of(tuple(sorted(step.axes)))
                spent_s = step.time_s * (1 if move.once else self._micro_batches)
                left -= spent_s
                yield Term(CauseKind.EDGE, index, step.kind.value, tier, move.cause, spent_s)
        yield from self._rest(CauseKind.EDGE, index, "other", left, total)

    @staticmethod
    def _rest(kind: CauseKind, index: int, what: str, left: float, whole: float) -> Iterator[Term]:
        if abs(left) > ROUNDING * abs(whole):
            yield Term(kind, index, what, "", "", left)


def by_label(terms: Iterable[Term]) -> dict[str, float]:
    """Seconds by cause, as `time_by_cause` of a plan has them."""
    out: dict[str, list[float]] = {}
    for term in terms:
        out.setdefault(term.label, []).append(term.time_s)
    return {label: math.fsum(times) for label, times in out.items()}
