"""Fewer places to cut where layers do not repeat: then every interval between two is priced apart.

Of L unlike segments there are about L^2 / 2 intervals with a third of all operators each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from planner.liveness import Liveness
from planner.stages.cuts import Cut
from planner.stages.folding import Segments, told_apart

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
