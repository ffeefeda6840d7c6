"""A task graph: tasks on the streams of devices, in the order in which each stream issues them.

Devices that do the same at the same time are one device of the graph, which stands for all of
them. A stream runs its tasks one after the other, as they were added; a task that holds several
streams starts when it is first in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

COMPUTE = "compute"
"""Kind of all work that is no communication, and the name of the stream that does it."""


class Activity(NamedTuple):
    """What the seconds of a kernel or a message are counted as."""

    cause: str
    """Why it runs: `forward`, `gradient sync`, ..."""

    kind: str = COMPUTE
    """`compute` of a kernel, or the kind of a collective."""

    tier: str = ""
    """Outermost tier that a collective crosses."""

    @property
    def is_communication(self) -> bool:
        return self.kind != COMPUTE


class Use(NamedTuple):
    """What a task takes of something that is shared while it runs at full speed."""

    resource: int
    share: float
    """Of the capacity, above 0."""


class Span(NamedTuple):
    """A kernel or a message, or several of the same activity in one."""

    activity: Activity
    seconds: float


class Fused(NamedTuple):
    """Kernels and messages that run as one task, one after the other."""

    spans: tuple[Span, ...]
    seconds: float
    longest: Activity
    """What most of the time is."""
    hidden: tuple[Span, ...]
    """Messages that the kernels hide, so that they take no time of their own."""


def fuse(spans: Iterable[Span], hidden: Iterable[Span] = ()) -> Fused:
    """Kernels and messages as one."""
    spans = tuple(spans)
    longest = max(spans, key=lambda s: s.seconds).activity if spans else Activity("nothing")
    return Fused(spans, sum(s.seconds for s in spans), longest, tuple(hidden))


@dataclass(slots=True)
class TaskGraph:
    """Tasks as columns; filled by `add`, then only read."""

    device_names: list[str] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    """Real devices that each device stands for."""
    stream_device: list[int] = field(default_factory=list)
    stream_names: list[str] = field(default_factory=list)
    capacity: list[float] = field(default_factory=list)
    """Of each shared resource."""
    labels: list[str] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Time of each task that has its resources for itself."""
    streams: list[tuple[int, ...]] = field(default_factory=list)
    needs: list[tuple[int, ...]] = field(default_factory=list)
    """Tasks that must be over before."""
    uses: list[tuple[Use, ...]] = field(default_factory=list)
    spans: dict[int, tuple[Span, ...]] = field(default_factory=dict)
    """What fused tasks are made of; it sums to their seconds."""
    hidden: dict[int, tuple[Span, ...]] = field(default_factory=dict)
    """Messages that a fused task hides."""

    def __len__(self) -> int:
        return len(self.seconds)

    def device(self, name: str, copies: int = 1) -> int:
        """A new device that stands for some equal ones."""
        self.device_names.append(name)
        self.copies.append(copies)
        return len(self.copies) - 1

    def stream(self, device: int, name: str) -> int:
        """A new stream of a device."""
        self.stream_device.append(device)
        self.stream_names.append(name)
        return len(self.stream_names) - 1

    def resource(self, capacity: float = 1.0) -> int:
        """Something that tasks share max-min fairly, such as a port."""
        self.capacity.append(capacity)
        return len(self.capacity) - 1

    def add(
        self,
        label: str,
        activity: Activity,
        seconds: float,
        streams: Sequence[int],
        needs: Iterable[int] = (),
        uses: Sequence[Use] = (),
    ) -> int:
        """A new task at the end of its streams.

        Raises:
            ValueError: a time that is negative or not finite.
        """
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"task {label!r} takes {seconds} s")
        self.labels.append(label)
        self.activities.append(activity)
        self.seconds.append(seconds)
        self.streams.append(tuple(streams))
        self.needs.append(tuple(sorted(needs)))
        self.uses.append(tuple(uses))
        return len(self.seconds) - 1

    def add_fused(
        self, label: str, fused: Fused, streams: Sequence[int], needs: Iterable[int] = ()
    ) -> int:
        """A new task of several kernels and messages."""
        task = self.add(label, fused.longest, fused.seconds, streams, needs)
        self.spans[task] = fused.spans
        if fused.hidden:
            self.hidden[task] = fused.hidden
        return task

    def need(self, task: int, on: int) -> None:
        """Let a task wait for another one, which may have been added later."""
        self.needs[task] = (*self.needs[task], on)

    def spans_of(self, task: int) -> tuple[Span, ...]:
        """What a task is counted as."""
        return self.spans.get(task) or (Span(self.activities[task], self.seconds[task]),)
