"""What the passes of a pipeline are made of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costmodel.simulation.job import Block
from costmodel.simulation.programme import Chain, Part, Work
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
        hidden=total("hidden"),
    )


def parts_of(piece: Piece, each: Pass) -> tuple[list[Part], tuple[Part, ...]]:
    """What a piece of a pass is made of, and what it hides."""
    block = piece.block
    if each.direction is Direction.FORWARD:
        parts, hidden = block.forward, block.hidden
    elif each.direction is Direction.WEIGHT:
        parts, hidden = block.weight, ()
    else:
        parts, hidden = (*block.again, *block.backward), block.hidden
        if each.whole:
            parts = (*parts, *block.weight)
    scaled = [Part(work, seconds * piece.layers) for work, seconds in parts]
    return scaled, tuple(Part(work, seconds * piece.layers) for work, seconds in hidden)
