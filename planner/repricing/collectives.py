"""Communication of a plan on another machine than it was made for.

What is sent stays: another machine might have a cheaper sequence of collectives, but the plan says
which ones run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.collectives import Collective, CollectiveModel
from costmodel.collectives.buckets import bucket_share, gathered_share
from costmodel.simulation.ring_attention import ring_operands
from ir.dtypes import dtype_bytes
from ir.plan import Plan, PlannedCollective, PlannedOperator
from ir.plan_enums import Cause
from planner.lowering.ring_attention import seen_s
from planner.pipeline.preparation import dialect_of_plan
from topology.cluster import Cluster
from topology.mesh import Mesh


def collectives_on(
    plan: Plan, machine: Cluster, operators: Sequence[PlannedOperator]
) -> tuple[PlannedCollective, ...]:
    """The same collectives with the times of another machine.

    Args:
        plan: of one stage, or on the machine of one of them.
        machine: of a stage there.
        operators: with their times there.
    """
    mesh = Mesh.of_rows(plan.mesh)
    models = [CollectiveModel(c, mesh) for c in (Cluster.from_dict(plan.cluster), machine)]
    share_of = latency_shares(plan)
    out = []
    for item in plan.collectives:
        axes = tuple(mesh.axis_index(name) for name in item.axes)
        message = (Collective(item.kind), item.nbytes, axes, share_of(item))
        before, after = (float(model.time_s(*message)) for model in models)
        ratio = after / before if before > 0 else 1.0
        out.append(replace(item, time_s=item.time_s * ratio))
    _add_exposed_rings(out, plan, models, {op.name: op for op in operators})
    return tuple(out)


def latency_shares(plan: Plan) -> Callable[[PlannedCollective], float]:
    """Of the latency of a message, as the collectives of a plan were priced."""
    dialect, delivered = dialect_of_plan(plan), set(plan.graph.gradients.values())
    layers = dialect is not None and dialect.partial_edges
    gathered = {
        (c.tensor, c.stage)
        for c in plan.collectives
        if c.cause == Cause.PARAMETER_GATHER and layers
    }

    def share(item: PlannedCollective) -> float:
        fused = item.cause in {
            Cause.PARAMETER_GATHER,
            Cause.GRADIENT_SYNC,
            Cause.UPDATED_PARAMETERS,
        }
        if not fused and (item.operator or item.tensor not in delivered):
            return 1.0
        own = bucket_share(plan.graph.tensors[item.tensor].nbytes)
        return gathered_share(own) if (item.tensor, item.stage) in gathered else own

    return share


def _add_exposed_rings(
    out: list[PlannedCollective],
    plan: Plan,
    models: Sequence[CollectiveModel],
    ops: Mapping[str, PlannedOperator],
) -> None:
    """Replace times of ring attention by what its computation there does not hide.

    Args:
        out: collectives with times of the other machine.
        plan: on its own machine.
        models: of its own machine and of the other one.
        ops: with their times there.
    """
    mesh = models[0].mesh

    def alone_s(kind: str, nbytes: float, names: Sequence[str]) -> float:
        axes = tuple(mesh.axis_index(name) for name in names)
        return float(models[0].time_s(Collective(kind), nbytes, axes))

    for pair in sorted(ring_operands(plan, alone_s)):
        numbers = [n for n, item in enumerate(out) if (item.operator, item.operand) == pair]
        own = _Pair(plan, mesh, ops[pair[0]], tuple(plan.collectives[n] for n in numbers))
        whole_s = own.gathered_s(models[1])
        start_s = models[1].cluster.chip.launch_latency_s
        share = min(own.seen_s(models[1], start_s) / whole_s, 1.0)
        for number, item in zip(numbers, own.items, strict=True):
            out[number] = replace(out[number], time_s=own.time_s(models[1], item) * share)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Keys or values of one attention."""

    plan: Plan
    mesh: Mesh
    operator: PlannedOperator
    items: tuple[PlannedCollective, ...]

    def time_s(self, model: CollectiveModel, item: PlannedCollective) -> float:
        """Seconds of a message that nothing hides."""
        axes = tuple(self.mesh.axis_index(name) for name in item.axes)
        return item.count * float(model.time_s(Collective(item.kind), item.nbytes, axes))

    def gathered_s(self, model: CollectiveModel) -> float:
        return math.fsum(self.time_s(model, item) for item in self.items)

    def seen_s(self, model: CollectiveModel, start_s: float) -> float:
        """Seconds of a step that are seen where they go round."""
        there = [i for i in self.items if i.cause == Cause.FORWARD]
        first = there[0]
        tensor, sizes = self.plan.graph.tensors[first.tensor], self.mesh.sizes
        names = [axis.name for axis in self.mesh.axes]
        before = [] if first.before is None else first.before.dims
        pieces = [math.prod(sizes[names.index(a)] for a in dim) for dim in before]
        nbytes = math.prod(-(-d // n) for d, n in zip(tensor.dims, pieces, strict=True))
        axes = sorted({names.index(name) for item in there for name in item.axes})
        send_s = float(model.time_s(
            Collective.POINT_TO_POINT, nbytes * dtype_bytes(tensor.dtype), tuple(axes)
        ))  # fmt: skip
        op, times = self.operator, first.count
        return times * seen_s(
            math.prod(sizes[axis] for axis in axes),
            send_s,
            start_s,
            ((op.compute_s - op.backward_s) / times, op.backward_s / times),
            again=any(item.backward for item in there),
            gradient=any(item.cause == Cause.ACTIVATION_GRADIENT for item in self.items),
        )
