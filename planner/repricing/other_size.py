"""A plan of one stage at another size, in another element type: every split is kept. What a step
takes if Megatron-LM runs a plan from its arguments alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from importers.foreign_plans import ForeignPlan, read_foreign
from ir.batch import with_batch
from ir.graph import Op, OpGraph
from ir.normalise import with_dtype
from ir.plan import NamedLayout, Plan, PlannedOperator, PlannedTensor
from ir.plan_estimate import Estimate
from planner.constraints.foreign_plans import held_to
from planner.pipeline.pipeline_search import search_pipeline
from planner.repricing.planned_choice import lowered_plan, priced
from planner.request import SearchRequest, recorded_request
from topology.cluster import Cluster
from topology.mesh import Mesh

_Axes: TypeAlias = tuple[tuple[str, int, int], ...]
"""As `Plan.mesh` has them."""


def resized(plan: Plan, cluster: Cluster, batch: int) -> Plan:
    """The same splits with another batch or more or fewer devices in the tiers of the machine.

    The first axis of a tier grows; those before the others shrink first.

    Raises:
        RequestError: the tiers do not fit the axes, or a split does not fit the sizes.
        BatchError: the batch cannot be followed through the graph.
    """
    graph = plan.graph if batch == plan.graph.batch else with_other_batch(plan.graph, batch)
    mesh = resized_mesh(plan, [tier.size for tier in cluster.tiers])
    dims = {t.name: graph.tensors[t.name].dims for t in plan.tensors}
    tensors = tuple(replace(t, dims=dims[t.name]) for t in plan.tensors)
    order = Mesh.of_rows(mesh).rank_order()
    draft = replace(
        plan,
        graph=graph,
        mesh=mesh,
        rank_order=order,
        operators=tuple(_kept_splits(o, mesh) for o in plan.operators),
        tensors=tuple(_kept_axes(t, mesh) for t in tensors),
    )
    return priced(draft, cluster, lowered_plan(draft, cluster))


def retyped(plan: Plan, cluster: Cluster, dtype: str) -> Plan:
    """The same splits computed in another element type.

    Args:
        plan: of one stage.
        cluster: its machine.
        dtype: such as `bfloat16`.

    Raises:
        RequestError: the plan cannot be priced so.
    """
    draft = replace(plan, graph=with_dtype(plan.graph, dtype))
    return priced(draft, cluster, lowered_plan(draft, cluster))


def with_other_batch(graph: OpGraph, batch: int) -> OpGraph:
    """The graph with another batch, the parts of composites too."""
    resized = with_batch(opened(graph), batch)
    return replace(graph, tensors={**graph.tensors, **resized.tensors}, batch=batch)


def opened(graph: OpGraph) -> OpGraph:
    """The graph with the parts of composites in their places, as it was before its normal form."""
    return graph.with_ops(leaf for op in graph.ops for leaf in leaves(op))


def leaves(op: Op) -> Iterator[Op]:
    """The operators that a composite was made of; itself if it is none."""
    for part in op.parts:
        yield from leaves(part)
    if not op.parts:
        yield op


def resized_mesh(plan: Plan, sizes: Sequence[int]) -> _Axes:
    """The axes of the plan on tiers of other sizes."""
    mesh = list(plan.mesh)
    for tier, size in enumerate(sizes):
        own = [i for i, (_, _, at) in enumerate(mesh) if at == tier]
        wanted = size
        for index in reversed(own):
            name, old, _ = mesh[index]
            part = wanted if index == own[0] else math.gcd(old, wanted)
            mesh[index] = (name, part, tier)
            wanted //= part
    return tuple(axis for axis in mesh if axis[1] > 1) or (mesh[-1],)


def _kept_splits(operator: PlannedOperator, mesh: _Axes) -> PlannedOperator:
    """The operator on the axes that are left."""
    names = {name for name, _, _ in mesh}
    return replace(operator, split=tuple(pair for pair in operator.split if pair[0] in names))


def _kept_axes(tensor: PlannedTensor, mesh: _Axes) -> PlannedTensor:
    """The tensor on the axes that are left."""
    names = {name for name, _, _ in mesh}

    def kept(layout: NamedLayout) -> NamedLayout:
        dims = tuple(tuple(axis for axis in dim if axis in names) for dim in layout.dims)
        return NamedLayout(dims, tuple(axis for axis in layout.partial if axis in names))

    gradient = None if tensor.gradient is None else kept(tensor.gradient)
    return replace(tensor, layout=kept(tensor.layout), gradient=gradient)


_UNLIMITED_BYTES = 2.0**62


def arguments_only(plan: Plan, arguments: str) -> Estimate:
    """A step that the arguments of a plan describe, as if memory were unlimited.

    The arguments are read back as the plan of another tool, and the search is held to them.

    Args:
        plan: what they were written of.
        arguments: of Megatron-LM.

    Raises:
        RequestError: no plan of the space is what they describe.
        BatchError: their batch cannot be followed through the model.
    """
    graph, cluster = opened(plan.graph), Cluster.from_dict(plan.cluster)
    return search_pipeline(graph, cluster, _asked(plan, arguments, graph, cluster)).estimate


def _asked(plan: Plan, arguments: str, graph: OpGraph, cluster: Cluster) -> SearchRequest:
    """The request that leaves nothing open of what the arguments say."""
    found = read_foreign(arguments, "the arguments")
    assert isinstance(found, ForeignPlan)
    planned = recorded_request(plan.request)
    request = SearchRequest(
        optimizer=planned.optimizer,
        target=planned.target,
        fused_attention=planned.fused_attention,
        memory_limit_bytes=_UNLIMITED_BYTES,
        rules=planned.rules,
        recompute="none",
        sequence_parallel="off",
        zero="0",
    )
    asked, _ = held_to(request, found, graph, cluster)
    recompute = "none" if asked.recompute == "auto" else asked.recompute
    zero = "0" if asked.zero == "auto" else asked.zero
    return replace(asked, recompute=recompute, zero=zero)
