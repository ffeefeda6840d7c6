"""The operators and messages of a plan as tasks, one by one, on a device that stands for all.

It computes on one stream and has one stream for each group of ranks that it communicates in, as
frameworks do. Messages of activations run in line with the kernels where the plan counts them so:
no more of them hides than the software profile says, whatever branches the network has.
Source: PyTorch, `torch/distributed/tensor/_redistribute.py`, which waits for each collective.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.plan_overlap import has_overlap, hides, software_of
from costmodel.simulation.effects import Contention
from costmodel.simulation.gathering import Gathers
from costmodel.simulation.plan_index import BESIDE, PlanIndex, Unit, bucketed
from costmodel.simulation.ports import Ports
from costmodel.simulation.ring_attention import ring_operands
from costmodel.simulation.stage_tasks import Device, Tasks
from costmodel.simulation.task_graph import Activity, Use
from costmodel.software import SoftwareProfile
from ir.graph import Tensor
from ir.plan import LEAVES, Plan, PlannedCollective, PlannedOperator
from ir.plan_enums import Cause
from topology.cluster import Cluster
from topology.mesh import Mesh


class OperatorTask(NamedTuple):
    """A message that is to be added."""

    label: str
    activity: Activity
    seconds: float
    needs: Iterable[int]


@dataclass(slots=True)
class OperatorTasks:
    """Adds what a plan does to the tasks of a device."""

    plan: Plan
    device: Device
    index: PlanIndex = field(init=False)
    ports: Ports = field(init=False)
    axes: dict[str, int] = field(init=False)
    software: SoftwareProfile = field(init=False)
    in_line: bool = field(init=False)
    """Whether messages of activations take their turn among the kernels."""
    streams: dict[tuple[frozenset[str], bool], int] = field(default_factory=dict)
    """By the axes of a group, and whether its messages travel beside computation."""
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
    points: list[int] = field(default_factory=list)
    """Task during which each point of the plan's memory is reached; -1 where nothing runs."""
    joins: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Axes of the mesh over which each collective runs, by task."""
    gathers: Gathers = field(init=False)
    round: frozenset[tuple[str, int]] = field(init=False)
    """Keys and values that go round, by operator and operand."""
    apart: frozenset[PlannedCollective] = frozenset()
    """Messages whose share that shows somebody else adds."""
    syncs: dict[int, list[tuple[Unit, ...]]] = field(default_factory=dict)
    """Buckets of gradients by the place of the operator that makes the last member."""

    def __post_init__(self) -> None:
        self.index = PlanIndex(self.plan)
        self.software = software_of(self.plan)
        self.in_line = has_overlap(self.plan)
        self.axes = {name: i for i, (name, _, _) in enumerate(self.plan.mesh)}
        mesh = Mesh.of_rows(self.plan.mesh)
        self.ports = Ports(self.device, Cluster.from_dict(self.plan.cluster), mesh)
        self._expect()

    def _expect(self) -> None:
        """Note which buckets of parameters and gradients are to come."""
        self.gathers = Gathers(self.index, self.device.effects, self._gather)
        self.round = ring_operands(self.plan, self._time_s)
        self.syncs.clear()
        for bucket in bucketed(self.index.syncs(), self.device.effects):
            self.syncs.setdefault(bucket[-1].operator, []).append(bucket)

    def take(self, plan: Plan, apart: Iterable[PlannedCollective] = ()) -> None:
        """Go on with another pass of the same operators.

        Args:
            plan: with the messages of the pass.
            apart: messages whose share that shows is not in the way of the pass.
        """
        self.plan, self.index, self.apart = plan, PlanIndex(plan), frozenset(apart)
        for known in (self.ready, self.gradient, self.forward_done, self.remade):
            known.clear()
        self._expect()

    def forward_pass(self, leaving: Sequence[str] = (), after: Tasks = frozenset()) -> None:
        """All operators forward, and what brings tensors into the layout in which they leave.

        Args:
            leaving: tensors that leave for the next stage.
            after: what tensors that come in wait for, and all kernels.
        """
        for name in (t.name for t in self.plan.tensors if t.role in {"input", "parameter"}):
            self._shared(name, after)
        for operator in self.plan.operators:
            self._forward(operator, after)
        for name in leaving:
            self._chain(
                self.index.messages(Cause.FORWARD, name, LEAVES), self.ready.get(name, frozenset())
            )

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
            found = self._chain(self.index.messages(Cause.ACTIVATION_GRADIENT, name, LEAVES), after)
            self.gradient[name] = self.gradient.get(name, frozenset()) | found
        for operator in reversed(self.plan.operators):
            self._backward(operator)
        for name in received:
            self.gradient[name] = self._gradient_of(name)

    # Kernels and messages

    def _kernel(self, label: str, cause: Cause, seconds: float, needs: Tasks) -> Tasks:
        return frozenset([self.device.kernel(label, cause, seconds, needs)])

    def _communicate(
        self, items: Sequence[PlannedCollective], needs: Iterable[int], count: int = 1
    ) -> int:
        """One task for collectives that are sent together, `count` times each."""
        first = items[0]
        axes = tuple(sorted(self.axes[name] for name in first.axes))
        nbytes = sum(item.nbytes for item in items)
        if first.kind in self.device.effects.fusion and self._is_fusible(first):
            seconds = self.ports.time_s(first.kind, nbytes, axes)
        else:
            seconds = sum(item.time_s / item.count * count for item in items)
        label = first.tensor or first.operator
        if len(items) > 1:
            label += f" and {len(items) - 1} others"
        activity = Activity(first.cause, first.kind, first.tier)
        stream, left = self._stream(first), 1.0
        if self.device.effects.overlap:
            needs, left = self._shown(items, OperatorTask(label, activity, seconds, needs))
        streams = (stream, *self._queues(axes))
        uses = self._uses(first.kind, left * nbytes, axes)
        task = self.device.graph.add(label, activity, left * seconds, streams, needs, uses)
        self.joins[task] = axes
        return task

    def _shown(
        self, items: Sequence[PlannedCollective], task: OperatorTask
    ) -> tuple[Iterable[int], float]:
        """What a message waits for, and the share of it that its stream still has.

        Of a message of parameters a share holds up computation, as it uses the same cores and
        memory; of one of activations the software hides a share.
        """
        software, cause = self.software, items[0].cause
        if cause not in BESIDE:
            return task.needs, 1.0 - software.tensor_hidden
        tensors = self.plan.graph.tensors
        shares = [self.shown_share(item, tensors[item.tensor]) for item in items]
        whole_s = sum(item.time_s for item in items)
        shown_s = [s * item.time_s for s, item in zip(shares, items, strict=True)]
        if not sum(shown_s):
            return task.needs, 1.0
        left = 1.0 - sum(shown_s) / whole_s
        pairs = zip(shown_s, items, strict=True)
        held_s = sum(own for own, item in pairs if item not in self.apart)
        if not held_s:
            return task.needs, left
        streams, seconds = (self.device.compute,), held_s / whole_s * task.seconds
        held = self.device.graph.add(task.label, task.activity, seconds, streams, task.needs)
        return (held,), left

    def shown_share(self, item: PlannedCollective, parameter: Tensor) -> float:
        """Share of a message of a parameter that shows though computation would hide it."""
        if not hides(parameter):
            return 0.0
        gathers = item.cause == Cause.PARAMETER_GATHER
        return self.software.gathers_shown if gathers else self.software.sync_shown

    def _uses(self, kind: str, nbytes: float, axes: tuple[int, ...]) -> tuple[Use, ...]:
        """What a collective shares with others that run at the same time."""
        fair = self.device.effects.contention is Contention.FAIR
        uses = self.ports.uses(kind, nbytes, axes) if fair else ()
        return (*uses, *self.device.slowed_kernels())

    def _queues(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Ports at which a collective waits for its turn."""
        queue = self.device.effects.contention is Contention.QUEUE and self.device.effects.overlap
        return self.ports.queues(axes) if queue else ()

    def _time_s(self, kind: str, nbytes: float, names: Sequence[str]) -> float:
        return self.ports.time_s(kind, nbytes, tuple(sorted(self.axes[name] for name in names)))

    def _is_fusible(self, item: PlannedCollective) -> bool:
        return item.cause in {Cause.PARAMETER_GATHER, Cause.GRADIENT_SYNC}

    def _stream(self, item: PlannedCollective) -> int:
        if not self.device.effects.overlap or (item.operator, item.operand) in self.round:
            return self.device.compute
        if self.in_line and item.cause not in BESIDE:
            return self.device.compute
        key = frozenset(item.axes), item.cause in BESIDE
        if key not in self.streams:
            names = "*".join(sorted(key[0], key=self.axes.__getitem__))
            self.streams[key] = self.device.stream(f"{names} beside" if key[1] else names)
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

    def _shared(self, name: str, after: Tasks = frozenset()) -> None:
        """What brings a tensor into the layout that its readers have in common.

        Args:
            name: of the tensor.
            after: what one that nobody makes waits for.
        """
        needs = self.ready.get(name, after)
        self.ready[name] = self._chain(self.index.messages(Cause.FORWARD, name), needs)

    def _forward(self, operator: PlannedOperator, after: Tasks) -> None:
        inputs, outputs = self.index.tensors_of(operator.name)
        place = self.index.place(self.index.position[operator.name], backward=False)
        needs = self.gathers.before(place, self.device.last) | after
        for number, name in enumerate(inputs):
            items = self.index.messages(Cause.FORWARD, operator.name, number)
            needs |= self._chain(items, self.ready.get(name, after))
        seconds = operator.compute_s - operator.backward_s
        if seconds > 0:
            needs = self._kernel(_called(operator), Cause.COMPUTE_FORWARD, seconds, needs)
        needs = self._inside(operator.name, needs, backward=False)
        self.points.append(self.device.last)
        self.forward_done[operator.name] = needs
        for name in outputs:
            self.ready[name] = needs
            self._shared(name)

    def _inside(self, name: str, needs: Tasks, *, backward: bool) -> Tasks:
        for item in self.index.messages(Cause.INSIDE, name):
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
        needs |= self.gathers.before(place, self.device.last)
        needs |= self._brought_again(operator.name, inputs, needs)
        again = operator.recompute_s + self.index.recompute_before(operator.name)
        if again > 0:
            needs |= self._kernel(_called(operator), Cause.RECOMPUTE, again, needs)
        if operator.backward_s > 0:
            seconds, cause = operator.backward_s, Cause.COMPUTE_BACKWARD
            needs = self._kernel(_called(operator), cause, seconds, needs)
        needs = self._inside(operator.name, needs, backward=True)
        self.points.append(self.device.last)
        for number, name in enumerate(inputs):
            found = self._chain(
                self.index.messages(Cause.ACTIVATION_GRADIENT, operator.name, number), needs
            )
            self.gradient[name] = self.gradient.get(name, frozenset()) | found
        self._send(place)

    def _brought_again(self, operator: str, inputs: Sequence[str], needs: Tasks) -> Tasks:
        """Communication that is repeated with the forward pass of a block: of each operator, and of
        what several operators read before the first of them.
        """
        out: Tasks = frozenset()
        for number, name in enumerate(inputs):
            own = self.index.messages(Cause.FORWARD, operator, number)
            if name not in self.remade:
                self.remade.add(name)
                own = (*self.index.messages(Cause.FORWARD, name), *own)
            items = [item for item in own if item.backward]
            out |= self._chain(items, needs) if items else frozenset()
        return out

    def _gradient_of(self, name: str) -> Tasks:
        """Gradient of a tensor as its maker gets it, after what its readers have in common."""
        found = self.gradient.get(name, frozenset())
        return self._chain(self.index.messages(Cause.ACTIVATION_GRADIENT, name), found)

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

        Parts that are updated come together beside the next step's first forward pass; where
        nothing overlaps, here.
        """
        ready = first = needs
        for tensor in self.plan.parameters:
            before = needs
            if tensor.host_s > 0:
                before |= {self._from_host(tensor.name, tensor.host_s, first)}
                first = frozenset()
            over = ready
            if tensor.update_s > 0:
                over = self._kernel(tensor.name, Cause.UPDATE, tensor.update_s, before)
                needs = frozenset()
            if not self.device.effects.overlap:
                self._chain(self.index.messages(Cause.UPDATED_PARAMETERS, tensor.name), over)

    def _from_host(self, label: str, seconds: float, needs: Iterable[int]) -> int:
        """Optimizer state on its way from the host and back, on the link to it."""
        stream = self.device.compute
        if self.device.effects.overlap:
            self.host = self.device.stream("host") if self.host is None else self.host
            stream = self.host
        activity = Activity(Cause.HOST, "copy", "host")
        task = self.device.graph.add(label, activity, seconds, (stream,), needs)
        if not self.device.effects.overlap:
            self.device.last = task
        return task


def _called(operator: PlannedOperator) -> str:
    """Its module, or its name where it lies in none, and what it does."""
    return f"{operator.scope or operator.name} {operator.label}"
