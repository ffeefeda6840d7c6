"""What every stage of a pipeline has in a task graph: a device, and tasks of its passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from costmodel.schedules.orders import Direction, Order, Pass
from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.engine import Timeline
from costmodel.simulation.memory import Change
from costmodel.simulation.task_graph import COMPUTE, Activity, Fused, TaskGraph, Use


@dataclass(slots=True)
class Device:
    """One device of a task graph; without overlap everything runs on its compute stream."""

    graph: TaskGraph
    effects: Effects
    name: str
    copies: int
    tiers: InitVar[Iterable[str]]
    """Tiers to which it has a port."""
    number: int = field(init=False)
    compute: int = field(init=False)
    """Stream of kernels."""
    forward: int = field(init=False)
    """Stream on which activations are handed on."""
    backward: int = field(init=False)
    """Stream on which gradients are sent back."""
    ports: dict[str, int] = field(init=False)
    """Resources by tier, shared fairly."""
    engine: int = field(init=False)
    """Resource of kernels, of which communication may take a share."""
    last: int = -1
    """The kernel that was added last; -1 for none."""

    def __post_init__(self, tiers: Iterable[str]) -> None:
        self.number = self.graph.device(self.name, self.copies)
        self.compute = self.forward = self.backward = self.stream(COMPUTE)
        self.ports = {tier: self.graph.resource() for tier in tiers}
        self.engine = self.graph.resource()

    def stream(self, name: str) -> int:
        """A new stream."""
        return self.graph.stream(self.number, name)

    def add_senders(self) -> None:
        """Streams on which a stage of a pipeline sends to the stages beside it."""
        if self.effects.overlap:
            self.forward, self.backward = map(self.stream, ("send forward", "send backward"))

    def uses(self, tier: str) -> list[Use]:
        """What a transfer over a tier takes of what is shared, at the full speed of the port."""
        fair = self.effects.contention is Contention.FAIR and tier in self.ports
        return [*([Use(self.ports[tier], 1.0)] if fair else []), *self.slowed_kernels()]

    def slowed_kernels(self) -> list[Use]:
        """What any communication takes of the kernels' engine."""
        share = self.effects.interference
        return [Use(self.engine, share)] if share else []

    def run(self, label: str, fused: Fused, needs: Iterable[int] = ()) -> int:
        """Several kernels and messages as one task."""
        return self._ran(self.graph.add_fused(label, fused, (self.compute,), needs))

    def kernel(self, label: str, cause: str, seconds: float, needs: Iterable[int]) -> int:
        """One kernel."""
        return self._ran(self.graph.add(label, Activity(cause), seconds, (self.compute,), needs))

    def _ran(self, task: int) -> int:
        if self.effects.interference:
            self.graph.uses[task] = (Use(self.engine, 1.0),)
        self.last = task
        return task


Tasks: TypeAlias = frozenset[int]
"""Tasks that must be over before something is ready."""
Key: TypeAlias = tuple[Direction, int, int]
"""Direction, chunk and micro-batch of a pass of one stage."""


class Ends(NamedTuple):
    """A pass in the task graph."""

    first: int
    """What waits for the pass before it; -1 for nothing."""
    last: int
    result: Sequence[int]
    """What is over before its result is sent."""


class StageTasks(Protocol):
    """The tasks of one stage, whose layers are known by their sizes or operator by operator."""

    device: Device

    @property
    def joins(self) -> Mapping[int, tuple[int, ...]]:
        """Dimensions of the replicas that wait for one another, by task."""

    def begin(self, order: Order) -> None:
        """Tell in which order passes are to be run."""

    def run(self, passes: Sequence[Pass]) -> Sequence[Ends]:
        """Add one pass, or two that run interleaved."""

    def end(self) -> None:
        """All passes of the stage are there."""

    def sending_s(self, seconds: float, passes: Sequence[Pass]) -> float:
        """Seconds of a message to another stage that is sent behind some passes."""

    def gradients(self) -> list[Tasks]:
        """What the gradients of each chunk wait for."""

    def update(self, chunk: int, needs: Tasks) -> None:
        """Update the parameters of a chunk."""

    def memory(self, passes: Mapping[Key, Ends], timeline: Timeline) -> Iterable[Change]:
        """What it holds, as changes."""
