"""Times as functions of bytes: pieces of straight lines.

Every algorithm of every protocol takes a latency and a time per byte. Whatever is made of them,
sums over tiers, the faster of two, what a library chooses at which size, is straight in pieces.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING", "Curve", "CurveTable", "lowest", "spliced", "upper", "winners"]

FloatArray: TypeAlias = NDArray[np.float64]
Amounts: TypeAlias = NDArray[np.float64] | NDArray[np.int64]
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds over bytes: `latencies_s[k] + slopes[k] * n` from `starts[k]` bytes on."""

    latencies_s: tuple[float, ...]
    """Seconds apart from the bytes, one for each piece."""

    slopes: tuple[float, ...]
    """Seconds per byte, one for each piece."""

    starts: tuple[float, ...] = (0.0,)
    """Bytes from which a piece holds, ascending; the first is 0."""

    @classmethod
    def line(cls, latency_s: float, seconds_per_byte: float) -> Curve:
        """One piece."""
        return cls((latency_s,), (seconds_per_byte,))

    @overload
    def time_s(self, nbytes: float, latency_scale: float = 1.0) -> float: ...

    @overload
    def time_s(self, nbytes: Amounts, latency_scale: float = 1.0) -> FloatArray: ...

    def time_s(self, nbytes: float | Amounts, latency_scale: float = 1.0) -> float | FloatArray:
        """Seconds, one per element of `nbytes`.

        Args:
            nbytes: a number or any array.
            latency_scale: share of a message that these bytes are, for tensors sent together in
                a bucket: they pay this share of the time of a message of `nbytes / latency_scale`.
        """
        if isinstance(nbytes, np.ndarray):
            amounts = nbytes.astype(np.float64)
            if len(self.starts) == 1:
                return np.asarray(self.latencies_s[0] * latency_scale + amounts * self.slopes[0])
            whole = _whole(amounts, latency_scale)
            pieces = np.searchsorted(np.array(self.starts), whole, side="right") - 1
            latencies, slopes = np.array(self.latencies_s)[pieces], np.array(self.slopes)[pieces]
            return np.asarray(latencies * latency_scale + amounts * slopes)
        piece = 0
        if len(self.starts) > 1:
            message = nbytes / latency_scale if latency_scale else math.inf if nbytes else 0.0
            piece = bisect_right(self.starts, message) - 1
        return self.latencies_s[piece] * latency_scale + nbytes * self.slopes[piece]

    def __add__(self, other: Curve) -> Curve:
        """One after the other, of the same bytes."""
        return _combined((self, other), _sum)

    def on_share(self, parts: float) -> Curve:
        """The same work on n / parts bytes, as a function of n."""
        return Curve(
            self.latencies_s,
            tuple(slope / parts for slope in self.slopes),
            tuple(start * parts for start in self.starts),
        )

    def times(self, count: float) -> Curve:
        """So many of them in turn."""
        latencies = tuple(count * latency for latency in self.latencies_s)
        return Curve(latencies, tuple(count * slope for slope in self.slopes), self.starts)

    def growing(self) -> Curve:
        """The same, but never longer than a larger message takes: a small one may be padded."""
        latencies, slopes, starts = [self.latencies_s[-1]], [self.slopes[-1]], [self.starts[-1]]
        for piece in reversed(range(len(self.starts) - 1)):
            first, last = self.starts[piece], self.starts[piece + 1]
            latency, slope = self.latencies_s[piece], self.slopes[piece]
            cap = latencies[-1] + slopes[-1] * starts[-1]
            if latency + slope * last > cap * (1 + _ROUNDING):
                reached = (cap - latency) / slope if slope > 0 else first
                bend = min(max(reached, first), last)
                latencies, slopes = [*latencies, cap], [*slopes, 0.0]
                starts.append(bend)
                if bend <= first:
                    starts[-1] = first
                    continue
            latencies, slopes, starts = [*latencies, latency], [*slopes, slope], [*starts, first]
        return Curve(tuple(latencies[::-1]), tuple(slopes[::-1]), tuple(starts[::-1]))


NOTHING = Curve.line(0.0, 0.0)
"""No time at all."""

_Line: TypeAlias = tuple[float, float]
_Pick: TypeAlias = Callable[[Sequence[_Line], float], _Line]


def lowest(curves: Iterable[Curve]) -> Curve:
    """The fastest at every size."""
    return _combined(tuple(curves), _least, crossings=True)


def upper(curves: Iterable[Curve]) -> Curve:
    """The slowest at every size."""
    return _combined(tuple(curves), _most, crossings=True)


def winners(expected: Sequence[Curve]) -> tuple[tuple[float, int], ...]:
    """From which bytes on which curve is the fastest, in ascending order; the first of equals."""
    found: list[tuple[float, int]] = []
    starts = sorted({start for curve in expected for start in curve.starts})
    for first, last in pairwise((*starts, math.inf)):
        lines = [_line_at(curve, first) for curve in expected]
        for left, right in pairwise((first, *_crossings(lines, first, last), last)):
            middle = _between(left, right)
            times = [latency + slope * middle for latency, slope in lines]
            best = times.index(min(times))
            if not found or found[-1][1] != best:
                found.append((left, best))
    return tuple(found)


