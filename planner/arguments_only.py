"""What a step takes if Megatron-LM runs a plan from its arguments alone."""

from __future__ import annotations

from dataclasses import replace

from costmodel.memory import Optimizer
from exporters.megatron import to_arguments
from importers.foreign_plans import ForeignPlan, read_foreign
from ir.graph import OpGraph
from ir.plan import Estimate, Plan
from planner.foreign import held_to
from planner.joint import search_whole
from planner.moving import opened
from planner.request import SearchRequest
from topology.cluster import Cluster

_UNLIMITED_BYTES = 2.0**62


def arguments_only(plan: Plan) -> Estimate:
    """A step that the arguments of a plan describe, as if memory were unlimited.

    The arguments are read back as the plan of another tool, and the search is held to them.

    Raises:
        ExportError: no arguments are near the plan.
        RequestError: no plan of the space is what they describe.
        BatchError: their batch cannot be followed through the model.
    """
    graph, cluster = opened(plan.graph), Cluster.from_dict(plan.cluster)
    return search_whole(graph, cluster, _asked(plan, graph, cluster)).estimate


def _asked(plan: Plan, graph: OpGraph, cluster: Cluster) -> SearchRequest:
    """The request that leaves nothing open of what the arguments say."""
    found = read_foreign(to_arguments(plan), "the arguments")
    assert isinstance(found, ForeignPlan)
    request = SearchRequest(
        optimizer=Optimizer(str(plan.request.get("optimizer"))),
        target=str(plan.request.get("target")),
        fused_attention=plan.request.get("fused_attention") is not False,
        memory_limit_bytes=_UNLIMITED_BYTES,
        rules=tuple(_rules(plan)),
        recompute="none",
        sequence_parallel="off",
        zero="0",
    )
    asked, _ = held_to(request, found, graph, cluster)
    recompute = "none" if asked.recompute == "auto" else asked.recompute
    zero = "0" if asked.zero == "auto" else asked.zero
    return replace(asked, recompute=recompute, zero=zero)


def _rules(plan: Plan) -> list[tuple[str, str]]:
    pairs = plan.request.get("rules")
    return [(str(a), str(b)) for a, b in pairs] if isinstance(pairs, list | tuple) else []
