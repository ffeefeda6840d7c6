"""Halving the devices: what each round cuts of every primitive that is searched.

A round goes over the primitives and cuts each in two along the part of least cost: the elements of
what the cut does not divide, and 16 times those of a tensor that a neighbour has cut otherwise in
this round. Elements are counted of what earlier rounds have left.
Source: MindSpore 2.7.0, `rec_core/rec_cost.cc`, `rec_core/rec_partition.cc`; the costs are those
in the log of 2.10.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.mindspore_searches.network import (
    RANK,
    Dims,
    Node,
    Place,
    Role,
    is_same,
    padded,
    places,
    role_of,
)

ROWS_WEIGHT = 0.1
"""MindSpore's `rp_matmul_mem_coef`: cut rows mean a gradient that is reduced."""
REDISTRIBUTED = 16.0
"""For each element of a tensor that two neighbours cut otherwise in one round."""
WHOLE_PER_ELEMENT = 25.0
"""A product that is not cut costs the square of its cheapest cut over this."""
MOST_BY_ORDER = 32
"""With more devices products and convolutions come first in a round."""
_ROWS, _COLUMNS = 2, 3
"""Of matrices, in padded dims."""
Halved = tuple[int, ...]
"""Dims of a tensor that one round halves."""


@dataclass(slots=True)
class Piece:
    """What is left of one primitive, and how often its tensors are cut."""

    role: Role
    operands: list[list[int]]
    """Sizes of what is left of the first two operands, padded."""
    result: list[int]
    dims: tuple[Dims, ...]
    """All operands whole, padded; those of a product as if none were transposed."""
    whole: Dims
    """The result whole, padded."""
    cuts: list[list[int]] = field(default_factory=lambda: [[1] * RANK, [1] * RANK])
    """Of the first two operands."""
    result_cuts: list[int] = field(default_factory=lambda: [1] * RANK)
    given: tuple[Halved, ...] | None = None
    """What the user's strategy halves of the result in each round, instead of a search."""
    given_first: tuple[Halved, ...] = ()
    """The same of the first operand."""

    def halve(self, choice: Choice) -> None:
        """Cut it in two."""
        tensors = (*self.operands, self.result)
        for halved, left, cut in zip(choice, tensors, (*self.cuts, self.result_cuts), strict=True):
            for axis in halved:
                left[axis] //= 2
                cut[axis] *= 2


Choice = tuple[Halved, Halved, Halved]
"""What is halved of the first operand, the second one and the result."""
NOTHING: Choice = ((), (), ())
_PRODUCT: tuple[Choice, ...] = (
    ((_ROWS,), (), (_ROWS,)),
    ((), (_COLUMNS,), (_COLUMNS,)),
    ((_COLUMNS,), (_ROWS,), ()),
)
"""Rows, columns, what is summed."""
_IMAGES: Choice = ((0,), (), (0,))


def partition(
    nodes: Sequence[Node],
    devices: int,
    given: Mapping[int, tuple[Dims, ...]],
    rows_weight: float = ROWS_WEIGHT,
) -> dict[int, Piece]:
    """All primitives that are searched, as the rounds leave them.

    Args:
        nodes: of the network.
        devices: a power of two.
        given: strategies of the user by number, which MindSpore passes over unless
            MS_INTERFERED_SAPP is set.
        rows_weight: `rp_matmul_mem_coef`.
    """
    searched = {Role.FOLLOWER, Role.REPEATED}
    pieces = {n: _piece(node) for n, node in enumerate(nodes) if role_of(node) not in searched}
    for number, strategy in given.items():
        if number in pieces:
            _take(pieces[number], nodes[number], strategy)
    rounds = _Rounds(pieces, places(nodes), _single(rows_weight))
    for turn in range(devices.bit_length() - 1):
        rounds.run(turn, by_weight=devices > MOST_BY_ORDER)
    return pieces


def oriented(node: Node, tensors: Sequence[Dims]) -> tuple[Dims, ...]:
    """Values for each dimension of the operands of a product as if none were transposed, or back
    again; those of others as they are.
    """
    out = list(tensors)
    for place, turned in enumerate(node.turned):
        if turned:
            *leading, rows, columns = out[place]
            out[place] = (*leading, columns, rows)
    return tuple(out)


def _piece(node: Node) -> Piece:
    dims = tuple(map(padded, oriented(node, node.dims)))
    two = [list(each) for each in (*dims, (1,) * RANK, (1,) * RANK)[:2]]
    whole = padded(node.result)
    return Piece(role_of(node), two, list(whole), dims, whole)


def _take(piece: Piece, node: Node, strategy: tuple[Dims, ...]) -> None:
    cuts = [padded(each) for each in oriented(node, strategy)]
    piece.cuts = [list(each) for each in (*cuts, (1,) * RANK)[:2]]
    first, second = piece.cuts
    piece.result_cuts = list(first)
    if piece.role is Role.PRODUCT:
        piece.result_cuts = [*first[:_COLUMNS], second[_COLUMNS]]
    piece.given, piece.given_first = tuple(_halvings(piece.result_cuts)), tuple(_halvings(first))


