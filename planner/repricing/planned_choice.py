"""The graph that a plan is of, and what it decided among the candidates of a problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from costmodel.memory import Optimizer
from costmodel.plan_overlap import has_overlap, software_on
from costmodel.redistribution import UNREACHABLE_S
from importers.errors import ModelError, UnboundError
from ir.batch import BatchError
from ir.graph import OpGraph
from ir.layout import Layout
from ir.plan import NamedLayout, Pipeline, Plan, PlannedTensor
from ir.plan_estimate import Bound
from ir.plan_stages import has_equal_stages, planned_in, stage_mesh
from ir.symbols import Symbol, SymbolError
from planner.candidates.columns import BoolArray
from planner.candidates.layout_tables import LayoutPair
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, Node, NodeKind, Setting
from planner.lowering.optimizer_states import StateOptions
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.preparation import dialect_of_plan, prepare
from planner.problem import Problem
from planner.reduction.restriction import IndexArray
from planner.request import RequestError, SearchRequest, recorded_request
from planner.solvers import Solution, best_among
from topology.cluster import Cluster
from topology.mesh import Mesh


def setting_of(plan: Plan, cluster: Cluster, part: int = 0) -> Setting:
    """What lowering needs to price the plan's graph on its mesh again, on such a machine.

    Args:
        plan: of one stage or several.
        cluster: what the part has of the machine.
        part: of the machine, which decides the mesh and how inputs lie.

    Raises:
        RequestError: this version does not know the target of the plan.
    """
    dialect = dialect_of_plan(plan)
    if dialect is None:
        raise RequestError(
            f"the plan's target {plan.request.get('target')!r} is unknown\n  at:  request.target\n"
            "  fix: plan again with `planner search`"
        )
    mesh = Mesh.of_rows(stage_mesh(plan, part))
    limit = plan.request.get("memory_limit_bytes")
    inputs = (t for t in plan.tensors if t.role == "input")
    return Setting(
        cluster,
        mesh,
        dialect,
        bool(plan.request.get("training")),
        Optimizer(str(plan.request.get("optimizer"))),
        {
            t.name: layout_on(t.layout, mesh)
            for t in inputs
            if has_equal_stages(plan) or t.stage == part
        },
        float(limit) if isinstance(limit, int | float) else float(cluster.usable_memory_bytes),
        recompute=bool(plan.recomputed),
        overlap=has_overlap(plan),
        software=software_on(plan, cluster.chip),
        states=StateOptions("auto") if any(t.zero for t in plan.parameters) else None,
    )


def lowered_plan(plan: Plan, cluster: Cluster) -> PlanBuilder:
    """The problem that the plan answers on a machine, with the plan as its choice.

    Raises:
        RequestError: the machine has another shape, or the plan cannot be priced on it.
    """
    _check_mesh(plan, cluster)
    training = bool(plan.request.get("training"))
    lowered = lower(analyse(plan.graph, training=training), setting_of(plan, cluster))
    return PlanBuilder(lowered, planned_choice(plan, lowered))


def priced(plan: Plan, cluster: Cluster, builder: PlanBuilder) -> Plan:
    """A plan of one stage at the prices of its problem; bounds and baselines are left out.

    Args:
        plan: in its layouts.
        cluster: the machine of the problem.
        builder: of `lowered_plan`.
    """
    estimate = builder.estimate()
    step_s = math.fsum(estimate.time_by_cause.values())
    return replace(
        plan,
        cluster=cluster.to_dict(),
        operators=builder.operators(),
        tensors=builder.tensors(),
        collectives=builder.collectives(),
        estimate=replace(estimate, step_time_s=step_s),
        memory_bytes=builder.memory_bytes(),
        bound=Bound(0.0, math.inf, "none", "none"),
        baselines=(),
    )


def _check_mesh(plan: Plan, cluster: Cluster) -> None:
    own = [1] * len(cluster.tiers)
    for _, size, tier in plan.mesh:
        if tier >= len(own):
            own += [1] * (tier + 1 - len(own))
        own[tier] *= size
    check_tiers(own, cluster)


def check_tiers(own: Sequence[int], cluster: Cluster) -> None:
    """Raise `RequestError` if the tiers of a machine have other sizes than those of the plan's."""
    tiers = [tier.size for tier in cluster.tiers]
    if own != tiers:
        raise RequestError(
            f"the plan is for tiers of {' x '.join(map(str, own))} devices, "
            f"{cluster.name} has {' x '.join(map(str, tiers))}\n"
            "  at:  --cluster\n  fix: plan for that machine: planner search --cluster"
        )


