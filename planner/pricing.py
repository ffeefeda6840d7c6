"""In what a lowered problem is priced: in seconds, or in the units of MindSpore's own cost.

Candidates, layouts and memory are the same either way, so a choice that is found in one currency
can be read in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from costmodel.operators import OperatorModel
from ir.graph import OpGraph
from ir.ops import OpView
from planner.candidates import FloatArray, OpCandidates
from planner.dialects import Dialect
from planner.edges import EdgeKind, EdgePricer
from planner.holdings import Holding
from planner.ports import Port
from planner.request import RequestError

TIME = "time"
MINDSPORE = "mindspore"
COMMUNICATION = "communication"
"""Seconds of communication: as all plans do the same computation, the most of it for each second
in which devices talk."""
MEMORY = "memory"
"""Peak memory of a device (`planner.least_memory`)."""
COSTS = (TIME, MINDSPORE, COMMUNICATION, MEMORY)
"""What a search can minimise."""
TIE = 1e-6
"""Weight of what is not minimised, so that it decides between equals."""


Flow: TypeAlias = tuple[EdgeKind, Port, Port]
"""What flows along an edge, from which port to which."""


class Pricing(Protocol):
    """Fills the tables of a problem."""

    def prepare(self, flows: Sequence[Flow]) -> None:
        """Work out at once what edges are asked for later."""
        ...

    def operator(self, view: OpView, found: OpCandidates) -> FloatArray:
        """Cost of every candidate of an operator, shape (C,)."""
        ...

    def update(self, nbytes: FloatArray) -> FloatArray:
        """Cost of an update of a parameter that moves so many bytes, in the shape of these."""
        ...

    def holding(self, holding: Holding) -> Holding:
        """A holding with what it costs to compute its tensor again."""
        ...

    def edge(self, kind: EdgeKind, source: Port, target: Port) -> FloatArray:
        """Cost of each pair of states, shape (source states, target states)."""
        ...

    def branch(self, kind: EdgeKind, source: Port, target: Port) -> FloatArray:
        """The same of the edge to a tensor that has several readers."""
        ...


def check_cost(cost: str, dialect: Dialect, graph: OpGraph) -> None:
    """Raise `RequestError` if a problem cannot be priced so."""
    if cost not in COSTS:
        raise RequestError(
            f"there is no cost {cost!r}\n  at:  --cost\n  fix: use one of {', '.join(COSTS)}"
        )
    if cost == MINDSPORE and not dialect.cut_counts:
        raise RequestError(
            f"MindSpore's cost is not defined for strategies of the dialect {dialect.name}\n"
            "  at:  --cost mindspore\n  fix: leave it out, or use --target mindspore"
        )
    if cost == MINDSPORE and graph.is_training_step:
        raise RequestError(
            "the model is a traced training step, and MindSpore's cost counts the backward pass "
            "of a forward model\n"
            "  at:  --cost mindspore\n  fix: leave it out, or export the forward model"
        )


@dataclass(frozen=True, slots=True)
class TimePricing:
    """Seconds."""

    operators: OperatorModel
    edges: EdgePricer

    def prepare(self, flows: Sequence[Flow]) -> None:
        self.edges.prepare([(source, target) for _, source, target in flows])

    def operator(self, view: OpView, found: OpCandidates) -> FloatArray:  # noqa: ARG002
        return found.time_s

    def update(self, nbytes: FloatArray) -> FloatArray:
        return self.operators.stream_s(nbytes)

    def holding(self, holding: Holding) -> Holding:
        return holding

    def edge(self, kind: EdgeKind, source: Port, target: Port) -> FloatArray:
        return self.edges.times(kind, source, target)

    def branch(self, kind: EdgeKind, source: Port, target: Port) -> FloatArray:
        return self.edges.times(kind, source, target)


@dataclass(frozen=True, slots=True)
class CommunicationPricing(TimePricing):
    """Seconds of communication."""

    def operator(self, view: OpView, found: OpCandidates) -> FloatArray:  # noqa: ARG002
        return found.inner_s + TIE * (found.time_s - found.inner_s)

    def update(self, nbytes: FloatArray) -> FloatArray:
        return TIE * self.operators.stream_s(nbytes)


def in_seconds(cost: str, operators: OperatorModel, edges: EdgePricer) -> Pricing:
    """Prices in seconds: of everything, or of communication alone."""
    made = CommunicationPricing if cost == COMMUNICATION else TimePricing
    return made(operators, edges)
