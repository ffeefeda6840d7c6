"""From the parts of a step to its task graph: passes in the order of the schedule.

One device stands for all that share a stage's work. A plan without stages is a pipeline of one
stage and one micro-batch, whose two passes run operator by operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from costmodel.schedules.orders import Direction, Pass, Place, Route
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import Timeline
from costmodel.simulation.layer_passes import LayerPasses, together
from costmodel.simulation.memory import MemoryCurve, curve_of
from costmodel.simulation.operator_passes import OperatorPasses
from costmodel.simulation.stage_tasks import Device, Ends, StageTasks
from costmodel.simulation.step import Step, Transfer
from costmodel.simulation.task_graph import Activity, TaskGraph


@dataclass(slots=True)
class Lowered:
    """The task graph of a step, and where its passes are in it."""

    step: Step
    effects: Effects
    graph: TaskGraph = field(default_factory=TaskGraph)
    stages: list[StageTasks] = field(default_factory=list)
    passes: dict[tuple[Place, Direction, int], Ends] = field(default_factory=dict)
    """By stage and chunk, direction and micro-batch."""
    results: dict[tuple[Place, Direction, int], Sequence[int]] = field(default_factory=dict)
    """What hands the result of a pass over, or makes it, by the pass."""
    posted: dict[int, tuple[Place, Direction, int]] = field(default_factory=dict)
    """Messages that their receivers post, and the pass that each waits for."""
    route: Route = field(init=False)

    def __post_init__(self) -> None:
        self.route = self.step.route
        for stage in self.step.stages:
            made = OperatorPasses if stage.operators else LayerPasses
            self.stages.append(made(self.graph, self.effects, self.step, stage))
        for number, order in enumerate(self.step.orders()):
            own = self.stages[number]
            own.begin(order)
            for passes in together(order) if self.effects.overlap else ([each] for each in order):
                self._run(number, passes)
            own.end()
        self._connect()
        self._update()

    @property
    def joins(self) -> dict[int, tuple[int, ...]]:
        """Dimensions of the replicas that wait for one another, by task."""
        return {task: over for own in self.stages for task, over in own.joins.items()}

    def step_s(self, timeline: Timeline) -> float:
        """Seconds from step to step: those of the longest stage, where steps overlap."""
        if not self.step.is_skewed:
            return timeline.step_s
        first, last = [math.inf] * len(self.stages), [0.0] * len(self.stages)
        for task, streams in enumerate(self.graph.streams):
            for stage in {self.graph.stream_device[stream] for stream in streams}:
                first[stage] = min(first[stage], float(timeline.start_s[task]))
                last[stage] = max(last[stage], float(timeline.end_s[task]))
        return max(b - a for a, b in zip(first, last, strict=True))

    def memory(self, timeline: Timeline) -> tuple[MemoryCurve, ...]:
        """Memory of every stage."""
        out = []
        for number, own in enumerate(self.stages):
            passes = {
                (direction, chunk, micro): ends
                for ((stage, chunk), direction, micro), ends in self.passes.items()
                if stage == number
            }
            out.append(curve_of(own.device.name, own.memory(passes, timeline)))
        return tuple(out)

    # Passes, and what they send

    def _run(self, stage: int, passes: Sequence[Pass]) -> None:
        if self.step.receiver_posts:
            self._receive(stage, passes)
        for each, ends in zip(passes, self.stages[stage].run(passes), strict=True):
            key = ((stage, each.chunk), each.direction, each.micro)
            self.passes[key] = ends
            self.results.setdefault(key, ends.result)
            posted = each.direction is Direction.FORWARD and self.step.receiver_posts
            if each.direction is not Direction.WEIGHT and not posted:
                self._send(stage, each, passes)

    def _send(self, stage: int, each: Pass, passes: Sequence[Pass]) -> None:
        """Hand the result of a pass over to whoever needs it, if that is another device."""
        own, place, forward = self.stages[stage], (stage, each.chunk), _is_forward(each)
        target = (self.route.behind if forward else self.route.before)(*place)
        if target is None or target[0] == stage:
            return
        cut = self.step.transfer(target if forward else place)
        if seconds := cut.forward_s if forward else cut.backward_s:
            key, seconds = (place, each.direction, each.micro), own.sending_s(seconds, passes)
            needs = self.results[key]
            self.results[key] = [self._message(each, target, cut, seconds, own.device, needs)]

    def _receive(self, stage: int, passes: Sequence[Pass]) -> None:
        """Post the messages that forward passes of a stage wait for."""
        for each in passes:
            place = (stage, each.chunk)
            source = self.route.before(*place)
            if _is_forward(each) and source is not None:
                cut = self.step.transfer(place)
                sender = self.stages[source[0] if self.effects.overlap else stage].device
                task = self._message(each, place, cut, cut.forward_s, sender, ())
                self.results[source, each.direction, each.micro] = [task]
                self.posted[task] = (source, each.direction, each.micro)

    def _message(
        self, each: Pass, target: Place, cut: Transfer, seconds: float, sender: Device,
        needs: Sequence[int],
    ) -> int:  # fmt: skip
        """What goes over the cut before a stage; it does not queue at ports."""
        stream = sender.forward if _is_forward(each) else sender.backward
        label = f"{each.direction}{each.micro} to {self.step.place_name(target)}"
        uses = sender.uses(cut.activity.tier)
        return self.graph.add(label, cut.activity, seconds, (stream,), needs, uses)

    def _connect(self) -> None:
        """Let every pass wait for what it gets from the pass before."""
        for task, made in self.posted.items():
            self.graph.need(task, self.passes[made].last)
        for (place, direction, micro), ends in self.passes.items():
            if ends.first < 0:
                continue
            forward = direction is Direction.FORWARD
            source = (self.route.before if forward else self.route.behind)(*place)
            needs: Sequence[int] = ()
            if direction is Direction.WEIGHT:
                needs = [self.passes[place, Direction.BACKWARD, micro].last]
            elif source is not None:
                needs = self.results[source, direction, micro]
            elif not forward:
                needs = [self.passes[place, Direction.FORWARD, micro].last]
            for task in needs:
                self.graph.need(ends.first, task)

    # The end of the step

    def _update(self) -> None:
        """Update the parameters once all stages have their gradients, as the norm of all wants."""
        ready = [own.gradients() for own in self.stages]
        for each in self.step.shared:
            needs = frozenset[int]().union(*(ready[stage][chunk] for stage, chunk in each.places))
            for stage, chunk in each.places:
                stream = (self.stages[stage].device.backward,)
                task = self.graph.add(each.tensor, each.activity, each.seconds, stream, needs)
                ready[stage][chunk] |= {task}
        every = [frozenset[int]().union(*own) for own in ready]
        if self.step.is_synchronous:
            needs = frozenset().union(*every)
            barrier = self.graph.add("all stages", Activity("barrier"), 0.0, (), needs)
            every = [frozenset([barrier])] * len(every)
        for chunk in range(self.route.chunks):
            for own, needs in zip(self.stages, every, strict=True):
                own.update(chunk, needs)


def _is_forward(each: Pass) -> bool:
    return each.direction is Direction.FORWARD
