"""Keys and values that go round, on another machine than the plan was made for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from costmodel.collectives import Collective, CollectiveModel
from ir.dtypes import dtype_bytes
from ir.plan import Plan, PlannedCollective, PlannedOperator
from planner.edges import CAUSE_FORWARD, CAUSE_GRADIENT
from planner.likeness import KEYS, VALUES
from planner.stages.ring import seen_s
from topology.cluster import Cluster
from topology.mesh import Mesh, MeshAxis

NEARLY = 1 - 1e-9


def seen_there(
    plan: Plan,
    machine: Cluster,
    collectives: Sequence[PlannedCollective],
    operators: Iterable[PlannedOperator],
) -> tuple[PlannedCollective, ...]:
    """Communication with what computation does not hide of keys and values on another machine.

    Args:
        plan: with pipeline stages, on the machine of one of them.
        machine: of a stage there.
        collectives: of the plan, with times that follow from its own by those of the two machines.
        operators: with their times there.
    """
    if plan.request.get("ring_attention", "off") == "off":
        return tuple(collectives)
    ops = {op.name: op for op in operators}
    pairs: dict[tuple[str, int], list[int]] = {}
    for number, item in enumerate(collectives):
        if item.operand in {KEYS, VALUES} and ops[item.operator].kind == "Attention":
            pairs.setdefault((item.operator, item.operand), []).append(number)
    out = list(collectives)
    mesh = Mesh(tuple(MeshAxis(*axis) for axis in plan.mesh))
    models = [CollectiveModel(c, mesh) for c in (Cluster.from_dict(plan.cluster), machine)]
    for (name, _), numbers in pairs.items():
        own = _Pair(plan, mesh, ops[name], tuple(plan.collectives[n] for n in numbers))
        whole = [own.gathered_s(model) for model in models]
        spent_s = sum(item.time_s for item in own.items)
        if not whole[0] or spent_s >= whole[0] * NEARLY:
            continue
        share = min(own.seen_s(models[1], machine.chip.launch_latency_s) / whole[1], 1.0)
        for number, item in zip(numbers, own.items, strict=True):
            out[number] = replace(out[number], time_s=own.time_s(models[1], item) * share)
    return tuple(out)


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
        there = [i for i in self.items if i.cause == CAUSE_FORWARD]
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
            gradient=any(item.cause == CAUSE_GRADIENT for item in self.items),
        )
