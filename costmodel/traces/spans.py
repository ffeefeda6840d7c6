"""Stretches of time: how long any of them lasts, and how long two kinds last at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["own_seconds", "together_s", "union"]

Span = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time without overlaps, in order.

    >>> union([(3, 4), (0, 2), (1, 2.5)])
    [(0, 2.5), (3, 4)]
    """
    out: list[Span] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((begin, end))
    return out


def together_s(one: Sequence[Span], other: Sequence[Span]) -> float:
    """In which both run; each is a `union`.

    >>> together_s([(0, 2), (3, 5)], [(1, 4)])
    2.0
    """
    total, i, j = 0.0, 0, 0
    while i < len(one) and j < len(other):
        begin, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        total += max(0.0, end - begin)
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total


def own_seconds(calls: Sequence[tuple[float, float]]) -> list[float]:
    """Of calls of one thread, each a beginning and a duration, the time without calls inside.

    >>> own_seconds([(0.0, 10.0), (1.0, 4.0), (2.0, 1.0)])
    [6.0, 3.0, 1.0]
    """
    own = [duration for _, duration in calls]
    order = sorted(range(len(calls)), key=lambda i: (calls[i][0], -calls[i][1]))
    above: list[int] = []
    for i in order:
        begin, duration = calls[i]
        while above and sum(calls[above[-1]]) <= begin:
            above.pop()
        if above:
            own[above[-1]] -= duration
        above.append(i)
    return [max(0.0, each) for each in own]
