"""What the passes of a pipeline are made of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costmodel.simulation.job import Block
from costmodel.simulation.programme import Chain, Part, Work, chained
from costmodel.simulation.schedules import Direction, Order, Pass


class Piece(NamedTuple):
    """So many layers of a block, run as one task."""

    block: Block
    layers: float


class Folded(NamedTuple):
    """Stretches of a pass, and what it hides."""

    chain: Chain
    hidden: tuple[Part, ...]


def together(order: Order) -> Iterator[list[Pass]]:
    """The passes of an order, those that run interleaved in one list."""
    for _, group in itertools.groupby(
        enumerate(order), key=lambda e: (e[1].pair, e[1].pair < 0 and e[0])
    ):
        yield [each for _, each in group]


def joined(blocks: Sequence[Block]) -> Block:
    """All layers of a chunk as one."""

    def total(name: str) -> tuple[Part, ...]:
        sums: dict[Work, float] = {}
        for block in blocks:
            for work, seconds in getattr(block, name):
                sums[work] = sums.get(work, 0.0) + seconds * block.count
        return tuple(Part(*pair) for pair in sums.items())

    return Block(
        "",
        1.0,
        forward=total("forward"),
        backward=total("backward"),
        weight=total("weight"),
        again=total("again"),
        hidden_forward=total("hidden_forward"),
        hidden_backward=total("hidden_backward"),
    )


def pieces(blocks: Sequence[Block], bucket: float, each: Pass) -> list[Piece]:
    """The layers of a pass by buckets of so many, in the order in which it runs them."""
    out: list[Piece] = []
    for block in blocks:
        count = max(math.ceil(block.count / bucket - 1e-9), 1)
        out += [Piece(block, min(bucket, block.count - i * bucket)) for i in range(count)]
    return out if each.direction is Direction.FORWARD else out[::-1]


def beside(passes: Sequence[Folded]) -> Folded:
    """Passes as one: the communication of each hides behind the computation of all."""
    parts = [part for own in passes for part in own.chain.parts]
    hidden = [part for own in passes for part in own.hidden]
    computing = sum(p.seconds for p in parts if not p.work.is_communication)
    moving = sum(p.seconds for p in parts if p.work.is_communication)
    shown = max(moving - computing, 0.0) / moving if moving else 0.0
    kept = [Part(p.work, p.seconds * shown) if p.work.is_communication else p for p in parts]
    hidden += [Part(p.work, p.seconds * (1 - shown)) for p in parts if p.work.is_communication]
    return Folded(chained(kept), tuple(hidden))


def parts_of(piece: Piece, each: Pass) -> tuple[list[Part], tuple[Part, ...]]:
    """What a piece of a pass is made of, and what it hides."""
    block = piece.block
    if each.direction is Direction.FORWARD:
        parts, hidden = block.forward, block.hidden_forward
    elif each.direction is Direction.WEIGHT:
        parts, hidden = block.weight, ()
    else:
        parts, hidden = (*block.again, *block.backward), block.hidden_backward
        if each.whole:
            parts = (*parts, *block.weight)
    scaled = [Part(work, seconds * piece.layers) for work, seconds in parts]
    return scaled, tuple(Part(work, seconds * piece.layers) for work, seconds in hidden)
