"""Which moves MindSpore infers between two layouts of a tensor, for many pairs at once.

Its inference works on a map from places to device axes, a place being a dimension and how often
the cuts outside divide it. It repeats, until nothing is left to do: slice every empty place along
an axis that is free; exchange an axis that another place holds into an empty place; when neither
goes on, gather every axis that the target does not split, the first place first; when nothing went
on, gather the first axis that is in another's way. Where that exchanges nothing, or exchanges are
switched off, the gathers are put in front, the last place first, and the slices follow: MindSpore
reorders a sequence of these two kinds so. Neighbouring axes that always stand together are one.

Source: docs/step.md, section Redistribution; the real package's graphs
(tests/mindspore_package/test_redistribution.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ir.layout import Layout

IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
NOWHERE = -1


class Action(Enum):
    """What a move does with an axis."""

    SLICE = "slice"
    EXCHANGE = "exchange"
    GATHER = "gather"


@dataclass(frozen=True, slots=True)
class Move:
    """One axis, with those that stand inside it, moves in some of the pairs."""

    action: Action
    axis: int
    pairs: IntArray
    """Shape (concerned,), their indices."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of layouts.

    Attributes:
        held: shape (axes, pairs), the place that each axis splits in the source, or NOWHERE. Axes
            that stand together are one: the outermost has its place, the others are NOWHERE.
        wanted: the same for the target.
        last: shape (axes, pairs), the innermost axis of those that stand together from this one on.
    """

    held: IntArray
    wanted: IntArray
    last: IntArray


@dataclass(frozen=True, slots=True)
class Placed:
    """Some layouts of tensors of one rank.

    Attributes:
        places: shape (axes, layouts), the place that each axis splits, or NOWHERE.
        together: shape (axes - 1, layouts), whether an axis and the next split one dimension, the
            next just inside it, or nothing both.
    """

    places: IntArray
    together: BoolArray


def placed(layouts: Sequence[Layout], sizes: tuple[int, ...]) -> Placed:
    """Layouts on a mesh with axes of these sizes."""
    places = _places(layouts, sizes)
    return Placed(places, _together(places, sizes))


def paired(layouts: Placed, sources: IntArray, targets: IntArray) -> Pairs:
    """Pairs of layouts.

    Args:
        layouts: all of them.
        sources: shape (pairs,), the source of each pair, by number.
        targets: shape (pairs,).
    """
    first, second = layouts.places[:, sources], layouts.places[:, targets]
    together = layouts.together[:, sources] & layouts.together[:, targets]
    together &= ~(_cut(first, second, together) | _cut(second, first, together))
    held, wanted = first.copy(), second.copy()
    held[1:][together] = NOWHERE
    wanted[1:][together] = NOWHERE
    count = len(held)
    last = np.repeat(np.arange(count)[:, None], held.shape[1], axis=1)
    for axis in reversed(range(count - 1)):
        last[axis] = np.where(together[axis], last[axis + 1], axis)
    return Pairs(held, wanted, last)


def moves(held: IntArray, wanted: IntArray, *, exchange: bool) -> Iterator[Move]:
    """The moves from the held to the wanted places, in order; `held` is changed on the way.

    Args:
        held: shape (axes, pairs), places that are split, or NOWHERE.
        wanted: shape (axes, pairs).
        exchange: an axis may move at once; otherwise everything that moves is gathered first.
    """
    moving = (held != wanted) & (held != NOWHERE)
    at_once = moving & ~_any(moving & (wanted != NOWHERE)) if exchange else moving
    yield from _gather(held, at_once, from_last=True)
    if not exchange:
        yield from _slices(held, wanted)
        return
    left = np.flatnonzero(_any(held != wanted))
    while left.size:
        here, there = held[:, left], wanted[:, left]
        stuck = np.ones(left.size, dtype=bool)
        for action, axis in itertools.product((Action.SLICE, Action.EXCHANGE), range(len(held))):
            slices = (here[axis] == NOWHERE) == (action is Action.SLICE)
            pairs = np.flatnonzero(slices & _waits(here, there, axis))
            if pairs.size:
                held[axis, left[pairs]] = here[axis, pairs] = there[axis, pairs]
                stuck[pairs] = False
                yield Move(action, axis, left[pairs])
        for move in _gather(here, _to_gather(here, there, stuck), from_last=False):
            held[move.axis, left[move.pairs]] = NOWHERE
            yield Move(Action.GATHER, move.axis, left[move.pairs])
        left = left[_any(here != there)]


def _slices(held: IntArray, wanted: IntArray) -> Iterator[Move]:
    """What is left once everything that moves is gathered: no place is taken."""
    for axis in range(len(held)):
        pairs = np.flatnonzero((held[axis] == NOWHERE) & (wanted[axis] != NOWHERE))
        if pairs.size:
            held[axis, pairs] = wanted[axis, pairs]
            yield Move(Action.SLICE, axis, pairs)


def layout_of(held: IntArray, last: IntArray, dims: int, sizes: tuple[int, ...]) -> Layout:
    """The layout in which axes split places; `held` and `last` have shape (axes,)."""
    every = math.prod(sizes)
    out: list[list[int]] = [[] for _ in range(dims)]
    filled = [1] * dims
    for place, head in sorted((int(p), a) for a, p in enumerate(held) if p != NOWHERE):
        dim, outside = divmod(place, every)
        if outside > filled[dim]:
            out[dim].append(-(outside // filled[dim]))
        axes = range(head, int(last[head]) + 1)
        out[dim] += axes
        filled[dim] = outside * math.prod(sizes[a] for a in axes)
    return Layout(tuple(map(tuple, out)))


def _cut(places: IntArray, others: IntArray, together: BoolArray) -> BoolArray:
    """Whether an axis of the other layout begins where an axis and the next meet: then the tensor
    has dimensions of its own for both, and they part.

    Args:
        places: shape (axes, pairs).
        others: shape (axes, pairs), of the other layouts.
        together: shape (axes - 1, pairs), axes that move as one otherwise.

    Returns:
        The shape of `together`.
    """
    out = np.zeros(together.shape, dtype=bool)
    for axis, start in enumerate(others):
        meets = (places[1:] == start) & (start != NOWHERE)
        out |= meets if axis == 0 else meets & ~together[axis - 1]
    return out


def _any(table: BoolArray) -> BoolArray:
    """Whether any row holds, per column; several times faster than `any`."""
    return np.asarray(np.bitwise_or.reduce(table, axis=0), dtype=bool)


def _waits(held: IntArray, wanted: IntArray, axis: int) -> BoolArray:
    """Whether an axis is not yet where it is wanted, and its place there is empty."""
    place = wanted[axis]
    taken = _any(held == place)
    return np.asarray((place != NOWHERE) & ~taken, dtype=bool)


def _to_gather(held: IntArray, wanted: IntArray, stuck: BoolArray) -> BoolArray:
    """What the target does not split, where nothing else goes on; else the first in the way."""
    surplus = stuck & (held != NOWHERE) & (wanted == NOWHERE)
    blocked = stuck & ~_any(surplus)
    first = _first(held, blocked & (held != NOWHERE) & (held != wanted))
    return np.asarray(surplus | first, dtype=bool)


def _gather(held: IntArray, concerned: BoolArray, *, from_last: bool) -> Iterator[Move]:
    """Gathers axes, from the first place to the last or the other way."""
    order = -held if from_last else held.copy()
    while concerned.any():
        now = _first(order, concerned)
        for axis in range(len(held)):
            pairs = np.flatnonzero(now[axis])
            if pairs.size:
                held[axis, pairs] = NOWHERE
                yield Move(Action.GATHER, axis, pairs)
        concerned = concerned & ~now


def _first(places: IntArray, among: BoolArray) -> BoolArray:
    """The least place of each pair, as a mask of the same shape."""
    order = np.where(among, places, np.iinfo(places.dtype).max)
    least = order.argmin(axis=0)
    return np.asarray(among & (np.arange(len(places))[:, None] == least), dtype=bool)


def _places(layouts: Sequence[Layout], sizes: tuple[int, ...]) -> IntArray:
    """The place that each axis splits, shape (axes, layouts), NOWHERE if none.

    A place is `dimension * product of all sizes + product of the cuts outside`. An axis of one
    device splits nothing: with a place it would hold that of the next axis, which waits for it.
    """
    out = np.full((len(sizes), len(layouts)), NOWHERE, dtype=np.intp)
    every = math.prod(sizes)
    for column, layout in enumerate(layouts):
        for dim, axes in enumerate(layout.dims):
            outside = 1
            for axis in (each for each in axes if sizes[each] > 1):
                out[axis, column] = dim * every + outside
                outside *= sizes[axis]
    return out


def _together(places: IntArray, sizes: tuple[int, ...]) -> BoolArray:
    """Whether an axis and the next split one dimension, the next just inside it, or nothing both.

    Shape (axes - 1, layouts).
    """
    every = math.prod(sizes)
    outer, inner = places[: max(len(sizes) - 1, 0)], places[1:]
    own_size = np.array(sizes[:-1], dtype=np.intp)[:, None]
    inside = (outer // every == inner // every) & (outer % every * own_size == inner % every)
    together = np.where(outer == NOWHERE, inner == NOWHERE, inside & (inner != NOWHERE))
    return np.asarray(together, dtype=bool)