def layout_on(named: NamedLayout, mesh: Mesh) -> Layout:
    """A layout by the numbers of the axes of a mesh."""
    dims = tuple(tuple(map(mesh.axis_index, dim)) for dim in named.dims)
    return Layout(dims, tuple(map(mesh.axis_index, named.partial)))


def planned_choice(plan: Plan, lowered: Lowered) -> tuple[int, ...]:
    """The planned candidate of every node; what the plan leaves open at least cost.

    Args:
        plan: of one stage or several.
        lowered: the problem of its graph, or of the stages on one part of the machine.

    Raises:
        RequestError: the problem lacks a candidate that the plan has.
    """
    allowed = PlannedCandidates(plan, lowered).allowed()
    found = least_cost(lowered.problem, allowed)
    if found is None or found.choice is None:
        pairs = zip(lowered.nodes, allowed, strict=True)
        missing = [node.origin.name for node, own in pairs if not len(own)]
        raise RequestError(
            f"the layouts of {missing[0] if missing else 'the plan'} are not those that this "
            "version knows\n  at:  plan.json\n  fix: plan again with `planner search`"
        )
    return found.choice


def least_cost(problem: Problem, allowed: Sequence[IndexArray]) -> Solution | None:
    """The cheapest choice among some candidates of every node, whatever memory it needs; None where
    a node has none, or their layouts do not follow from one another.
    """
    if not all(len(own) for own in allowed):
        return None
    found = best_among(replace(problem, memory_limit_bytes=math.inf), allowed)
    return None if found.choice is None or found.cost_s >= UNREACHABLE_S else found


@dataclass(frozen=True)
class PlannedCandidates:
    """Tells which candidates of a problem are what a plan says; arrays have shape (C,)."""

    plan: Plan
    lowered: Lowered

    def allowed(self) -> list[IndexArray]:
        """The planned candidates of every node; all of a node that the plan does not mention."""
        return [np.flatnonzero(self.of(node)) for node in self.lowered.nodes]

    def of(self, node: Node) -> BoolArray:
        """Candidates of a node that are as planned in everything that the plan says."""
        if node.candidates is not None:
            return self.split(node) & self.recomputed(node)
        planned = self._tensor(node)
        if planned is None:
            return self.recomputed(node)
        fine = self.lying(node, planned.layout, planned.gradient) & self.recomputed(node)
        return fine & self.resting(node, planned) if node.kind is NodeKind.PARAMETER else fine

    def split(self, node: Node) -> BoolArray:
        """Candidates of an operator that are split as planned."""
        wanted = self._splits[node.origin.name]
        assignments = node.candidates.assignments if node.candidates is not None else ()
        same = np.array([own == wanted for own in assignments], dtype=np.bool_)
        return same[node.columns.assignment]

    def recomputed(self, node: Node) -> BoolArray:
        """Candidates that compute again what the plan does, and keep what it keeps."""
        again = node.columns.recompute
        if not node.recomputes:
            return np.ones(len(again), dtype=np.bool_)
        return again if self._recomputed.issuperset(node.recomputes) else ~again

    def lying(
        self, node: Node, layout: NamedLayout, gradient: NamedLayout | None = None
    ) -> BoolArray:
        """Candidates with which a tensor lies so; its gradient too where that is said."""
        mesh = self.lowered.setting.mesh
        wanted = layout_on(layout, mesh)
        back = None if gradient is None else layout_on(gradient, mesh)
        rows = _rows(node, lambda own: own.forward == wanted and back in {None, own.gradient})
        return rows[node.columns.assignment]

    def resting(self, node: Node, planned: PlannedTensor) -> BoolArray:
        """Candidates with which the optimizer state of a parameter rests where it is planned."""
        columns, states = node.columns, planned.states
        # At level 3 the parameter itself rests in parts: its layout says so.
        level = 0 if states is None else planned.zero
        like: BoolArray = (columns.zero == level) & (columns.host == (planned.host_bytes > 0))
        if states is None:
            return like
        wanted = layout_on(states, self.lowered.setting.mesh)
        like &= _rows(node, lambda own: own.forward == wanted)[columns.states]
        return like

    def _tensor(self, node: Node) -> PlannedTensor | None:
        stage, name = node.origin
        if node.kind is NodeKind.TENSOR:
            return self._tensors.get(("shared", name, stage))
        if node.kind is NodeKind.INPUT:
            return self._tensors.get(("input", name, stage))
        planned = self._tensors.get(("parameter", name, 0))
        if planned is None or node.kind is not NodeKind.PARAMETER:
            return None
        return planned_in(self.plan, planned, stage)

    @cached_property
    def _splits(self) -> dict[str, tuple[int, ...]]:
        return {op.name: tuple(factor for _, factor in op.split) for op in self.plan.operators}

    @cached_property
    def _recomputed(self) -> frozenset[str]:
        return frozenset(self.plan.recomputed)

    @cached_property
    def _tensors(self) -> dict[tuple[str, str, int], PlannedTensor]:
        """By role, name and stage. Inputs lie alike in all stages of one mesh; a parameter is
        planned once, for the first of its stages.
        """
        stages = range(len(self.plan.pipeline.stages))
        found = {}
        for tensor in self.plan.tensors:
            alike = tensor.role == "input" and has_equal_stages(self.plan)
            once = [0] if tensor.role == "parameter" else [tensor.stage]
            for stage in stages if alike else once:
                found[tensor.role, tensor.name, stage] = tensor
        return found


