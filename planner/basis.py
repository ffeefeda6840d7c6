"""What a graph's lowerings on one mesh share: candidates of its operators, and prices."""

from __future__ import annotations

from dataclasses import dataclass

from planner.candidates import FloatArray, OpCandidates
from planner.edges import EdgePricer
from planner.pricing import Pricing
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
