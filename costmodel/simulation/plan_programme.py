"""From a plan to a programme: the step that every device of an SPMD plan takes.

All devices do the same, so one stands for all. It computes on one stream and has one stream for
each group of ranks that it communicates in, as frameworks do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.gathering import Gathers
from costmodel.simulation.going_round import going_round
from costmodel.simulation.plan_index import CAUSE_GATHER, CAUSE_SYNC, PlanIndex, Unit, fused
from costmodel.simulation.ports import Ports
from costmodel.simulation.programme import COMPUTE, Programme, Use, Work
from ir.plan import CAUSE_HOST, Plan, PlannedCollective, PlannedOperator
from topology.cluster import Cluster
from topology.mesh import Mesh, MeshAxis

Tasks: TypeAlias = frozenset[int]
"""Tasks that must be over before something is ready."""

FORWARD, BACKWARD = "compute forward", "compute backward"
RECOMPUTE, UPDATE = "recompute", "optimizer update"


@dataclass(frozen=True, slots=True)
class Step:
    """The programme of a plan, and where its operators are in it."""

    programme: Programme
    points: tuple[int, ...]
    """Task during which each point of the plan's memory is reached; -1 where nothing runs."""
    prefetched: tuple[tuple[int, int, float], ...]
    """Gathered buckets: the gather, the computation that ran last before the first use, bytes."""
    joins: Mapping[int, tuple[int, ...]]
    """Axes of the mesh over which each collective runs, by task."""


def plan_programme(plan: Plan, effects: Effects) -> Step:
    """The programme of one step."""
    return Lowering(plan, effects).run()


