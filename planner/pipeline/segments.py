"""The segments of a network: where it can be cut, and where it repeats.

Between cuts lie segments. In the stretch where their kinds repeat, one period more adds the same
every time, so long intervals need not be priced: their cost is affine in the number of periods.
Where nothing repeats often enough, the first of equal intervals stands for all; of L unlike
segments there are about L^2 / 2 intervals with a third of all operators each, so that fewer places
are cut there.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ir.graph import OpGraph
from ir.signatures import signature_of_all
from planner.constraints.degrees import is_part_of
from planner.lowering.liveness import Interval, Liveness
from planner.lowering.pieces import Cut, Span, cuts_of
from planner.request import RequestError

FEWEST_REPEATS = 5
"""Periods below which every interval is priced for itself."""
PERIOD_OPERATORS = 8
"""A period has at least so many: layouts may alternate from layer to layer where these are small,
so that two of them are what repeats."""
MOST_COMPARED = 256
"""Segments of which every interval is compared with the others."""
KEPT = 2
"""Periods that a shortened interval keeps at least."""
MOST_LOST = 2
"""Periods that marks may take from the stretch that repeats."""
BLOCK_OPERATORS = 4
"""Where nothing repeats, neighbouring segments of so many operators are a block."""


SMALL_NETWORK = 64
"""Operators up to which a network is cut anywhere, and solved exactly within its memory."""
APART = 2
"""Operators between cuts of a larger one: a single one weighs little."""
WIDEST_SEND = 4
"""A cut that sends more than so many times what half of the cuts send at most is left out."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a network, and where they repeat."""

    positions: tuple[int, ...]
    """Ends of the segments in the order of operators, the first 0: shape (L + 1,)."""
    kinds: tuple[int, ...]
    """Equal numbers for equal segments, shape (L,)."""
    period: int = 0
    """0 if nothing repeats."""
    run: Interval = (0, 0)
    """Segments in which it does."""
    first: Mapping[tuple[int, ...], Interval] = field(default_factory=dict, repr=False)
    """Where nothing repeats: of intervals whose segments are of equal kinds, the first."""

    @property
    def count(self) -> int:
        return len(self.kinds)

    @property
    def blocks(self) -> tuple[Interval, ...]:
        """What may be computed again as a whole, as ranges of operators: the periods of the run, or
        neighbouring segments where nothing repeats.
        """
        if self.period:
            steps = range(self.run[0], self.run[1] - self.period + 1, self.period)
            return tuple((self.positions[i], self.positions[i + self.period]) for i in steps)
        found: list[Interval] = []
        start = 0
        for end in self.positions[1:]:
            if end - start >= BLOCK_OPERATORS:
                found.append((start, end))
                start = end
        return tuple(found)

    def blocks_in(self, start: int, end: int) -> tuple[Interval, ...]:
        """The parts of blocks that lie between two operators, without parts of one operator."""
        parts = ((max(a, start), min(b, end)) for a, b in self.blocks)
        return tuple((a, b) for a, b in parts if b - a > 1)

    def span(self, interval: Interval, taken_out: int = 0, *, again: bool = False) -> Span:
        """The operators of an interval of segments, without some periods of the run in it.

        Args:
            interval: of segments.
            taken_out: periods.
            again: whether all blocks are computed again.
        """
        start, end = (self.positions[i] for i in interval)
        blocks = self.blocks_in(start, end) if again else ()
        if not taken_out:
            return Span(start, end, None, blocks)
        first = max(interval[0], self.run[0]) + (KEPT - 1) * self.period
        behind = first + taken_out * self.period
        return Span(start, end, (self.positions[first], self.positions[behind]), blocks)

    def shortened(self, interval: Interval) -> tuple[Interval, int]:
        """The interval that stands for all of its kind, and how many periods are to be taken out of
        it before it is priced.
        """
        start, end = interval
        if not self.period:
            return self.first.get(self.kinds[start:end], interval), 0
        spare = max(0, (min(end, self.run[1]) - max(start, self.run[0])) // self.period - KEPT)
        if start < self.run[0] and end > self.run[1]:
            return interval, spare
        length = end - start - spare * self.period
        if start < self.run[0]:
            return (start, start + length), spare
        if end > self.run[1]:
            return (end - length, end), spare
        phase = (start - self.run[0]) % self.period
        return (self.run[0] + phase, self.run[0] + phase + length), spare


def segments_of(
    liveness: Liveness, cuts: Sequence[Cut], marks: Mapping[str, Hashable] = MappingProxyType({})
) -> Segments:
    """The segments between some cuts.

    Args:
        liveness: of the network.
        cuts: between its segments.
        marks: by operator what tells it apart from one that is equal otherwise.
    """
    positions = (0, *(c.position for c in cuts), len(liveness.graph.ops))
    sent = {c.position: (*c.sent, *c.without_gradient) for c in cuts}
    known: dict[Hashable, int] = {}
    kinds: list[int] = []
    for start, end in itertools.pairwise(positions):
        kinds.append(known.setdefault(_kind(liveness, start, end, sent, marks), len(known)))
    period, run = _repeats(kinds)
    if period:
        operators = positions[run[0] + period] - positions[run[0]]
        period *= -(-PERIOD_OPERATORS // operators)
        if run[1] - run[0] < FEWEST_REPEATS * period:
            period, run = 0, (0, 0)
    first = {} if period else _first_of_equals(tuple(kinds))
    return Segments(positions, tuple(kinds), period, run, first)


def _first_of_equals(kinds: tuple[int, ...]) -> dict[tuple[int, ...], Interval]:
    """The first interval of every sequence of kinds that occurs more than once."""
    found: dict[tuple[int, ...], Interval] = {}
    if len(kinds) > MOST_COMPARED or len(set(kinds)) == len(kinds):
        return found
    for start, end in itertools.combinations(range(len(kinds) + 1), 2):
        found.setdefault(kinds[start:end], (start, end))
    return found


def told_apart(
    liveness: Liveness, cuts: Sequence[Cut], marks: Mapping[str, Hashable], *, always: bool
) -> tuple[Segments, bool]:
    """The segments where some operators are marked, and whether these are told apart.

    Marks that break up what repeats would leave too many intervals to be priced. Then equal layers
    stay equal, and what the marks stand for is left aside where intervals are priced.

    Args:
        liveness: of the network.
        cuts: between its segments.
        marks: by operator what tells it apart from one that is equal otherwise.
        always: the network is small.
    """
    plain = segments_of(liveness, cuts)
    if not marks:
        return plain, True
    own = segments_of(liveness, cuts, marks)
    lost = _length(plain.run) - _length(own.run)
    same = own.period == plain.period and lost <= MOST_LOST * plain.period
    return (own, True) if always or same else (plain, False)


def _length(run: Interval) -> int:
    return run[1] - run[0]


def _kind(
    liveness: Liveness,
    start: int,
    end: int,
    sent: Mapping[int, tuple[str, ...]],
    marks: Mapping[str, Hashable],
) -> Hashable:
    """Equal for segments that pricing cannot tell apart."""
    graph, number = liveness.graph, dict[str, int]()
    entering = tuple(number.setdefault(n, len(number)) for n in sent.get(start, ()))
    ops = signature_of_all(graph.ops[start:end], graph.tensors, number)
    leaving = tuple(number.get(n, -1) for n in sent.get(end, ()))
    with_gradient = tuple(i for n, i in number.items() if n in liveness.gradient)
    marked = tuple(marks.get(op.name) for op in graph.ops[start:end]) if marks else ()
    return entering, ops, leaving, with_gradient, end == len(graph.ops), marked


def _repeats(kinds: Sequence[int]) -> tuple[int, Interval]:
    """The shortest period of the longest stretch that repeats often enough."""
    best = (0, (0, 0))
    for period in range(1, len(kinds) // FEWEST_REPEATS + 1):
        start = 0
        for index in range(period, len(kinds) + 1):
            if index < len(kinds) and kinds[index] == kinds[index - period]:
                continue
            length = index - start
            if length >= FEWEST_REPEATS * period and length > best[1][1] - best[1][0]:
                best = (period, (start, index))
            start = index - period + 1
    return best


MOST_PRICED = 60_000
"""Operators of all intervals together, per unit of effort, beyond which places are left out."""
FEWEST_CUTS = 8
"""Places that are always kept."""


@dataclass(frozen=True, slots=True)
class CutNetwork:
    """Where a network is cut."""

    cuts: tuple[Cut, ...]
    segments: Segments
    apart: bool
    """See `told_apart`."""
    left_out: int
    """Places where it could be cut and is not."""

    @property
    def notes(self) -> tuple[str, ...]:
        """For the reader of a plan."""
        if not self.left_out:
            return ()
        kept = len(self.cuts)
        said = (
            f"stages begin at {kept} of {kept + self.left_out} places, as layers differ too much "
            "for all of them to be priced"
        )
        return (said,)


def cut_network(
    liveness: Liveness,
    cuts: Sequence[Cut],
    marks: Mapping[str, Hashable],
    *,
    always: bool,
    effort: int = 1,
    fewest: int = FEWEST_CUTS,
) -> CutNetwork:
    """The network cut at every place, or at one in so many that intervals can be priced.

    Args:
        liveness: of the network.
        cuts: all places.
        marks: see `told_apart`.
        always: likewise.
        effort: of the search.
        fewest: cuts that are kept in any case.
    """
    step = 1
    while True:
        kept = tuple(cuts[step - 1 :: step])
        segments, apart = told_apart(liveness, kept, marks, always=always)
        fewer = len(cuts[step :: step + 1])
        if fewer < fewest or priced_operators(segments) <= MOST_PRICED * effort:
            return CutNetwork(kept, segments, apart, len(cuts) - len(kept))
        step += 1


def priced_operators(segments: Segments) -> int:
    """Operators of all intervals that are unlike."""
    found: set[tuple[tuple[int, int], int]] = set()
    for start in range(segments.count):
        for end in range(start + 1, segments.count + 1):
            interval, spare = segments.shortened((start, end))
            found.add((interval, spare if interval == (start, end) else 0))
    spans = (segments.span(interval, out) for interval, out in found)
    return sum(end - start for span in spans for start, end in span.ranges)


def cuts_before(graph: OpGraph, cuts: Sequence[Cut], starts: Sequence[str]) -> tuple[Cut, ...]:
    """The last cut in front of each of some parts of a network.

    Args:
        graph: the network.
        cuts: places where it can be cut, in order.
        starts: scopes, in the order of the network.

    Raises:
        RequestError: there is no such part, or no cut between it and the one before.
    """
    found: list[Cut] = []
    for scope in starts:
        first = next((n for n, op in enumerate(graph.ops) if is_part_of(op, graph, scope)), 0)
        here = [cut for cut in cuts if cut.position <= first]
        if not here or (found and here[-1] == found[-1]):
            raise RequestError(
                f"the model cannot be cut in front of {scope}\n  at:  {scope}\n"
                "  fix: pass the model that the plan was made for, or leave the stages' layers out"
            )
        found.append(here[-1])
    return tuple(found)


def cuts_within(liveness: Liveness, starts: Sequence[str]) -> tuple[Cut, ...]:
    """Places where one activation with a gradient crosses; of those, the ones that send little, or
    those in front of the parts that are said.
    """
    graph = liveness.graph
    found = cuts_of(liveness, 1)
    if starts:
        return cuts_before(graph, found, starts)
    usual = sorted(cut.nbytes for cut in found)[len(found) // 2] if found else 0
    kept: list[Cut] = []
    for cut in found:
        apart = not kept or cut.position - kept[-1].position >= APART
        if cut.nbytes <= WIDEST_SEND * usual and (apart or len(graph.ops) <= SMALL_NETWORK):
            kept.append(cut)
    return tuple(kept)
