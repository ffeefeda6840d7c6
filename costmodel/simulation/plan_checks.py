"""Checks a plan that is to be simulated, and says what a step of it does."""

from __future__ import annotations

import math
from functools import partial

from costmodel.collectives import Collective
from costmodel.simulation.plan_index import CAUSE_INSIDE
from costmodel.simulation.result import Load, SimulationError
from ir.differentiation import operand_gradients, tensors_with_gradient
from ir.graph import OpGraph
from ir.ops import Engine, OpView, lookup
from ir.plan import Plan
from topology.cluster import Cluster

PLAN_AGAIN = "plan again with `planner search -o DIR`"
_COUNTED = frozenset({Engine.MATRIX, Engine.CONVOLUTION, Engine.ATTENTION})


def check_collectives(plan: Plan) -> None:
    """Raise `SimulationError` if a collective is of no kind that there is, or never runs."""
    kinds = {kind.value for kind in Collective}
    for index, item in enumerate(plan.collectives):
        known = item.tensor in plan.graph.tensors or item.cause == CAUSE_INSIDE
        if item.kind not in kinds or item.count < 1 or not known:
            raise SimulationError(
                f"{item.count} x {item.kind!r} of {item.tensor!r} is no collective\n"
                f"  at:  collectives.{index}\n  fix: {PLAN_AGAIN}"
            )


def is_derived(plan: Plan) -> bool:
    """Whether the backward pass follows from the forward pass."""
    return bool(plan.request.get("training")) and not plan.graph.is_training_step


def load_of(plan: Plan) -> Load:
    """What a step of a plan does."""
    times = 1 if plan.pipeline is None else plan.pipeline.micro_batches
    cluster = Cluster.from_dict(plan.cluster)
    dtype = _main_dtype(plan)
    return Load(
        devices=plan.devices,
        samples=float(plan.batch),
        tokens=float(times * _tokens(plan.graph)),
        flops=times * _flops(plan.graph, derived=is_derived(plan)),
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
    key = "operations of a step" if derived else "operations forward"
    return graph.once(key, partial(_counted_flops, derived=derived))


def _counted_flops(graph: OpGraph, *, derived: bool) -> float:
    gradient = tensors_with_gradient(graph) if derived else frozenset()
    total = 0.0
    for op in graph.ops:
        entry = lookup(op.kind)
        if entry.engine in _COUNTED:
            wanted = sum(operand_gradients(op, gradient)) if derived else 0
            # Each product has two gradients; what a fused kernel computes again does not count.
            backward = min(entry.backward_ratio * wanted, 2.0)
            total += entry.flops(OpView(op, graph)) * (1 + backward)
    return total
