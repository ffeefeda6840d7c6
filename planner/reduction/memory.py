"""Memory that is in use whatever is chosen, and time points that cannot decide anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.problem import profile_bytes
from planner.reduction.network import (
    BoolArray,
    FloatArray,
    IntArray,
    Network,
    offsets,
    runs,
    summed,
)


def with_base(net: Network) -> Network:
    """The network with the least usage of every span in its base; spans without a choice are gone,
    and those of one node over the same time are one.
    """
    net = _joined(net)
    if not len(net.span_node):
        return net
    sizes = net.sizes[net.span_node]
    least = np.minimum.reduceat(net.usage, net.span_first[:-1])
    most = np.maximum.reduceat(net.usage, net.span_first[:-1])
    start, end = net.span_time.T
    stay = most > least
    left = net.usage - np.repeat(least, sizes)
    return replace(
        net,
        base=net.base + profile_bytes(start, end, least, net.time_points),
        span_node=net.span_node[stay],
        span_time=net.span_time[stay],
        span_first=offsets(sizes[stay]),
        usage=left[np.repeat(stay, sizes)],
    )


def _joined(net: Network) -> Network:
    start, end = net.span_time[:, 0], net.span_time[:, 1]
    order = np.lexsort((end, start, net.span_node))
    keys = np.stack([net.span_node, start, end], axis=1)[order]
    if not len(keys):
        return net
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    if new.all():
        return net
    group = np.empty(len(keys), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    kept = keys[new]
    first = offsets(net.sizes[kept[:, 0]])
    target = runs(first[group], net.sizes[net.span_node])
    return replace(
        net,
        span_node=kept[:, 0].copy(),
        span_time=kept[:, 1:].copy(),
        span_first=first,
        usage=summed(target, net.usage, int(first[-1])),
    )


def with_deciding_times(net: Network) -> Network:
    """The network at the time points alone that can exceed the limit and are part of no other.

    A point is part of its neighbour if all that is live at it is live there too, and its base is
    no larger.
    """
    if not net.time_points:
        return net
    kept = _maximal(net)
    most = np.maximum.reduceat(net.usage, net.span_first[:-1]) if len(net.span_node) else net.usage
    start, end = net.span_time.T
    highest = net.base + profile_bytes(start, end, most, net.time_points)
    return _at_points(net, kept & (highest > net.limit))


def _maximal(net: Network) -> BoolArray:
    """Points that are not part of another one near by."""
    points = net.time_points
    starts = np.bincount(net.span_time[:, 0], minlength=points + 1)[:points] > 0
    ends = np.bincount(net.span_time[:, 1], minlength=points + 1)[:points] > 0
    # Within a stretch in which nothing starts or ends only the highest base counts.
    stretch = np.cumsum(starts | ends)
    first = np.flatnonzero(np.diff(stretch, prepend=-1))
    lengths = np.diff(np.append(first, points))
    top = np.maximum.reduceat(net.base, first)
    is_top = net.base == np.repeat(top, lengths)
    place = np.flatnonzero(is_top)
    chosen = place[
        np.unique(np.repeat(np.arange(len(first)), lengths)[place], return_index=True)[1]
    ]
    grows, falls = starts[first], ends[first]
    kept = _undominated(top, grows, falls)
    out = np.zeros(points, dtype=bool)
    out[chosen[kept]] = True
    return out


def _undominated(top: FloatArray, grows: BoolArray, falls: BoolArray) -> IntArray:
    """Stretches, in order, of which no neighbour holds all that is live and as much base.

    Args:
        top: highest base of each stretch.
        grows: whether something starts at its beginning.
        falls: whether something ends there.
    """
    kept: list[int] = []
    # What ended, and what started, since the last stretch that was kept.
    ended = started = False
    for here in range(len(top)):
        if not kept:
            kept.append(here)
            ended = started = False
            continue
        ended, started = ended or bool(falls[here]), started or bool(grows[here])
        last = kept[-1]
        if not started and top[here] <= top[last]:
            continue
        if not ended and top[last] <= top[here]:
            kept[-1] = here
        else:
            kept.append(here)
        ended = started = False
    return np.array(kept, dtype=np.int64)


def _at_points(net: Network, kept: BoolArray) -> Network:
    number = np.concatenate([[0], np.cumsum(kept)])
    times = number[net.span_time]
    stay = times[:, 0] < times[:, 1]
    sizes = net.sizes[net.span_node]
    return replace(
        net,
        base=net.base[kept],
        span_node=net.span_node[stay],
        span_time=times[stay],
        span_first=offsets(sizes[stay]),
        usage=net.usage[np.repeat(stay, sizes)],
    )
