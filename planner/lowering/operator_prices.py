"""Candidates and prices of all operators of a graph on one mesh, in seconds or in slices."""

from __future__ import annotations

from collections.abc import Hashable

from costmodel.collectives import CollectiveModel
from costmodel.operators import OperatorModel
from costmodel.redistribution import Redistribution
from ir.dialects import Dialect
from ir.ops import OpView
from ir.signatures import signatures_of
from planner.candidates.operators import FloatArray, OpPricer
from planner.lowering.edge_pricers import FreeEdges
from planner.lowering.edges import EdgePricer
from planner.lowering.liveness import Liveness
from planner.lowering.lowered import Setting
from planner.lowering.mindspore.edges import inserted_edges
from planner.lowering.mindspore.pricing import slice_pricing
from planner.lowering.pricing import SLICES, LoweringCache, Priced, Pricing, in_seconds
from topology.mesh import Mesh


def lowering_cache(liveness: Liveness, setting: Setting) -> LoweringCache:
    """Candidates and prices of all operators of a graph."""
    operators = OperatorModel(setting.cluster.chip, smooth=True)
    model = CollectiveModel(setting.cluster, setting.mesh)
    counts = setting.micro_batches, setting.once_per
    pricer = edge_pricer(setting.dialect, setting.mesh, model, *counts)
    pricing = _pricing(setting, operators, pricer)
    own = OpPricer(setting.mesh, setting.dialect, operators, model, setting.software)
    priced = _priced_operators(liveness, own, pricing)
    return LoweringCache(pricer, pricing, own.tables.layouts, priced)


def edge_pricer(
    dialect: Dialect,
    mesh: Mesh,
    model: CollectiveModel,
    micro_batches: int = 1,
    once_per: float = 1.0,
) -> EdgePricer:
    """The pricer of a target's redistribution; costs are those of one micro-batch.

    Args:
        dialect: of the target.
        mesh: of devices.
        model: of collectives.
        micro_batches: of a step.
        once_per: micro-batches that share what happens once in a step.
    """
    if dialect.partial_edges:
        moves = Redistribution(model, mesh, dialect.max_waste, dialect.eager_sums)
        return FreeEdges(moves, micro_batches, once_per)
    return inserted_edges(dialect, mesh, model, micro_batches, once_per)


def _pricing(setting: Setting, operators: OperatorModel, pricer: EdgePricer) -> Pricing:
    if setting.cost != SLICES:
        return in_seconds(setting.cost, operators, pricer)
    return slice_pricing(setting)


def _priced_operators(liveness: Liveness, pricer: OpPricer, pricing: Pricing) -> dict[str, Priced]:
    graph = liveness.graph
    signatures = signatures_of(graph)
    known: dict[Hashable, int] = {}
    distinct: list[tuple[OpView, tuple[bool, ...]]] = []
    number_of: dict[str, int] = {}
    for op in graph.ops:
        gradient = liveness.operand_gradients(op)
        key = (signatures[op.name], gradient)
        number = number_of[op.name] = known.setdefault(key, len(distinct))
        if number == len(distinct):
            distinct.append((OpView(op, graph), gradient))
    found = pricer.all_candidates(distinct)
    costs = [pricing.operator(view, own) for (view, _), own in zip(distinct, found, strict=True)]
    again: dict[int, FloatArray] = {}
    out: dict[str, Priced] = {}
    for op in graph.ops:
        number = number_of[op.name]
        own, cost, gradient = found[number], costs[number], distinct[number][1]
        shown = number
        if liveness.block_of(liveness.position[op.name]) is not None:
            # The backward pass computes it again with its block.
            own = own.again
            if number not in again:
                again[number] = pricing.operator(OpView(op, graph), own)
            shown, cost = len(found) + number, again[number]
        out[op.name] = Priced(shown, own, cost, gradient)
    return out
