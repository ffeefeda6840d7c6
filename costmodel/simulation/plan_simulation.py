"""Simulates the step of a plan."""

from __future__ import annotations

import math

from costmodel.collectives import Collective
from costmodel.simulation.accounting import account_of
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import run
from costmodel.simulation.memory import plan_memory
from costmodel.simulation.plan_index import CAUSE_INSIDE
from costmodel.simulation.plan_programme import plan_programme
from costmodel.simulation.result import Load, Simulation, SimulationError
from costmodel.simulation.variation import Lanes, Variation, varied_steps_s
from ir.differentiation import operand_gradients, tensors_with_gradient
from ir.graph import OpGraph
from ir.ops import Engine, OpView, lookup
from ir.plan import Plan
from topology.cluster import Cluster

_COUNTED = frozenset({Engine.MATRIX, Engine.CONVOLUTION, Engine.ATTENTION})
_ROUNDING = 1e-9


def simulate_plan(plan: Plan, effects: Effects, variation: Variation | None = None) -> Simulation:
    """The step of a plan, event by event.

    Raises:
        SimulationError: the plan does not say how long its parts take.
    """
    check_times(plan)
    check_collectives(plan)
    step = plan_programme(plan, effects)
    timeline = run(step.programme)
    varied = None
    if variation is not None and not variation.is_none:
        shape = tuple(size for _, size, _ in plan.mesh)
        varied = varied_steps_s(timeline, Lanes(shape, 1, step.joins), variation)
    return Simulation(
        name=plan.graph.name,
        step_s=timeline.step_s,
        timeline=timeline,
        account=account_of(timeline),
        memory=(plan_memory(step, timeline, plan.memory_bytes),),
        load=_load(plan),
        estimate_s=plan.estimate.step_time_s,
        varied_s=varied,
        notes=plan.notes,
        estimate_means="in which nothing overlaps",
    )


def check_times(plan: Plan) -> None:
    """Raise `SimulationError` if the times of the parts are not those of the whole."""
    parts = math.fsum(
        (
            *(o.compute_s + o.recompute_s for o in plan.operators),
            *(t.update_s + t.recompute_s for t in plan.tensors),
            *(c.time_s for c in plan.collectives),
        )
    )
    whole = plan.estimate.step_time_s
    points = len(plan.operators) * (2 if _is_derived(plan) else 1)
    if not math.isclose(parts, whole, rel_tol=_ROUNDING) or len(plan.memory_bytes) != points:
        raise SimulationError(
            f"the parts of the plan take {parts:.6g} s, its step {whole:.6g} s: an earlier version "
            "wrote it, which left out what a simulation needs\n"
            "  at:  plan.json\n  fix: plan again with `planner search -o DIR`"
        )


def check_collectives(plan: Plan) -> None:
    """Raise `SimulationError` if a collective is of no kind that there is, or never runs."""
    kinds = {kind.value for kind in Collective}
    for index, item in enumerate(plan.collectives):
        known = item.tensor in plan.graph.tensors or item.cause == CAUSE_INSIDE
        if item.kind not in kinds or item.count < 1 or not known:
            raise SimulationError(
                f"{item.count} x {item.kind!r} of {item.tensor!r} is no collective\n"
                f"  at:  collectives.{index}\n  fix: plan again with `planner search -o DIR`"
            )


def _is_derived(plan: Plan) -> bool:
    return bool(plan.request.get("training")) and not plan.graph.is_training_step


def _load(plan: Plan) -> Load:
    cluster = Cluster.from_dict(plan.cluster)
    dtype = _main_dtype(plan)
    return Load(
        devices=plan.devices,
        samples=float(plan.graph.batch),
        tokens=float(_tokens(plan.graph)),
        flops=_flops(plan.graph, derived=_is_derived(plan)),
        peak_flops=float(cluster.chip.peak_flops.get(dtype, 0.0)),
        memory_bytes=plan.estimate.memory_limit_bytes,
    )


def _main_dtype(plan: Plan) -> str:
    """Type of most elements of the parameters."""
    elements: dict[str, int] = {}
    for tensor in plan.parameters:
        elements[tensor.dtype] = elements.get(tensor.dtype, 0) + math.prod(tensor.dims)
    return max(sorted(elements), key=lambda d: elements[d], default="float32")


def _tokens(graph: OpGraph) -> int:
    """Elements of the input that holds token numbers; 0 without one."""
    inputs = [graph.tensors[name] for name in graph.inputs]
    found = next((t for t in inputs if len(t.dims) == 2 and t.dtype.startswith("int")), None)
    attends = any(op.kind in {"Attention", "Softmax"} for op in graph.ops)
    return found.elements if found is not None and attends else 0


def _flops(graph: OpGraph, *, derived: bool) -> float:
    """Of a step: forward, and backward if it is derived."""
    gradient = tensors_with_gradient(graph) if derived else frozenset()
    total = 0.0
    for op in graph.ops:
        entry = lookup(op.kind)
        if entry.engine in _COUNTED:
            wanted = sum(operand_gradients(op, gradient)) if derived else 0
            total += entry.flops(OpView(op, graph)) * (1 + entry.backward_ratio * wanted)
    return total