def _halvings(cuts: Sequence[int]) -> Iterator[Halved]:
    """Cuts as one halving after the other."""
    for axis, cut in enumerate(cuts):
        yield from [(axis,)] * (cut.bit_length() - 1)


@dataclass(slots=True)
class _Rounds:
    pieces: Mapping[int, Piece]
    places: Sequence[Place]
    rows_weight: float
    decided: dict[int, Choice] = field(default_factory=dict)
    """What this round has halved so far."""

    def run(self, turn: int, *, by_weight: bool) -> None:
        """One round over all primitives."""
        self.decided = {
            number: (_at(piece.given_first, turn), (), _at(piece.given, turn))
            for number, piece in self.pieces.items()
            if piece.given is not None
        }
        weight = self._weight if by_weight else self._knows
        for number in sorted(self.pieces, key=lambda n: (weight(n), n), reverse=True):
            piece = self.pieces[number]
            if piece.given is None:
                self.decided[number] = choice = self._choice(number, piece)
                piece.halve(choice)

    def _knows(self, number: int) -> float:
        return -1.0 if self.pieces[number].role is Role.UNKNOWN else 0.0

    def _weight(self, number: int) -> float:
        """By what is left of the first primitive, for all of a kind: MindSpore means the one that
        it asks for, but keeps the first that it was asked for.
        """
        role, first = self.pieces[number].role, self.pieces[min(self.pieces)]
        if role is Role.PRODUCT:
            costs = self._costs(first)
            return max(*costs, _of_whole(costs))
        if role is Role.CONVOLUTION:
            return min(math.prod(left) / 2 for left in (*first.operands, first.result))
        return 0.0

    def _choice(self, number: int, piece: Piece) -> Choice:
        if piece.role is Role.PRODUCT:
            return self._product(number, piece)
        if piece.role is Role.CONVOLUTION:
            return _IMAGES if _is_even(piece.operands[0][0]) else NOTHING
        if piece.role is Role.POOLING:
            open_axes = [axis for axis in (0, 1) if _is_even(piece.result[axis])]
            choices: list[Choice] = [((axis,), (axis,), (axis,)) for axis in open_axes]
            best = min(choices, key=lambda c: self._sent(number, piece, c), default=NOTHING)
            return (best[0], (), best[2])
        if piece.role is Role.BATCH:
            axes = [axis for axis, left in enumerate(piece.operands[0]) if _is_even(left)]
            return ((axes[0],), (), (axes[0],)) if axes else NOTHING
        return NOTHING

    def _product(self, number: int, piece: Piece) -> Choice:
        costs = self._costs(piece)
        rows, summed, columns = *piece.operands[0][_ROWS:], piece.operands[1][_COLUMNS]
        is_open = (
            _is_even(rows),
            _is_even(columns) and piece.cuts[0][_COLUMNS] == 1,
            _is_even(summed) and piece.cuts[1][_COLUMNS] == 1,
        )
        choices = [
            (cost + self._sent(number, piece, choice), choice)
            for choice, cost, possible in zip(_PRODUCT, costs, is_open, strict=True)
            if possible
        ]
        choices.append((_of_whole(costs) + self._sent(number, piece, NOTHING), NOTHING))
        return min(choices, key=lambda each: each[0])[1]

    def _costs(self, piece: Piece) -> tuple[float, float, float]:
        """Of halved rows, columns and sums of a product."""
        rows, summed, columns = *piece.operands[0][_ROWS:], piece.operands[1][_COLUMNS]
        first = columns * summed / 2 * self.rows_weight
        return first, rows * summed / 2, rows * columns / 2

    def _sent(self, number: int, piece: Piece, choice: Choice) -> float:
        """What neighbours that this round has decided otherwise cost."""
        place, total = self.places[number], 0.0
        operands = [*enumerate(place.before), *((at, maker) for maker, at in place.aside)]
        for at, maker in operands:
            if maker in self.decided and at < len(piece.dims):
                made = self.decided[maker][2]
                for link in self.places[maker].after:
                    same = link.to == number and made != choice[min(at, 2)]
                    if same and is_same(self.pieces[maker].whole, piece.dims[at], link):
                        total += REDISTRIBUTED * math.prod(piece.operands[0])
        for link in place.after:
            if link.to in self.decided and self.decided[link.to][0] != choice[2]:
                for dims in self.pieces[link.to].dims:
                    if is_same(piece.whole, dims, link):
                        total += REDISTRIBUTED * math.prod(piece.result)
        return total


def _of_whole(costs: Sequence[float]) -> float:
    return min(costs) ** 2 / WHOLE_PER_ELEMENT


def _single(value: float) -> float:
    """As MindSpore keeps it, with 24 bits; it decides between cuts of equal cost."""
    return float(np.float32(value))


def _is_even(size: int) -> bool:
    return size > 1 and size % 2 == 0


def _at(halvings: Sequence[Halved] | None, turn: int) -> Halved:
    return halvings[turn] if halvings and turn < len(halvings) else ()
