"""Degrees of parallelism of a plan, by what each axis of its mesh does in most of the time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ir.degrees import Degrees
from ir.factor_roles import (
    batch_factors,
    batch_places,
    expert_factors,
    parameter_factors,
    token_dims,
    token_factors,
)
from ir.graph import Op, OpGraph
from ir.ops import Engine, lookup
from ir.ops.experts import slot_tensors
from ir.plan import Plan, PlannedOperator, PlannedTensor
from ir.plan_stages import stage_mesh

__all__ = ["MainUses", "Use", "UsesOfAxes", "degrees_of", "main_uses"]


class Use(StrEnum):
    """What one mesh axis does in one operator."""

    TENSOR = "tensor"
    CONTEXT = "context"
    DATA = "data"
    EXPERT = "expert"
    POSITIONS = "positions"
    NOTHING = "nothing"


class UsesOfAxes:
    """What the axes of a plan's mesh do, operator by operator."""

    def __init__(self, graph: OpGraph) -> None:
        """Find the batch, the tokens and the experts of the graph, once for each graph."""
        self._graph = graph
        self._batch = graph.once("batch places", batch_places)
        self._tokens = graph.once("token dimensions", token_dims)
        self._slots = graph.once("slots", slot_tensors)

    def of(self, op: Op, planned: PlannedOperator) -> Mapping[str, Use]:
        """What each axis does in one operator."""
        if all(factor < 0 for _, factor in planned.split):
            return {axis: Use.NOTHING for axis, _ in planned.split}
        batch = batch_factors(op, self._graph, self._batch)
        tokens = token_factors(op, self._graph, self._tokens)
        weights, experts = parameter_factors(op, self._graph), self._experts(op)
        kinds = (
            (experts, Use.EXPERT), (weights, Use.TENSOR), (batch, Use.DATA), (tokens, Use.CONTEXT)
        )  # fmt: skip

        others = Use.TENSOR if lookup(op.kind).engine is Engine.ATTENTION else Use.POSITIONS

        def use(factor: int) -> Use:
            if factor < 0:
                return Use.NOTHING
            return next((kind for own, kind in kinds if factor in own), others)

        return {axis: use(factor) for axis, factor in planned.split}

    def is_routed(self, op: Op) -> bool:
        """Whether it computes on slots of experts."""
        return not self._slots.isdisjoint(op.inputs)

    def _experts(self, op: Op) -> frozenset[int]:
        """The factor that tells experts apart, of an operator on their slots."""
        if not self.is_routed(op):
            return frozenset()
        return expert_factors(op, self._graph, self._slots)


@dataclass(frozen=True, slots=True)
class MainUses:
    """What each axis of a plan's mesh does in most of the time of products and attention."""

    products: tuple[tuple[Op, PlannedOperator], ...]
    of: UsesOfAxes
    sizes: Mapping[str, int]
    """Of the axes that are larger than one."""
    main: Mapping[str, Use]
    """In the layers without routed experts, where there are any."""
    of_experts: Mapping[str, Use]
    """In products of routed experts."""

    def is_followed(self, op: Op, planned: PlannedOperator) -> bool:
        """Whether every axis does in an operator what it does in most of them.

        An axis that splits tokens splits rows of a product, as one that splits samples does.
        """
        usual = self.of_experts if self.of.is_routed(op) else self.main
        return all(
            _rows(use) is _rows(usual[axis])
            for axis, use in self.of.of(op, planned).items()
            if axis in usual
        )

    def size(self, use: Use) -> int:
        """Devices over which the layers without routed experts are split so."""
        return math.prod(self.sizes[axis] for axis, own in self.main.items() if own is use)


def _rows(use: Use) -> Use:
    return Use.DATA if use is Use.CONTEXT else use


def main_uses(plan: Plan) -> MainUses:
    """What the axes of a plan's mesh do most of the time."""
    uses = UsesOfAxes(plan.graph)
    products = tuple(_products(plan, uses))
    dense = [each for each in products if not uses.is_routed(each[0])] or products
    routed = [each for each in products if uses.is_routed(each[0])]
    sizes = {name: size for name, size, _ in plan.mesh if size > 1}
    main, of_experts = _main_uses(sizes, dense, uses), _main_uses(sizes, routed, uses)
    return MainUses(products, uses, sizes, main, of_experts)


def degrees_of(plan: Plan) -> Degrees:
    """The degrees of a plan: what each axis does in most of the time of products and attention.

    Degrees of data, context and tensor parallelism are those of the layers without routed experts,
    where there are any, and `ep` that of the experts on the same devices, as in Megatron-LM.
    """
    uses = main_uses(plan)
    experts = [axis for axis, own in uses.of_experts.items() if own is Use.EXPERT]
    data = uses.size(Use.DATA)
    # Rows of a product may be samples and tokens in one: more parts than samples split tokens.
    samples = math.gcd(data, plan.graph.batch) if 0 < plan.graph.batch < data else data
    return Degrees(
        tp=uses.size(Use.TENSOR),
        cp=uses.size(Use.CONTEXT) * (data // samples),
        pp=plan.pipeline.parts,
        vpp=plan.pipeline.chunks,
        dp=samples,
        ep=math.prod(uses.sizes[axis] for axis in experts),
        zero=_zero_stage(plan.parameters),
        positions=uses.size(Use.POSITIONS),
        repeated=uses.size(Use.NOTHING),
    )


def _products(plan: Plan, uses: UsesOfAxes) -> Iterator[tuple[Op, PlannedOperator]]:
    """Products with weights and attention on the plan's own mesh; without any, all operators."""
    pairs = tuple(zip(plan.graph.ops, plan.operators, strict=True))
    own = [each for each in pairs if stage_mesh(plan, each[1].stage) == plan.mesh] or pairs
    yield from [each for each in own if _multiplies(each[0], plan.graph, uses)] or own


def _multiplies(op: Op, graph: OpGraph, uses: UsesOfAxes) -> bool:
    engine = lookup(op.kind).engine
    if engine is Engine.ATTENTION:
        return True
    weighs = engine in {Engine.MATRIX, Engine.CONVOLUTION}
    return weighs and (uses.is_routed(op) or bool(parameter_factors(op, graph)))


def _main_uses(
    axes: Mapping[str, int], products: Sequence[tuple[Op, PlannedOperator]], uses: UsesOfAxes
) -> dict[str, Use]:
    """What each axis does in most of the products' time."""
    times: dict[str, dict[Use, float]] = {axis: {} for axis in axes}
    for op, planned in products:
        for axis, use in uses.of(op, planned).items():
            if axis in times:
                times[axis][use] = times[axis].get(use, 0.0) + planned.compute_s
    return {
        axis: max(own, key=own.__getitem__) if own else Use.NOTHING for axis, own in times.items()
    }


def _zero_stage(parameters: Sequence[PlannedTensor]) -> int:
    """The highest stage of ZeRO that most elements of the parameters have at least."""
    whole, held = 0, [0, 0, 0, 0]
    for tensor in parameters:
        elements = math.prod(tensor.dims)
        whole += elements
        for stage in range(1, _zero_of(tensor) + 1):
            held[stage] += elements
    return max(stage for stage in range(4) if not stage or 2 * held[stage] > whole)


def _zero_of(tensor: PlannedTensor) -> int:
    """The stage of one parameter: in a step of one batch it rests in smaller pieces than in use."""
    if tensor.zero:
        return tensor.zero
    if tensor.used is not None and tensor.used != tensor.layout:
        return 3
    return int(tensor.states is not None and tensor.states != tensor.layout)
