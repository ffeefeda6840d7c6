"""A programme: tasks on the streams of devices, in the order in which each stream issues them.

Devices that do the same at the same time are one device of the programme, which stands for all of
them. A stream runs its tasks one after the other, as they were added; a task that holds several
streams starts when it is first in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

COMPUTE = "compute"
"""Kind of all work that is no communication, and the name of the stream that does it."""


class Work(NamedTuple):
    """What a task is counted as."""

    cause: str
    """Why it is done: `forward`, `gradient sync`, ..."""

    kind: str = COMPUTE
    """`compute`, or the kind of a collective."""

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


class Part(NamedTuple):
    """A stretch of a task that is counted by itself; a folded task has several, in order."""

    work: Work
    seconds: float


class Chain(NamedTuple):
    """Stretches that one task runs."""

    parts: tuple[Part, ...]
    seconds: float
    longest: Work
    """What most of the time is."""


def chained(parts: Sequence[Part]) -> Chain:
    """Stretches as one chain."""
    longest = max(parts, key=lambda p: p.seconds).work if parts else Work("nothing")
    return Chain(tuple(parts), sum(p.seconds for p in parts), longest)


@dataclass(slots=True)
class Programme:
    """Tasks as columns; filled by `add`, then only read."""

    device_names: list[str] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    """Real devices that each device stands for."""
    stream_device: list[int] = field(default_factory=list)
    stream_names: list[str] = field(default_factory=list)
    capacity: list[float] = field(default_factory=list)
    """Of each shared resource."""
    labels: list[str] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Time of each task that has its resources for itself."""
    streams: list[tuple[int, ...]] = field(default_factory=list)
    needs: list[tuple[int, ...]] = field(default_factory=list)
    """Tasks that must be over before."""
    uses: list[tuple[Use, ...]] = field(default_factory=list)
    parts: dict[int, tuple[Part, ...]] = field(default_factory=dict)
    """Stretches of folded tasks; they sum to its seconds."""
    hidden: dict[int, tuple[Part, ...]] = field(default_factory=dict)
    """Communication that a task is known to hide, so that it takes no time of its own."""

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
        work: Work,
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
        self.works.append(work)
        self.seconds.append(seconds)
        self.streams.append(tuple(streams))
        self.needs.append(tuple(sorted(needs)))
        self.uses.append(tuple(uses))
        return len(self.seconds) - 1

    def add_folded(
        self, label: str, parts: Sequence[Part], streams: Sequence[int], needs: Iterable[int] = ()
    ) -> int:
        """A new task that is a chain of stretches."""
        chain = chained(parts)
        return self.add_chain(label, chain, streams, needs)

    def add_chain(
        self, label: str, chain: Chain, streams: Sequence[int], needs: Iterable[int] = ()
    ) -> int:
        """The same of stretches that are known already."""
        task = self.add(label, chain.longest, chain.seconds, streams, needs)
        self.parts[task] = chain.parts
        return task

    def need(self, task: int, on: int) -> None:
        """Let a task wait for another one, which may have been added later."""
        self.needs[task] = (*self.needs[task], on)

    def stretches(self, task: int) -> tuple[Part, ...]:
        """What a task is counted as."""
        return self.parts.get(task) or (Part(self.works[task], self.seconds[task]),)
