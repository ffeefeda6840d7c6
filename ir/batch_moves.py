"""Where a batch goes in operators that move elements: what sharding rules do not say.

The batch is one digit of the position in a dimension: `outer` digits stand before it, as where
three copies of a batch stand one after the other. Some moves can be read in several ways. A reshape
of two samples to `(1, 2)` keeps the batch whole, or makes groups of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ir.ops import OpView, Resizing, lookup
from ir.ops.indexing import gather_nd_rule
from ir.ops.shape import reshape_rule
from ir.resizing import cuts


@dataclass(frozen=True, slots=True)
class Place:
    """What of a tensor is the batch: a factor of one dimension."""

    dim: int
    outer: int = 1
    """Product of what stands before the batch in the dimension; 0 where it is no single factor."""
    count: int = 1
    """Size of the factor as exported: the batch, or what is left of it where it was cut."""

    def inside(self, sizes: Sequence[int]) -> tuple[int, Place] | None:
        """Which of the factors of a dimension holds the batch, and where in it; of a batch that
        several make up, the outermost.

        Args:
            sizes: of the factors, outermost first.
        """
        if not self.outer:
            return (0, self) if len(sizes) == 1 else None
        before, found = 1, None
        for index, size in enumerate(sizes):
            if self.outer % before == 0 and before * size % self.outer == 0:
                held = before * size % (self.outer * self.count) == 0
                if held and (size == 1 or before * size > self.outer):
                    return index, Place(self.dim, self.outer // before, self.count)
                found = (
                    (index, Place(self.dim, self.outer // before, self.count)) if held else found
                )
            before *= size
        cut = self.outer == 1 and sizes[0] > 1 and self.count % sizes[0] == 0
        return (0, replace(self, count=sizes[0])) if found is None and cut else found


@dataclass(frozen=True, slots=True)
class Reading:
    """What an operator makes of a batch."""

    results: tuple[Place | None, ...]
    needs: Mapping[int, Place] = field(default_factory=dict)
    """Operands that have to hold the batch too."""


@dataclass(frozen=True, slots=True)
class Readings:
    """All that an operator can make of a batch; none where it is lost."""

    likely: tuple[Reading, ...] = ()
    unlikely: tuple[Reading, ...] = ()
    """Those that count only where no likely one fits the rest of the model."""
    reason: str = ""
    """Why there is none."""


Held = Mapping[int, Place]
"""Operands that hold the batch."""
Move = Callable[[OpView, Held], "Readings | None"]
"""The readings of an operator; None where its sharding rule says all."""


def readings(view: OpView, held: Held) -> Readings | None:
    """What an operator makes of the batch in its operands; None where its rule says it."""
    entry = lookup(view.op.kind)
    move = _MOVES.get(entry.resizing or entry.rule)
    return move(view, held) if move else None


def _one(place: Place, needs: Held | None = None) -> Readings:
    return Readings((Reading((place,), needs or {}),))


def _reshape(view: OpView, held: Held) -> Readings | None:
    place, source, target = held[0], view.dims(0), view.result()
    if math.prod(source) != math.prod(target) or 0 in source:
        return None
    start = math.prod(source[: place.dim])
    befores = [math.prod(target[:j]) for j in range(len(target))]
    if not place.outer:
        same = [j for j, b in enumerate(befores) if b == start and target[j] == source[place.dim]]
        return Readings(tuple(Reading((replace(place, dim=j),)) for j in same[-1:]))
    first, count = start * place.outer, place.count
    end = first * count
    if count == 1:
        return _reshape_of_one(first, target, befores)
    whole = [j for j, b in enumerate(befores) if first % b == 0 and b * target[j] % end == 0
             and b * target[j] >= end]  # fmt: skip
    units = [j for j, b in enumerate(befores) if target[j] == 1]
    if not whole:
        return Readings(tuple(_parts(first, end, target, befores)))
    kept = Reading((Place(whole[0], first // befores[whole[0]], count),))
    ahead = [j for j in units if befores[j] == first and j < whole[0]]
    behind = [j for j in units if befores[j] == end and j == whole[0] + 1]
    return Readings(
        (kept, *(Reading((Place(j),)) for j in ahead[-1:])),
        tuple(Reading((Place(j),)) for j in behind),
    )


def _reshape_of_one(first: int, target: Sequence[int], befores: Sequence[int]) -> Readings:
    """A batch of one may stand at every boundary; the outermost fitting dimension is likely."""
    fitting = [
        j
        for j, b in enumerate(befores)
        if first % b == 0 and b * target[j] % first == 0 and b * target[j] >= first
    ]
    starting = [j for j in fitting if befores[j] == first]
    order = [*starting, *(j for j in fitting if j not in starting)]
    found = [Reading((Place(j, first // befores[j]),)) for j in order]
    return Readings(tuple(found[:1]), tuple(found[1:]))


def _parts(
    first: int, end: int, target: Sequence[int], befores: Sequence[int]
) -> Iterator[Reading]:
    """The batch cut apart: each piece may be the one that grows."""
    for j, before in enumerate(befores):
        low, high = max(first, before), min(end, before * target[j])
        if high > low and high % low == 0 and low % before == 0:
            yield Reading((Place(j, low // before, high // low),))


def _concat(view: OpView, held: Held) -> Readings | None:
    axis = view.int("axis")
    if all(place.dim != axis for place in held.values()):
        return None
    place = next(iter(held.values()))
    dims = [view.dims(i) for i in range(len(view.op.inputs)) if view.has(i)]
    alike = len({*held.values()}) == 1 and len({d[axis] for d in dims}) == 1
    if not alike and any(i not in held for i in range(len(view.op.inputs))):
        return Readings(reason="other rows stand beside the batch")
    outer = place.outer * len(dims) if alike else 0
    needs = {i: place for i in range(len(view.op.inputs)) if i not in held}
    if needs and place.count == 1:
        return Readings(reason="one other row stands beside a batch of one")
    return _one(replace(place, outer=outer), needs)


def _unit(view: OpView, place: Place) -> int:
    """Elements of a dimension that one whole batch takes."""
    return view.dims(0)[place.dim] // place.outer if place.outer else 0


_CUT = "the batch is cut at fixed rows"


def _split(view: OpView, held: Held) -> Readings | None:
    place, axis = held[0], view.int("axis")
    if place.dim != axis:
        return None
    pieces, unit = [t.dims[axis] for t in view.outputs], _unit(view, place)
    if unit and all(piece and piece % unit == 0 for piece in pieces):
        return Readings((Reading(tuple(replace(place, outer=p // unit) for p in pieces)),))
    share = place.count // len(pieces)
    even = place.outer == 1 and len({*pieces}) == 1 and share * len(pieces) == place.count
    if not even or share < 2:
        single = even and share == 1
        return Readings(reason="parts of one sample may be all samples" if single else _CUT)
    return Readings((Reading((replace(place, count=share),) * len(pieces)),))


def _slice(view: OpView, held: Held) -> Readings | None:
    place = held.get(0)
    if place is None or place.dim not in view.ints("axes"):
        return None
    cut, size = cuts(view)[place.dim], view.dims(0)[place.dim]
    if cut is None:
        turned = not view.has(1) and view.result()[place.dim] == size
        return _one(place) if turned and place.outer == 1 else Readings(reason=_CUT)
    unit = _unit(view, place)
    if not unit or cut.end <= cut.first or cut.step != 1 or cut.first % unit or cut.end % unit:
        return Readings(reason=_CUT)
    return _one(replace(place, outer=(cut.end - cut.first) // unit))


def _tile(view: OpView, held: Held) -> Readings | None:
    place = held[0]
    times = view.result()[place.dim] // max(1, view.dims(0)[place.dim])
    return None if times == 1 else _one(replace(place, outer=place.outer * times))


def _gather(view: OpView, held: Held) -> Readings | None:
    """Rows that each sample picks; a table of constants has to pick as many from every sample."""
    axis, table = view.int("axis"), held.get(0)
    if table is None or table.dim != axis:
        return None
    if 1 in held:
        return _one(replace(held[1], dim=axis + held[1].dim))
    blocks = view.ints("index_blocks")
    if not blocks or table.outer != 1 or blocks[1] % table.count:
        return Readings(reason="fixed rows of the batch are picked")
    place = Place(blocks[0], 1, table.count)
    return _one(replace(place, dim=axis + place.dim), {1: place})


def _gather_nd(view: OpView, held: Held) -> Readings | None:
    table, batch = held.get(0), view.int("batch_dims")
    if table is None or not batch <= table.dim < batch + view.dims(1)[-1]:
        return None
    if table.dim in view.ints("identity_coordinates")[::2]:
        return None
    if 1 not in held:
        return Readings(reason="fixed rows of the batch are picked")
    return _one(held[1])


def _scatter_nd(view: OpView, held: Held) -> Readings | None:
    """Rows that go where each sample says; fixed places are those of a sample where a coordinate
    counts the samples.
    """
    table, coordinates = held.get(0), view.dims(1)[-1]
    if table is not None and table.dim >= coordinates:
        return None
    pairs = view.ints("identity_coordinates")
    index_of = dict(zip(pairs[::2], pairs[1::2], strict=True))
    rows = held.get(1, held.get(2))
    if rows is None and table is not None and table.dim in index_of:
        rows = replace(table, dim=index_of[table.dim])
    if table is None and rows is not None and rows.dim >= len(view.dims(1)) - 1:
        return None
    if rows is not None and table is None:
        known = [dim for dim, index in index_of.items() if index == rows.dim]
        if not known and view.op.attributes.get("reduction") == "add":
            return None
        table = replace(rows, dim=known[0]) if known else None
    if rows is None or table is None or (1 not in held and table.dim not in index_of):
        return Readings(reason="fixed rows of the batch are written")
    wanted = {0: table, 1: rows, 2: rows}
    return _one(table, {i: place for i, place in wanted.items() if i not in held})


_MOVES: Mapping[object, Move] = MappingProxyType(
    {
        reshape_rule: _reshape, gather_nd_rule: _gather_nd, Resizing.JOINED: _concat,
        Resizing.APART: _split, Resizing.BOUNDS: _slice, Resizing.MULTIPLIED: _tile,
        Resizing.ROWS: _gather, Resizing.COORDINATES: _scatter_nd,
    }
)  # fmt: skip
"""By what the entry says of sizes, else by its rule."""
