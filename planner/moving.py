"""A plan as it stands, priced anew on another machine: every layout is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from costmodel.collectives import Collective, CollectiveModel
from costmodel.memory import Optimizer
from costmodel.redistribution import UNREACHABLE_S
from ir.batch import with_batch
from ir.graph import Op, OpGraph
from ir.layout import Layout
from ir.normalise import with_dtype
from ir.plan import (
    CAUSE_UPDATED,
    Bound,
    NamedLayout,
    Plan,
    PlannedCollective,
    PlannedOperator,
    PlannedTensor,
)
from planner.edges import CAUSE_GATHER, CAUSE_SYNC, bucket_share, gathered_share
from planner.evidence import Evidence
from planner.liveness import analyse
from planner.lowered import Lowered, Node, NodeKind, Setting
from planner.lowering import lower
from planner.preparation import dialect_of_plan
from planner.request import RequestError
from planner.restriction import IndexArray, original_choice, restricted
from planner.solvers import Budget, solver_by_name
from topology.cluster import Cluster
from topology.mesh import Mesh, MeshAxis

_Axes: TypeAlias = tuple[tuple[str, int, int], ...]
"""As `Plan.mesh` has them."""


def moved(plan: Plan, cluster: Cluster) -> Plan:
    """The same plan on another machine; bounds and baselines of the old one are left out.

    Args:
        plan: what was planned.
        cluster: with as many devices, in tiers of the same sizes.

    Raises:
        RequestError: the machine has another shape, or the plan cannot be priced on it.
    """
    evidence = lowered_plan(plan, cluster)
    return _priced(plan, cluster, evidence, timed_on(plan, cluster))


def lowered_plan(plan: Plan, cluster: Cluster) -> Evidence:
    """The problem that the plan answers on a machine, with the plan as its choice.

    Raises:
        RequestError: the machine has another shape, or the plan cannot be priced on it.
    """
    _check_shape(plan, cluster)
    training = bool(plan.request.get("training"))
    lowered = lower(analyse(plan.graph, training=training), setting_of(plan, cluster))
    return Evidence(lowered, planned_choice(plan, lowered))


def resized(plan: Plan, cluster: Cluster, batch: int) -> Plan:
    """The same splits with another batch or more or fewer devices in the tiers of the machine.

    The first axis of a tier grows; those before the others shrink first.

    Raises:
        RequestError: the tiers do not fit the axes, or a split does not fit the sizes.
        BatchError: the batch cannot be followed through the graph.
    """
    graph = plan.graph if batch == plan.graph.batch else _with_batch(plan.graph, batch)
    mesh = _resized_mesh(plan, [tier.size for tier in cluster.tiers])
    dims = {t.name: graph.tensors[t.name].dims for t in plan.tensors}
    tensors = tuple(replace(t, dims=dims[t.name]) for t in plan.tensors)
    order = Mesh(tuple(MeshAxis(*axis) for axis in mesh)).rank_order()
    draft = replace(
        plan,
        graph=graph,
        mesh=mesh,
        rank_order=order,
        operators=tuple(_kept_splits(o, mesh) for o in plan.operators),
        tensors=tuple(_kept_axes(t, mesh) for t in tensors),
    )
    evidence = lowered_plan(draft, cluster)
    return _priced(draft, cluster, evidence, evidence.collectives())


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
    evidence = lowered_plan(draft, cluster)
    return _priced(draft, cluster, evidence, evidence.collectives())


def _with_batch(graph: OpGraph, batch: int) -> OpGraph:
    """The graph with another batch, the parts of composites too."""
    resized = with_batch(opened(graph), batch)
    return replace(graph, tensors={**graph.tensors, **resized.tensors}, batch=batch)


def opened(graph: OpGraph) -> OpGraph:
    """The graph with the parts of composites in their places, as it was before its normal form."""
    return graph.with_ops(leaf for op in graph.ops for leaf in _leaves(op))


def _leaves(op: Op) -> Iterator[Op]:
    for part in op.parts:
        yield from _leaves(part)
    if not op.parts:
        yield op


def _resized_mesh(plan: Plan, sizes: Sequence[int]) -> _Axes:
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


def _priced(
    plan: Plan, cluster: Cluster, evidence: Evidence, collectives: tuple[PlannedCollective, ...]
) -> Plan:
    estimate = evidence.estimate(collectives)
    step_s = math.fsum(estimate.time_by_cause.values())
    return replace(
        plan,
        cluster=cluster.to_dict(),
        operators=evidence.operators(),
        tensors=evidence.tensors(),
        collectives=collectives,
        estimate=replace(estimate, step_time_s=step_s),
        memory_bytes=evidence.memory_bytes(collectives),
        bound=Bound(0.0, math.inf, "none", "none"),
        baselines=(),
    )


def timed_on(plan: Plan, cluster: Cluster) -> tuple[PlannedCollective, ...]:
    """The same collectives with the times of another machine.

    What is sent stays: another machine might have a cheaper sequence of collectives, but the plan
    says which ones run.
    """
    mesh = Mesh(tuple(MeshAxis(*axis) for axis in plan.mesh))
    old, new = (CollectiveModel(c, mesh) for c in (Cluster.from_dict(plan.cluster), cluster))
    share_of = _shares(plan)
    out = []
    for item in plan.collectives:
        axes = tuple(mesh.axis_index(name) for name in item.axes)
        message = (Collective(item.kind), item.nbytes, axes, share_of(item))
        before = float(old.time_s(*message))
        ratio = float(new.time_s(*message)) / before if before > 0 else 1.0
        out.append(replace(item, time_s=item.time_s * ratio))
    return tuple(out)


def _shares(plan: Plan) -> Callable[[PlannedCollective], float]:
    """Of the latency of a message, as the collectives of a plan were priced."""
    dialect, delivered = dialect_of_plan(plan), set(plan.graph.gradients.values())
    layers = dialect is not None and dialect.partial_edges
    gathered = {(c.tensor, c.stage) for c in plan.collectives if c.cause == CAUSE_GATHER and layers}

    def share(item: PlannedCollective) -> float:
        fused = item.cause in {CAUSE_GATHER, CAUSE_SYNC, CAUSE_UPDATED}
        if not fused and (item.operator or item.tensor not in delivered):
            return 1.0
        own = bucket_share(plan.graph.tensors[item.tensor].nbytes)
        return gathered_share(own) if (item.tensor, item.stage) in gathered else own

    return share


def _check_shape(plan: Plan, cluster: Cluster) -> None:
    tiers = [tier.size for tier in cluster.tiers]
    own = [1] * len(tiers)
    for _, size, tier in plan.mesh:
        if tier >= len(own):
            own += [1] * (tier + 1 - len(own))
        own[tier] *= size
    if own != tiers:
        raise RequestError(
            f"the plan is for tiers of {' x '.join(map(str, own))} devices, "
            f"{cluster.name} has {' x '.join(map(str, tiers))}\n"
            "  at:  --cluster\n  fix: plan for that machine: planner search --cluster"
        )


def setting_of(plan: Plan, cluster: Cluster) -> Setting:
    """What lowering needs to price the plan's graph on its mesh again, on such a machine."""
    dialect = dialect_of_plan(plan)
    if dialect is None:
        raise RequestError(
            f"the plan's target {plan.request.get('target')!r} is unknown\n  at:  request.target\n"
            "  fix: plan again with `planner search`"
        )
    axes = [name for name, _, _ in plan.mesh]
    limit = plan.request.get("memory_limit_bytes")
    return Setting(
        cluster,
        Mesh(tuple(MeshAxis(*axis) for axis in plan.mesh)),
        dialect,
        bool(plan.request.get("training")),
        Optimizer(str(plan.request.get("optimizer"))),
        {t.name: _layout(t.layout, axes) for t in plan.tensors if t.role == "input"},
        float(limit) if isinstance(limit, int | float) else float(cluster.usable_memory_bytes),
        recompute=bool(plan.recomputed),
    )