def _rows(node: Node, is_wanted: Callable[[LayoutPair], bool]) -> BoolArray:
    """Which rows of the table of a tensor's layouts are wanted."""
    if node.layouts is None:
        raise TypeError(f"{node.kind} {node.name} has no layouts")
    wanted = np.array([is_wanted(own) for own in node.layouts.states], dtype=np.bool_)
    return wanted[node.layouts.of]


def planned_graph(plan: Plan, read: Callable[[Mapping[str, int | Symbol]], OpGraph]) -> OpGraph:
    """The graph of a model at the sizes of a plan, if the plan's search prepared the same.

    Args:
        plan: the plan.
        read: reads the model at sizes of its open dimensions.

    Raises:
        RequestError: it is another one than the plan's.
        ModelError: the model cannot be read, whatever its sizes.
    """
    asked, why = recorded_request(plan.request), ""
    bound = dict(asked.bind)
    try:
        graph = read(bound)
        ready, _ = prepare(graph, Cluster.from_dict(plan.cluster), _settled(asked, plan.pipeline))
        if ready.digest() == plan.digest:
            return graph
        why = f"with digest {plan.digest[:12]}, this one has {ready.digest()[:12]}"
    except ModelError as error:
        if not isinstance(error, UnboundError) and not error.where.startswith("--bind"):
            raise
        at = ", ".join(f"{name}={size}" for name, size in bound.items()) or "no open dimension"
        why = f"with {at}; of this one, {error.what}"
    except (BatchError, RequestError, SymbolError) as error:
        why = f"which this one cannot be: {str(error).splitlines()[0]}"
    raise RequestError(
        f"the plan is for another model: it was made from {plan.graph.name!r} {why}\n"
        "  at:  the model and the plan\n"
        "  fix: pass the model that was planned, or search again"
    )


def _settled(asked: SearchRequest, pipeline: Pipeline) -> SearchRequest:
    """What decided how the model was prepared."""
    return SearchRequest(
        training=asked.training,
        dtype=asked.dtype,
        batch=asked.batch if pipeline.is_single else pipeline.micro_batch,
        fused_attention=asked.fused_attention,
        rules=asked.rules,
        solver=asked.solver,
        pins=asked.pins,
    )
