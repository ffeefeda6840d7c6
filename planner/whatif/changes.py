"""Where the plan becomes another one: between which points of a sweep, and where exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from planner.requests.errors import UserError
from planner.whatif.analysis import along
from planner.whatif.axes import FACTORS, Place, Value, is_count, position
from planner.whatif.sweep import Count, Point, Store, Watch, kept
from planner.whatif.tasks import Asked, Maker, Result
from planner.whatif.workbench import Engine

MOST_TURNS = 8
"""Changes in words between two points of a sweep of which each is found."""
_COUNTED = re.compile(r"\d+ tensors recomputed")
"""Where memory is scarce their number is another one at nearly every point."""


@dataclass(frozen=True, slots=True)
class Change:
    """Two neighbouring points with different plans."""

    axis: str
    place: Place
    """What they have in common."""
    before: Value
    after: Value
    plans: tuple[str, str]
    """Both plans in words, or why there is none."""
    exact: bool = False
    """Points between those of the sweep were searched until these two were next to one another."""


def changes(points: Sequence[Point]) -> tuple[Change, ...]:
    """Where along each axis the plan becomes another one.

    Along factors on the machine any difference counts; along sizes, where no two plans can be
    equal, a difference in words.
    """
    return tuple(_change(name, *pair) for name, *pair in _pairs(points))


def exact_changes(
    asked: Asked,
    points: Sequence[Point],
    share: float,
    engine: Engine,
    store: Store,
    watch: Watch = lambda _: None,
) -> tuple[Change, ...]:
    """The same with the place of each change: points between are searched by halving.

    The two values of a factor then differ by a share at most. Those of a size are neighbours among
    the multiples of what both points of the sweep and the devices can be divided by, so that each
    divides as well as the points of the sweep do. Where the words change several times between two
    points each change of them is found, unless they change back in between; of changes that the
    words do not tell the first.

    Args:
        asked: what was swept.
        points: of the sweep.
        share: how near the values of a factor are to one another.
        engine: who searches.
        store: what is known, and where answers are kept as they come.
        watch: is told how far it is.
    """
    return _Turns(asked, share, engine, store, watch).found(points)


def check_share(share: float) -> None:
    """Raise `UserError` for a share to which changes cannot be found."""
    if not 1e-9 <= share < 1:
        raise UserError(
            f"changes cannot be found to {share:g} of a value", f"--exact-changes {share:g}",
            "give a share such as 0.01",
        )  # fmt: skip


def _pairs(points: Sequence[Point]) -> Iterator[tuple[str, Point, Point]]:
    """Neighbours along an axis whose plans differ."""
    names = {name for point in points for name, _ in point.place.values}
    for name in sorted(names - {"cluster"}, key=position):
        for _, group in along(points, name):
            known = sorted(group, key=lambda p: float(p.place.get(name) or 0))
            yield from ((name, a, b) for a, b in pairwise(known) if _differ(name, a, b))


def _differ(name: str, one: Point, other: Point) -> bool:
    if one.place == other.place or one.result.status != other.result.status:
        return one.place != other.place
    if name in FACTORS:
        return one.result.signature != other.result.signature
    return _words(one.result) != _words(other.result)


def _words(result: Result) -> tuple[str, float]:
    """A plan in words; a larger batch in more micro-batches of the same size is no other plan."""
    count = result.micro_batches
    own = result.outline.replace(f", {count} micro-batches", "")
    return own, 0.0 if count == 1 else result.samples / count


def _differs_as(gap: _Gap, other: Point) -> bool:
    """Whether a point has another plan than the lower one of a gap, as its two points differ."""
    if gap.in_words:
        return _differ_in_words(gap.low, other)
    return _differ(gap.axis, gap.low, other)


def _differ_in_words(one: Point, other: Point) -> bool:
    pair = [(p.result.status, _rough(p.result)) for p in (one, other)]
    return pair[0] != pair[1]


def _rough(result: Result) -> tuple[str, float]:
    words, samples = _words(result)
    return _COUNTED.sub("tensors recomputed", words), samples


def _change(name: str, one: Point, other: Point) -> Change:
    words = (one.result.outline or one.result.status, other.result.outline or other.result.status)
    if words[0] == words[1]:
        words = (words[0], f"{words[1]}, in other places")
    return Change(name, one.place.without(name), _value(name, one), _value(name, other), words)


def _value(name: str, point: Point) -> Value:
    value = point.place.get(name)
    if value is None:
        raise KeyError(name)
    return value


@dataclass(frozen=True, slots=True)
class _Gap:
    """Two points between which the plan changes."""

    number: int
    """Of the pair of points of the sweep."""
    axis: str
    low: Point
    """With the plan that it has at first."""
    high: Point
    """With another one."""
    end: Point
    """The point of the sweep above."""
    step: int
    """Between whole numbers."""
    in_words: bool
    """Changes in words are sought."""
    turns: int
    """Changes that may still be found."""


class _Turns:
    def __init__(
        self, asked: Asked, share: float, engine: Engine, store: Store, watch: Watch
    ) -> None:
        self.share, self.engine, self.store, self.watch = share, engine, store, watch
        self.maker = Maker(asked)
        self.done = 0

    def found(self, points: Sequence[Point]) -> tuple[Change, ...]:
        """All changes in the order of the sweep, those of one pair by their values."""
        out: list[tuple[int, Change]] = []
        gaps: list[_Gap] = []
        for number, (name, one, other) in enumerate(_pairs(points)):
            if name != "devices":  # a machine has no other numbers of them between
                gaps.append(_gap(number, name, one, other))
            else:
                out.append((number, _change(name, one, other)))
        while gaps:
            middles = [self._middle(gap) for gap in gaps]
            searched = self._searched([middle for middle in middles if middle is not None])
            left: list[_Gap] = []
            for gap, middle in zip(gaps, middles, strict=True):
                if middle is not None:
                    left.append(_halved(gap, searched[middle]))
                    continue
                change = _change(gap.axis, gap.low, gap.high)
                out.append((gap.number, replace(change, exact=True)))
                left += self._rest(gap, out)
            gaps = left
        out.sort(key=lambda pair: (pair[0], float(pair[1].before)))
        return tuple(change for _, change in out)

    def _middle(self, gap: _Gap) -> Place | None:
        """The point between; `None` where both are next to one another."""
        low, high = (float(_value(gap.axis, p)) for p in (gap.low, gap.high))
        middle = math.sqrt(low * high)
        if is_count(gap.axis):
            whole = round(middle / gap.step) * gap.step
            whole = min(max(whole, int(low) + gap.step), int(high) - gap.step)
            return gap.low.place.at(gap.axis, whole) if low < whole < high else None
        if high <= low * (1 + self.share):
            return None
        return gap.low.place.at(gap.axis, float(f"{middle:.12g}"))

    def _rest(self, gap: _Gap, out: list[tuple[int, Change]]) -> Iterator[_Gap]:
        """What is left of a pair of points behind a change."""
        if not gap.in_words or not _differ_in_words(gap.high, gap.end):
            return
        if gap.turns > 1:
            yield replace(gap, low=gap.high, high=gap.end, turns=gap.turns - 1)
        else:
            out.append((gap.number, _change(gap.axis, gap.high, gap.end)))

    def _searched(self, places: Sequence[Place]) -> dict[Place, Point]:
        """Some points, searched where they are not known."""
        keys = {place: self.maker.key(place) for place in places}
        results = {**self.maker.known, **self.store.known(dict.fromkeys(keys.values()))}
        left = [self.maker.tasks[key] for key in dict.fromkeys(keys.values()) if key not in results]
        whole = self.done + len(left)
        for done in kept(self.maker.graphs, left, self.engine, self.store):
            results[done.key] = done.result
            self.done += 1
            self.watch(Count(self.done, 0, whole, "searches between points"))
        tasks = self.maker.tasks
        devices = {key: tasks[key].machine.cluster.devices for key in keys.values() if key in tasks}
        return {
            place: Point(place, key, devices.get(key, 0), results[key])
            for place, key in keys.items()
        }


def _halved(gap: _Gap, middle: Point) -> _Gap:
    if _differs_as(gap, middle):
        return replace(gap, high=middle)
    return replace(gap, low=middle)


def _gap(number: int, name: str, one: Point, other: Point) -> _Gap:
    in_words = _differ_in_words(one, other)
    return _Gap(number, name, one, other, other, _step(name, one, other), in_words, MOST_TURNS)


def _step(name: str, one: Point, other: Point) -> int:
    """Between whole numbers that divide as the two points do."""
    if not is_count(name):
        return 1
    low, high = (int(_value(name, point)) for point in (one, other))
    return math.gcd(low, high, max(one.devices, other.devices))
