"""What MindSpore's search `recursive_programming` chooses, as pins: to compare with, or to repeat.

It halves the machine again and again (`planner.halving.partition`); what is not searched takes the
cuts of its neighbours (`planner.halving.following`). MindSpore counts elements: no bandwidth, no
memory, no gradients but by a weight on rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporters.mindspore_import import batch_pins
from exporters.mindspore_readers import NEVER_CUT
from ir.graph import OpGraph
from ir.ops import OpView, lookup
from ir.rule import FactorMap, ShardingRule
from planner.halving.following import strategies
from planner.halving.network import Node, network
from planner.halving.partition import ROWS_WEIGHT, partition
from planner.halving.shapes import Strategy
from planner.request import Cuts, RequestError, SearchRequest

__all__ = ["ROWS_WEIGHT", "recursive_pins", "with_recursive_pins"]
NAME = "recursive_programming"
FULL_BATCH = "full_batch"


def with_recursive_pins(request: SearchRequest, graph: OpGraph, devices: int) -> SearchRequest:
    """A request that asks for this search, with what it chooses as pins; any other as it is.

    Raises:
        RequestError: the devices are no power of two, or the target is not MindSpore.
    """
    if request.solver != NAME:
        return request
    if request.target != "mindspore":
        raise RequestError(
            f"{NAME} is a search of MindSpore's\n"
            f"  at:  --solver {NAME}\n  fix: leave it out, or use --target mindspore"
        )
    arriving = request.dataset_strategy or ("" if request.training else FULL_BATCH)
    found = recursive_pins(
        graph,
        devices,
        dict(request.pins),
        training=request.training,
        full_batch=arriving == FULL_BATCH,
    )
    return replace(request, solver="portfolio", pins=tuple(found.items()))


def recursive_pins(
    graph: OpGraph,
    devices: int,
    given: Mapping[str, Cuts] | None = None,
    rows_weight: float = ROWS_WEIGHT,
    *,
    training: bool = True,
    full_batch: bool = True,
) -> dict[str, Cuts]:
    """Cuts of every operator that takes a strategy.

    Args:
        graph: as it is planned.
        devices: a power of two.
        given: strategies of the user, which MindSpore passes over unless MS_INTERFERED_SAPP is set.
        rows_weight: `rp_matmul_mem_coef`.
        training: else as MindSpore predicts.
        full_batch: every device has the whole inputs, else its share of the batch.

    Raises:
        RequestError: the devices are no power of two.
    """
    if devices & (devices - 1):
        raise RequestError(
            f"recursive programming halves the devices, and there are {devices}\n"
            f"  at:  --solver {NAME}\n  fix: take a power of two, or leave --solver out"
        )
    found: dict[str, Cuts] = dict(given or {})
    views = {op.name: OpView(op, graph) for op in graph.ops}
    rules = {name: lookup(view.op.kind).rule(view) for name, view in views.items()}
    nodes = network(graph, training=training)
    asked = {
        number: _of_primitive(node, _counts(rules[node.owner], rules[node.owner].operands, cuts))
        for number, node in enumerate(nodes)
        for cuts in [found.get(node.owner)]
        if cuts is not None
    }
    pieces = partition(nodes, devices, asked, rows_weight)
    chosen = strategies(nodes, pieces, devices, training=training, full_batch=full_batch)
    counts: dict[str, dict[int, int]] = {}
    for number, node in reversed(list(enumerate(nodes))):
        if node.form is not None and views[node.owner].op.kind not in NEVER_CUT:
            own = _counts(rules[node.owner], node.form.inputs, chosen[number])
            counts[node.owner] = own | counts.get(node.owner, {})
    pins = {name: _cuts(views[name], rules[name], own) for name, own in counts.items()}
    return {**batch_pins(graph, devices, {**pins, **found}), **pins, **found}


def _counts(
    rule: ShardingRule, operands: Sequence[FactorMap | None], strategy: Strategy
) -> dict[int, int]:
    """Pieces of each factor; one that stays whole here, or does not divide, is not cut. Factors
    that only the inside of a composite has come after those of the rule.
    """
    kept = rule.locked | rule.uncut
    out: dict[int, int] = {}
    present = (mapping for mapping in operands if mapping is not None)
    for mapping, cuts in zip(present, strategy, strict=False):
        for dim, cut in zip(mapping, cuts, strict=False):
            rest = cut
            for factor in (f for f in dim if f < len(rule.sizes)):
                pieces = 1 if factor in kept else math.gcd(rest, rule.sizes[factor])
                rest //= pieces
                out[factor] = max(pieces, out.get(factor, 1))
    return out


def _of_primitive(node: Node, counts: Mapping[int, int]) -> Strategy:
    inputs = node.form.inputs if node.form is not None else ()
    return tuple(tuple(math.prod(counts.get(f, 1) for f in dim) for dim in own) for own in inputs)


def _cuts(view: OpView, rule: ShardingRule, counts: Mapping[int, int]) -> Cuts:
    return tuple(
        (1,) * len(tensor.dims)
        if mapping is None
        else tuple(math.prod(counts.get(f, 1) for f in dim) for dim in mapping)
        for tensor, mapping in zip(view.inputs, rule.operands, strict=True)
        if tensor is not None
    )