@dataclass(slots=True)
class Lowering:
    """Adds what a plan does to a programme, on a device of its own."""

    plan: Plan
    effects: Effects
    programme: Programme = field(default_factory=Programme)
    name: str = "device"
    index: PlanIndex = field(init=False)
    ports: Ports = field(init=False)
    axes: dict[str, int] = field(init=False)
    device: int = field(init=False)
    compute: int = field(init=False)
    engine: int = field(init=False)
    streams: dict[frozenset[str], int] = field(default_factory=dict)
    ready: dict[str, Tasks] = field(default_factory=dict)
    """What each tensor waits for, as its readers find it."""
    gradient: dict[str, Tasks] = field(default_factory=dict)
    """What the gradient of each tensor waits for."""
    forward_done: dict[str, Tasks] = field(default_factory=dict)
    synced: dict[str, Tasks] = field(default_factory=dict)
    remade: set[str] = field(default_factory=set)
    """Tensors whose communication has been repeated in this backward pass."""
    host: int | None = None
    """The stream of the link to the host, once there is one."""
    last_compute: int = -1
    points: list[int] = field(default_factory=list)
    joins: dict[int, tuple[int, ...]] = field(default_factory=dict)
    gathers: Gathers = field(init=False)
    round: frozenset[tuple[str, int]] = field(init=False)
    """Keys and values that go round, by operator and operand."""
    syncs: dict[int, list[tuple[Unit, ...]]] = field(default_factory=dict)
    """Buckets of gradients by the place of the operator that makes the last member."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.index = PlanIndex(plan)
        self.axes = {name: i for i, (name, _, _) in enumerate(plan.mesh)}
        self.device = self.programme.device(self.name, plan.devices)
        self.compute = self.programme.stream(self.device, COMPUTE)
        mesh = Mesh(tuple(MeshAxis(*axis) for axis in plan.mesh))
        self.ports = Ports(self.programme, Cluster.from_dict(plan.cluster), mesh, self.device)
        self.engine = self.programme.resource()
        self._expect()

    def _expect(self) -> None:
        """Note which buckets of parameters and gradients are to come."""
        self.gathers = Gathers(self.index, self.effects, self._gather)
        self.round = going_round(self.plan, self._time_s)
        self.syncs.clear()
        for bucket in fused(self.index.syncs(), self.effects):
            self.syncs.setdefault(bucket[-1].operator, []).append(bucket)

    def run(self) -> Step:
        """A whole step."""
        self.forward_pass()
        if self.index.derived:
            self.backward_pass()
        self.updates(self.gradients_ready())
        return Step(self.programme, tuple(self.points), tuple(self.gathers.ahead), self.joins)

    def take(self, plan: Plan) -> None:
        """Go on with another pass of the same operators."""
        self.plan, self.index = plan, PlanIndex(plan)
        for known in (self.ready, self.gradient, self.forward_done, self.remade):
            known.clear()
        self._expect()

    def forward_pass(self, leaving: Sequence[str] = ()) -> None:
        """All operators forward, and what brings tensors into the layout in which they leave."""
        for name in (t.name for t in self.plan.tensors if t.role in {"input", "parameter"}):
            self._shared(name)
        for operator in self.plan.operators:
            self._forward(operator)
        for name in leaving:
            self._chain(self.index.leaving_forward(name), self.ready.get(name, frozenset()))

    def backward_pass(
        self, leaving: Sequence[str] = (), received: Sequence[str] = (), after: Tasks = frozenset()
    ) -> None:
        """All operators backward.

        Args:
            leaving: tensors that left for the next stage; their gradients come in.
            received: tensors that came from the stage before, which wants their gradients.
            after: what the gradients that come in wait for.
        """
        for name in leaving:
            found = self._chain(self.index.leaving_backward(name), after)
            self.gradient[name] = self.gradient.get(name, frozenset()) | found
        for operator in reversed(self.plan.operators):
            self._backward(operator)
        for name in received:
            self.gradient[name] = self._gradient_of(name)

    # Tasks

    def _compute(self, label: str, cause: str, seconds: float, needs: Iterable[int]) -> int:
        share = self.effects.interference
        uses = (Use(self.engine, 1.0),) if share else ()
        task = self.programme.add(label, Work(cause), seconds, (self.compute,), needs, uses)
        self.last_compute = task
        return task

    def _communicate(
        self, items: Sequence[PlannedCollective], needs: Iterable[int], count: int = 1
    ) -> int:
        """One task for collectives that are sent together, `count` times each."""
        first = items[0]
        axes = tuple(sorted(self.axes[name] for name in first.axes))
        nbytes = sum(item.nbytes for item in items)
        if first.kind in self.effects.fusion and self._is_fusible(first):
            seconds = self.ports.time_s(first.kind, nbytes, axes)
        else:
            seconds = sum(item.time_s / item.count * count for item in items)
        label = first.tensor or first.operator
        if len(items) > 1:
            label += f" and {len(items) - 1} others"
        work = Work(first.cause, first.kind, first.tier)
        streams = (self._stream(first), *self._queues(axes))
        uses = self._uses(first.kind, nbytes, axes)
        task = self.programme.add(label, work, seconds, streams, needs, uses)
        self.joins[task] = axes
        return task

    def _uses(self, kind: str, nbytes: float, axes: tuple[int, ...]) -> tuple[Use, ...]:
        """What a collective shares with others that run at the same time."""
        fair = self.effects.contention is Contention.FAIR
        uses = self.ports.uses(kind, nbytes, axes) if fair else ()
        if self.effects.interference:
            uses = (*uses, Use(self.engine, self.effects.interference))
        return uses

    def _queues(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Ports at which a collective waits for its turn."""
        queue = self.effects.contention is Contention.QUEUE and self.effects.overlap
        return self.ports.queues(axes) if queue else ()

    def _time_s(self, kind: str, nbytes: float, names: Sequence[str]) -> float:
        return self.ports.time_s(kind, nbytes, tuple(sorted(self.axes[name] for name in names)))

    def _is_fusible(self, item: PlannedCollective) -> bool:
        return item.cause in {CAUSE_GATHER, CAUSE_SYNC}

    def _stream(self, item: PlannedCollective) -> int:
        if not self.effects.overlap or (item.operator, item.operand) in self.round:
            return self.compute
        key = frozenset(item.axes)
        if key not in self.streams:
            names = sorted(key, key=self.axes.__getitem__)
            self.streams[key] = self.programme.stream(self.device, "*".join(names))
        return self.streams[key]

    def _chain(self, items: Sequence[PlannedCollective], needs: Tasks) -> Tasks:
        """Collectives one after the other; ready with the last."""
        for item in items:
            needs = frozenset([self._communicate([item], needs)])
        return needs

    def _fused(self, bucket: Sequence[Unit], needs: Tasks) -> Tasks:
        """The collectives of a bucket, step by step; units of a bucket have equal steps."""
        for step in range(len(bucket[0].items)):
            needs = frozenset([self._communicate([u.items[step] for u in bucket], needs)])
        return needs

    def _gather(self, bucket: Sequence[Unit], after: int) -> int:
        done = self._fused(bucket, frozenset([after]) if after >= 0 else frozenset())
        for unit in bucket:
            self.ready[unit.tensor] = done
        return next(iter(done))

    # Forward

    def _shared(self, name: str) -> None:
        """What brings a tensor into the layout that its readers have in common."""
        needs = self.ready.get(name, frozenset())
        self.ready[name] = self._chain(self.index.shared_forward(name), needs)

    def _forward(self, operator: PlannedOperator) -> None:
        inputs, outputs = self.index.tensors_of(operator.name)
        place = self.index.place(self.index.position[operator.name], backward=False)
        needs = self.gathers.before(place, self.last_compute)
        for number, name in enumerate(inputs):
            items = self.index.edge_forward(operator.name, number)
            needs |= self._chain(items, self.ready.get(name, frozenset()))
        seconds = operator.compute_s - operator.backward_s
        if seconds > 0:
            needs = frozenset([self._compute(operator.label, FORWARD, seconds, needs)])
        needs = self._inside(operator.name, needs, backward=False)
        self.points.append(self.last_compute)
        self.forward_done[operator.name] = needs
        for name in outputs:
            self.ready[name] = needs
            self._shared(name)

    def _inside(self, name: str, needs: Tasks, *, backward: bool) -> Tasks:
        for item in self.index.inside(name):
            count = item.backward if backward else item.count - item.backward
            if count:
                needs = frozenset([self._communicate([item], needs, count)])
        return needs

    # Backward

    def _backward(self, operator: PlannedOperator) -> None:
        inputs, outputs = self.index.tensors_of(operator.name)
        needs = self.forward_done.get(operator.name, frozenset())
        for name in outputs:
            needs |= self._gradient_of(name)
        place = self.index.place(self.index.position[operator.name], backward=True)
        needs |= self.gathers.before(place, self.last_compute)
        needs |= self._brought_again(operator.name, inputs, needs)
        again = operator.recompute_s + self.index.recompute_before(operator.name)
        if again > 0:
            needs |= {self._compute(operator.label, RECOMPUTE, again, needs)}
        if operator.backward_s > 0:
            needs = frozenset([self._compute(operator.label, BACKWARD, operator.backward_s, needs)])
        needs = self._inside(operator.name, needs, backward=True)
        self.points.append(self.last_compute)
        for number, name in enumerate(inputs):
            found = self._chain(self.index.edge_backward(operator.name, number), needs)
            self.gradient[name] = self.gradient.get(name, frozenset()) | found
        self._send(place)

    def _brought_again(self, operator: str, inputs: Sequence[str], needs: Tasks) -> Tasks:
        """Communication that is repeated with the forward pass of a block: of each operator, and of
        what several operators read before the first of them.
        """
        out: Tasks = frozenset()
        for number, name in enumerate(inputs):
            own = self.index.edge_forward(operator, number)
            if name not in self.remade:
                self.remade.add(name)
                own = (*self.index.shared_forward(name), *own)
            items = [item for item in own if item.backward]
            out |= self._chain(items, needs) if items else frozenset()
        return out

    def _gradient_of(self, name: str) -> Tasks:
        """Gradient of a tensor as its maker gets it, after what its readers have in common."""
        found = self.gradient.get(name, frozenset())
        return self._chain(self.index.shared_backward(name), found)

    # Gradients of parameters

    def _send(self, place: int) -> None:
        """Send the buckets of gradients whose last member was made at this place."""
        for bucket in self.syncs.get(place, ()):
            made = (self.gradient.get(unit.tensor, frozenset()) for unit in bucket)
            done = self._fused(bucket, frozenset().union(*made))
            for unit in bucket:
                self.synced[unit.tensor] = done

    def gradients_ready(self) -> Tasks:
        """What the gradients of all parameters wait for."""
        needs: Tasks = frozenset()
        for tensor in self.plan.parameters:
            source = self.plan.graph.gradients.get(tensor.name, "")
            own = self.synced.get(tensor.name) or self.gradient.get(tensor.name)
            needs |= own or self.ready.get(source, frozenset())
        return needs

    def updates(self, needs: Tasks) -> None:
        """Update the parameters once all gradients are there, as the norm of all of them wants.

        Without an optimizer an update takes no time; what is gathered behind it is gathered.
        """
        ready = first = needs
        for tensor in self.plan.parameters:
            before = needs
            if tensor.host_s > 0:
                before |= {self._from_host(tensor.name, tensor.host_s, first)}
                first = frozenset()
            over = ready
            if tensor.update_s > 0:
                over = frozenset([self._compute(tensor.name, UPDATE, tensor.update_s, before)])
                needs = frozenset()
            self._chain(self.index.updated(tensor.name), over)

    def _from_host(self, label: str, seconds: float, needs: Iterable[int]) -> int:
        """Optimizer state on its way from the host and back, on the link to it."""
        work = Work(CAUSE_HOST, "copy", "host")
        if not self.effects.overlap:
            self.last_compute = self.programme.add(label, work, seconds, (self.compute,), needs)
            return self.last_compute
        if self.host is None:
            self.host = self.programme.stream(self.device, "host")
        return self.programme.add(label, work, seconds, (self.host,), needs)