def _layout(named: NamedLayout, axes: Sequence[str]) -> Layout:
    dims = tuple(tuple(axes.index(name) for name in dim) for dim in named.dims)
    return Layout(dims, tuple(axes.index(name) for name in named.partial))


def planned_choice(
    plan: Plan, lowered: Lowered, only: Mapping[int, IndexArray] | None = None
) -> tuple[int, ...]:
    """The planned candidate of every node; what the plan leaves open at least cost.

    Args:
        plan: names as the problem has them.
        lowered: the problem.
        only: candidates of some nodes that alone may have been planned.

    Raises:
        RequestError: the problem lacks a candidate that the plan has.
    """
    allowed = _Allowed(plan)
    sized = zip(lowered.nodes, lowered.problem.sizes, strict=True)
    found = [allowed.of(node, size) for node, size in sized]
    for number, own in (only or {}).items():
        found[number] = np.intersect1d(found[number], own)
    missing = [n.name for n, own in zip(lowered.nodes, found, strict=True) if not len(own)]
    if not missing:
        problem = replace(restricted(lowered.problem, found), memory_limit_bytes=math.inf)
        solution = solver_by_name("dynamic_programming").solve(problem, Budget(), None)
        if solution.choice is not None and solution.cost_s < UNREACHABLE_S:
            return original_choice(found, solution.choice)
    raise RequestError(
        f"the layouts of {missing[0] if missing else 'the plan'} are not those that this version "
        "knows\n  at:  plan.json\n  fix: plan again with `planner search`"
    )


class _Allowed:
    """Candidates of each node that are what was planned."""

    def __init__(self, plan: Plan) -> None:
        self._axes = [name for name, _, _ in plan.mesh]
        self._splits = {o.name: tuple(f for _, f in o.split) for o in plan.operators}
        self._shared = {t.name: t for t in plan.tensors if t.role == "shared"}
        self._origins = {t.name: t for t in plan.tensors if t.role != "shared"}
        self._again = set(plan.recomputed)

    def of(self, node: Node, size: int) -> IndexArray:
        found = np.arange(size)
        if node.candidates is not None:
            wanted, own = self._splits[node.name], node.candidates.assignments
            same = [i for i in range(size) if own[node.assignment_index(i)] == wanted]
            found = np.array(same, dtype=np.intp)
        elif node.kind is NodeKind.TENSOR and node.name in self._shared:
            found = self._tensor(node, size, self._shared[node.name])
        elif node.name in self._origins and node.kind is not NodeKind.TENSOR:
            found = self._tensor(node, size, self._origins[node.name])
        if node.recomputes:
            again = set(node.recomputes) <= self._again
            found = found[(found >= size // 2) == again]
        return found

    def _tensor(self, node: Node, size: int, planned: PlannedTensor) -> IndexArray:
        """Candidates with the planned layout, and its gradient's where the plan says it."""
        port = node.port
        if port is None:
            return np.arange(size)
        layout = _layout(planned.layout, self._axes)
        gradient = None if planned.gradient is None else _layout(planned.gradient, self._axes)
        states = [port.states[port.of[i % len(port.of)]] for i in range(size)]
        same = [
            i
            for i, state in enumerate(states)
            if state.forward == layout and gradient in {None, state.gradient}
        ]
        return np.array(same, dtype=np.intp)
