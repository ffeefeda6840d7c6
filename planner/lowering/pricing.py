"""In what a lowered problem is priced: in seconds, or in the units of a framework's own cost.

Candidates, layouts and memory are the same either way, so a choice that is found in one currency
can be read in the other. What is priced once is kept for other lowerings on the same mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np

from costmodel.memory import NEWTON_SCHULZ_STEPS
from costmodel.operators import OperatorModel
from ir.dialects import TARGETS, Dialect, target_with
from ir.graph import OpGraph
from ir.ops import OpView
from planner.candidates.layout_tables import LayoutTable
from planner.candidates.operators import FloatArray, OpCandidates
from planner.candidates.tensor_layouts import TensorLayouts
from planner.lowering.edges import EdgeKind, EdgePricer
from planner.lowering.live_tensors import LiveTensor
from planner.problem import IntArray
from planner.request import RequestError

TIME = "time"
SLICES = next(filter(None, (dialect.own_cost for dialect in TARGETS.values())))
"""Weighted bytes of slices: what the searches of a framework minimise."""
COMMUNICATION = "communication"
"""Seconds of communication: as all plans do the same computation, the most of it for each second
in which devices talk."""
MEMORY = "memory"
"""Peak memory of a device (`planner.pipeline.objectives`)."""
COSTS = (TIME, SLICES, COMMUNICATION, MEMORY)
"""What a search can minimise."""
TIE = 1e-6
"""Weight of what is not minimised, so that it decides between equals."""


Flow: TypeAlias = tuple[EdgeKind, LayoutTable, LayoutTable]
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

    def orthogonalise(self, dims: IntArray) -> FloatArray:
        """Cost of Muon's products for matrices of these dims, shape (C, dims), in shape (C,)."""
        ...

    def live_tensor(self, tensor: LiveTensor) -> LiveTensor:
        """A live tensor with what its recomputation costs."""
        ...

    def edge(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        """Cost of each pair of states, shape (source states, target states)."""
        ...

    def branch(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        """The same of the edge to a tensor that has several readers."""
        ...


def check_cost(cost: str, dialect: Dialect, graph: OpGraph) -> None:
    """Raise `RequestError` if a problem cannot be priced so."""
    if cost not in COSTS:
        raise RequestError(
            f"there is no cost {cost!r}\n  at:  --cost\n  fix: use one of {', '.join(COSTS)}"
        )
    if cost == SLICES and cost != dialect.own_cost:
        target = target_with(lambda each: each.own_cost == cost)
        raise RequestError(
            f"{TARGETS[target].framework}'s cost is not defined for strategies of the dialect "
            f"{dialect.name}\n  at:  --cost {cost}\n  fix: leave it out, or use --target {target}"
        )
    if cost == SLICES and graph.is_training_step:
        raise RequestError(
            f"the model is a traced training step, and {dialect.framework}'s cost counts the "
            "backward pass of a forward model\n"
            f"  at:  --cost {cost}\n  fix: leave it out, or export the forward model"
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

    def orthogonalise(self, dims: IntArray) -> FloatArray:
        return orthogonalise_s(self.operators, dims)

    def live_tensor(self, tensor: LiveTensor) -> LiveTensor:
        return tensor

    def edge(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        return self.edges.times(kind, source, target)

    def branch(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        return self.edges.times(kind, source, target)


@dataclass(frozen=True, slots=True)
class CommunicationPricing(TimePricing):
    """Seconds of communication."""

    def operator(self, view: OpView, found: OpCandidates) -> FloatArray:  # noqa: ARG002
        return found.inner_s + TIE * (found.time_s - found.inner_s)

    def update(self, nbytes: FloatArray) -> FloatArray:
        return TIE * self.operators.stream_s(nbytes)

    def orthogonalise(self, dims: IntArray) -> FloatArray:
        return TIE * orthogonalise_s(self.operators, dims)


def orthogonalise_s(operators: OperatorModel, dims: IntArray) -> FloatArray:
    """Seconds in which a device orthogonalises the momenta of its parts of matrices, in 16 bits.

    Each device takes its own part as a matrix, as Megatron's `--muon-tp-mode blockwise` does: to
    gather whole ones first is not counted.

    Args:
        operators: of the chip.
        dims: of the parts, shape (C, dims): the last two are those of a matrix.
    """
    sizes = dims.astype(np.float64)
    short, long = sizes[:, -2:].min(axis=1), sizes[:, -2:].max(axis=1)
    count = sizes[:, :-2].prod(axis=1)
    products = ((short, short, long), (short, short, short), (short, long, short))
    each = sum(operators.matmul_s("bfloat16", *product, count) for product in products)
    return np.asarray(NEWTON_SCHULZ_STEPS * each)


def in_seconds(cost: str, operators: OperatorModel, edges: EdgePricer) -> Pricing:
    """Prices in seconds: of everything, or of communication alone."""
    made = CommunicationPricing if cost == COMMUNICATION else TimePricing
    return made(operators, edges)


@dataclass(frozen=True, slots=True)
class Priced:
    """An operator's candidates and what they cost; equal operators share both."""

    signature: int
    candidates: OpCandidates
    cost: FloatArray
    gradients: tuple[bool, ...]
    """Whether each operand has a gradient."""


@dataclass(frozen=True, slots=True)
class LoweringCache:
    """The same whether or not tensors are computed again, and whatever the memory limit."""

    pricer: EdgePricer
    pricing: Pricing
    layouts: TensorLayouts
    operators: dict[str, Priced]

    def steady(self) -> LoweringCache:
        """The same without what happens once in a step."""
        pricing, edges = self.pricing, self.pricer.steady()
        if not isinstance(pricing, TimePricing):
            raise TypeError(f"{type(pricing).__name__} knows no step")
        return replace(self, pricer=edges, pricing=replace(pricing, edges=edges))
