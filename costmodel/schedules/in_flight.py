"""How many micro-batches of each chunk are in flight while a device runs one of them.

The activations of a device are at every time the sum over its chunks of the micro-batches on the
way times the bytes of one of them. An order fixes the counts, so the most that a device ever keeps
is the largest of few such sums, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from costmodel.schedules.orders import SCHEDULES, Direction, Shape

Counts: TypeAlias = tuple[int, ...]
"""Micro-batches of each chunk of a device."""
Moments: TypeAlias = tuple[Counts, ...]
"""When a chunk runs: what is in flight with the micro-batch that runs."""

ROUNDS = 4
"""Rounds of as many micro-batches as there are stages after which nothing new comes: those ahead of
the first backward pass are done within two."""


@lru_cache(maxsize=4096)
def moments(name: str, shape: Shape, stage: int) -> tuple[Moments, ...]:
    """For each chunk of a device the moments at which most is kept, the others are left out.

    With equal chunks the largest sum is that of the passes ahead and one more (Narayanan et al.,
    SC 2021, section 2.2; the number of passes ahead is Megatron-LM's). A backward pass finds the
    same in flight as the forward passes of its chunk: the order is its own mirror image.

    Args:
        name: of a schedule with whole backward passes, in one direction.
        shape: stages, chunks and micro-batches.
        stage: which device.

    >>> moments("interleaved", Shape(4, 2, 16), 0)
    (((6, 4), (7, 3)), ((7, 3), (8, 2)))
    >>> moments("1f1b", Shape(4, 1, 16), 1)
    (((2,),),)
    """
    most = shape.stages * ROUNDS
    if shape.micro_batches > most:
        shape = Shape(shape.stages, shape.chunks, most + shape.micro_batches % shape.stages)
    found: list[list[Counts]] = [[] for _ in range(shape.chunks)]
    now = [0] * shape.chunks
    for item in SCHEDULES[name].order(shape, stage):
        if item.direction is Direction.FORWARD:
            found[item.chunk].append(tuple(now))
            now[item.chunk] += 1
        else:
            now[item.chunk] -= 1
    return tuple(tuple(_corners(own)) for own in found)


def most_of_each(every: Sequence[Moments]) -> Counts:
    """Micro-batches of each chunk that are in flight at most, with the one that runs.

    >>> most_of_each(moments("interleaved", Shape(4, 2, 16), 0))
    (8, 4)
    """
    return tuple(max(each) for each in zip(*in_flight_counts(every), strict=True))


def most_in_flight(name: str, shape: Shape) -> Counts:
    """Micro-batches whose activations each piece keeps at most, in the order of the network.

    Piece k runs on device k mod p.

    >>> most_in_flight("1f1b", Shape(4, 1, 3))
    (3, 3, 2, 1)
    >>> most_in_flight("interleaved", Shape(2, 2, 8))
    (4, 3, 2, 1)
    """
    most = [most_of_each(moments(name, shape, stage)) for stage in range(shape.stages)]
    return tuple(own[chunk] for chunk in range(shape.chunks) for own in most)


def in_flight_counts(every: Sequence[Moments]) -> Iterator[Counts]:
    """What is in flight at the moments of all chunks, with the micro-batch that runs."""
    for chunk, own in enumerate(every):
        for counts in own:
            yield (*counts[:chunk], counts[chunk] + 1, *counts[chunk + 1 :])


def _corners(visited: Sequence[Counts]) -> Iterator[Counts]:
    """Those that the largest sum can be at: none that another one exceeds, none half-way between
    two others.
    """
    path = list(dict.fromkeys(visited))
    ends = {0, len(path) - 1}
    found = [
        counts
        for place, counts in enumerate(path)
        if place in ends or not _is_between(path[place - 1], counts, path[place + 1])
    ]
    for counts in sorted(found):
        others = (other for other in found if other != counts)
        if not any(all(a <= b for a, b in zip(counts, other, strict=True)) for other in others):
            yield counts


def _is_between(before: Counts, counts: Counts, after: Counts) -> bool:
    return all(a + c == 2 * b for a, b, c in zip(before, counts, after, strict=True))
