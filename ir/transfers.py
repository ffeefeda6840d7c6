"""Who sends what to whom when tensors change their slices: as few bytes as can be.

A device keeps what it already has. Everything else must reach it once, so the bytes that arrive
are what it needs less what it has, whoever sends them; among those who could, the nearest sends,
and among equally near ones the one that has sent least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ir.slicing import Box, Slices, box_dims, common_box

Distance: TypeAlias = Callable[[int, int], int]
"""How far two devices are apart: smaller is nearer."""


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """A box of a tensor that some devices must have afterwards."""

    old: Slices
    """Which device has what before."""
    box: Box
    devices: tuple[int, ...]
    item_bytes: float
    """Of one element."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a change of slices moves between devices."""

    messages: Mapping[tuple[int, int], float]
    """Bytes by sender and receiver, ascending."""
    kept: Mapping[int, float]
    """Bytes that a device has already, by device."""
    lost: Mapping[int, float]
    """Bytes that a device needs and no device has, by device."""

    @property
    def moved_bytes(self) -> float:
        return math.fsum(self.messages.values())

    @property
    def lost_bytes(self) -> float:
        return math.fsum(self.lost.values())

    @property
    def kept_bytes(self) -> float:
        return math.fsum(self.kept.values())

    def sources(self) -> dict[int, tuple[int, ...]]:
        """For each device the devices whose slices it takes from, ascending; often itself too."""
        out: dict[int, list[int]] = {device: [device] for device in self.kept}
        for sender, receiver in self.messages:
            out.setdefault(receiver, []).append(sender)
        return {device: tuple(sorted(senders)) for device, senders in sorted(out.items())}


def traffic(needs: Iterable[Need], distance: Distance = lambda one, other: 0) -> Traffic:  # noqa: ARG005
    """The messages of a change.

    Args:
        needs: what devices must have, tensor by tensor.
        distance: between two devices.
    """
    sent: dict[int, float] = {}
    messages: dict[tuple[int, int], float] = {}
    lost: dict[int, float] = {}
    kept: dict[int, float] = {}
    known: dict[int, tuple[Slices, dict[Box, list[_Cell]]]] = {}
    for need in needs:
        cells = _known_cells(known, need)
        for device in need.devices:
            missing = math.prod(box_dims(need.box)) * need.item_bytes
            for elements, owners in _taken(cells, device, need):
                nbytes = elements * need.item_bytes
                missing -= nbytes
                if device in owners:
                    kept[device] = kept.get(device, 0.0) + nbytes
                    continue
                sender = min(owners, key=lambda o: (distance(o, device), sent.get(o, 0.0), o))
                sent[sender] = sent.get(sender, 0.0) + nbytes
                pair = sender, device
                messages[pair] = messages.get(pair, 0.0) + nbytes
            if missing > 0:
                lost[device] = lost.get(device, 0.0) + missing
    return Traffic(dict(sorted(messages.items())), kept, dict(sorted(lost.items())))


_Cell: TypeAlias = tuple[Box, tuple[int, ...]]


def _known_cells(
    known: dict[int, tuple[Slices, dict[Box, list[_Cell]]]], need: Need
) -> list[_Cell]:
    """The parts of a box, looked up where the same box of the same slices came before."""
    _, cells = known.setdefault(id(need.old), (need.old, {}))  # holds the slices, so ids stay
    if need.box not in cells:
        cells[need.box] = list(_cells(need.old, need.box))
    return cells[need.box]


def _cells(old: Slices, box: Box) -> Iterator[_Cell]:
    """Parts of a box with who has them; those that nobody has are left out."""
    for index, shared in old.overlapping(box):
        if old.ranks[index]:
            yield shared, old.ranks[index]


def _taken(
    cells: Sequence[_Cell], device: int, need: Need
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Elements and owners of the parts that make up a box, none twice.

    Slices of one grid are apart; those of two stages may overlap. What the device has itself is
    taken first.
    """
    volumes = [math.prod(box_dims(box)) for box, _ in cells]
    if sum(volumes) <= math.prod(box_dims(need.box)):
        for volume, (_, owners) in zip(volumes, cells, strict=True):
            yield volume, owners
        return
    left = [need.box]
    for box, owners in sorted(cells, key=lambda cell: device not in cell[1]):
        before = sum(math.prod(box_dims(each)) for each in left)
        left = [rest for each in left for rest in _without(each, box)]
        taken = before - sum(math.prod(box_dims(each)) for each in left)
        if taken:
            yield taken, owners


def _without(box: Box, hole: Box) -> Iterator[Box]:
    """Boxes that make up what is left of a box."""
    shared = common_box(box, hole)
    if shared is None:
        yield box
        return
    rest = list(box)
    for dim, ((first, end), (begin, stop)) in enumerate(zip(box, shared, strict=True)):
        for part in ((first, begin), (stop, end)):
            if part[0] < part[1]:
                yield (*rest[:dim], part, *box[dim + 1 :])
        rest[dim] = (begin, stop)
