"""Max-min fair rates of tasks that share resources, each in a fixed proportion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costmodel.simulation.task_graph import Use

_ROOM = 1e-12
"""A resource with less of its capacity left is full."""


def fair_rates(uses: Mapping[int, Sequence[Use]], capacity: Sequence[float]) -> dict[int, float]:
    """Rate of every task, 1 at most: all grow together until something that they use is full.

    Args:
        uses: by task, what it takes at rate 1.
        capacity: of each resource.

    >>> fair_rates({1: [Use(0, 1.0)], 2: [Use(0, 1.0)], 3: [Use(1, 0.5)]}, [1.0, 1.0])
    {1: 0.5, 2: 0.5, 3: 1.0}

    Source: Bertsekas and Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2.
    """
    growing = dict(uses)
    rates = dict.fromkeys(uses, 1.0)
    left = {use.resource: capacity[use.resource] for own in uses.values() for use in own}
    level = 0.0
    while growing:
        demand = dict.fromkeys(left, 0.0)
        for own in growing.values():
            for use in own:
                demand[use.resource] += use.share
        step = min((left[r] / d for r, d in demand.items() if d > 0), default=1.0)
        if level + step >= 1.0:
            break
        level += step
        for resource, wanted in demand.items():
            left[resource] -= step * wanted
        full = {r for r, d in demand.items() if d > 0 and left[r] <= _ROOM * capacity[r]}
        for task in [t for t, own in growing.items() if any(u.resource in full for u in own)]:
            rates[task] = level
            del growing[task]
    return rates
