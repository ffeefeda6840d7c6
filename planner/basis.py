"""What a graph's lowerings on one mesh share: candidates of its operators, and prices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.candidates import FloatArray, OpCandidates
from planner.edges import EdgePricer, FreeEdges, MindsporeEdges
from planner.pricing import Pricing, TimePricing
from planner.tensor_layouts import TensorLayouts


@dataclass(frozen=True, slots=True)
class Priced:
    """An operator's candidates and what they cost; equal operators share both."""

    signature: int
    candidates: OpCandidates
    cost: FloatArray
    gradients: tuple[bool, ...]
    """Whether each operand has a gradient."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The same whether or not tensors are computed again, and whatever the memory limit."""

    pricer: EdgePricer
    pricing: Pricing
    layouts: TensorLayouts
    operators: dict[str, Priced]

    def steady(self) -> Basis:
        """The same without what happens once in a step."""
        pricing, pricer = self.pricing, self.pricer
        if not isinstance(pricing, TimePricing) or not isinstance(
            pricer, FreeEdges | MindsporeEdges
        ):
            raise TypeError(f"{type(pricing).__name__} knows no step")
        edges = replace(pricer, once_per=math.inf)
        return replace(self, pricer=edges, pricing=replace(pricing, edges=edges))