def spliced(curves: Sequence[Curve], parts: Sequence[tuple[float, int]]) -> Curve:
    """One curve after the other: from so many bytes on the one of that number."""
    found: list[tuple[float, float, float]] = []
    for (first, index), (last, _) in pairwise((*parts, (math.inf, 0))):
        curve = curves[index]
        for k, start in enumerate(curve.starts):
            end = curve.starts[k + 1] if k + 1 < len(curve.starts) else math.inf
            if max(start, first) < min(end, last):
                found.append((max(start, first), curve.latencies_s[k], curve.slopes[k]))
    return Curve(*(tuple(each[k] for each in found) for k in (1, 2, 0)))


def _combined(curves: Sequence[Curve], pick: _Pick, *, crossings: bool = False) -> Curve:
    """The line picked between any two neighbouring starts or crossings of the curves."""
    if all(len(curve.starts) == 1 for curve in curves) and not crossings:
        lines = [(curve.latencies_s[0], curve.slopes[0]) for curve in curves]
        return Curve.line(*pick(lines, 0.0))
    starts = sorted({start for curve in curves for start in curve.starts})
    found: list[tuple[float, float, float]] = []
    for first, last in pairwise((*starts, math.inf)):
        lines = [_line_at(curve, first) for curve in curves]
        inner = _crossings(lines, first, last) if crossings else []
        for left, right in pairwise((first, *inner, last)):
            line = pick(lines, _between(left, right))
            if not found or found[-1][1:] != line:
                found.append((left, *line))
    return Curve(*(tuple(each[k] for each in found) for k in (1, 2, 0)))


def _between(left: float, right: float) -> float:
    """A size inside the interval, which may have no end."""
    return left + (min(right, 2 * left + 1.0) - left) / 2


def _line_at(curve: Curve, nbytes: float) -> _Line:
    piece = bisect_right(curve.starts, nbytes) - 1
    return curve.latencies_s[piece], curve.slopes[piece]


def _crossings(lines: Sequence[_Line], first: float, last: float) -> list[float]:
    """Sizes strictly between the two at which any two lines meet, ascending."""
    found = {
        (two[0] - one[0]) / (one[1] - two[1])
        for index, one in enumerate(lines)
        for two in lines[index + 1 :]
        if one[1] != two[1]
    }
    return sorted(size for size in found if first < size < last)


def _sum(lines: Sequence[_Line], _: float) -> _Line:
    return sum(latency for latency, _ in lines), sum(slope for _, slope in lines)


def _least(lines: Sequence[_Line], at: float) -> _Line:
    return min(lines, key=lambda line: line[0] + line[1] * at)


def _most(lines: Sequence[_Line], at: float) -> _Line:
    return max(lines, key=lambda line: line[0] + line[1] * at)


def _whole(amounts: FloatArray, latency_scale: FloatArray | float) -> FloatArray:
    """Bytes of the messages that the amounts are a share of."""
    if np.all(np.asarray(latency_scale) > 0):
        return np.asarray(amounts / latency_scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(amounts > 0, amounts / np.asarray(latency_scale), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class CurveTable:
    """Many curves as arrays, to price messages of many groups at once."""

    starts: FloatArray
    """Shape (curves, pieces); infinite behind the last piece."""

    latencies_s: FloatArray
    """Shape (curves, pieces)."""

    slopes: FloatArray
    """Shape (curves, pieces)."""

    _columns: tuple[FloatArray, ...] = field(repr=False)
    """Starts of the second, third, ... piece of every curve, each of shape (curves,)."""

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> CurveTable:
        """The curves, in order."""
        width = max((len(curve.starts) for curve in curves), default=1)
        starts = np.full((len(curves), width), np.inf)
        latencies, slopes = np.zeros_like(starts), np.zeros_like(starts)
        for row, curve in enumerate(curves):
            count = len(curve.starts)
            starts[row, :count] = curve.starts
            latencies[row, :count], slopes[row, :count] = curve.latencies_s, curve.slopes
        columns = tuple(np.ascontiguousarray(starts[:, k]) for k in range(1, width))
        return cls(starts, latencies, slopes, columns)

    def time_s(
        self,
        rows: NDArray[np.integer],
        nbytes: FloatArray,
        latency_scale: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Seconds of messages, each on the curve of its row; all of one shape.

        `latency_scale` as in `Curve.time_s`.
        """
        if not self._columns:
            line = self.latencies_s[rows, 0] * latency_scale + self.slopes[rows, 0] * nbytes
            return np.asarray(line)
        whole = _whole(nbytes, latency_scale)
        piece = rows * np.intp(self.starts.shape[1])
        for column in self._columns:
            piece = piece + (whole >= column[rows])
        latency, slope = self.latencies_s.ravel()[piece], self.slopes.ravel()[piece]
        return np.asarray(latency * latency_scale + slope * nbytes)
