"""Small networks, drawn, and their best choice by trying all."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from planner.reduction.network import Network
from planner.requests.instances import network_of

NEVER = 10**18


@st.composite
def records(draw: st.DrawFn, *, loose: bool = False) -> dict[str, object]:
    """An instance as it stands in a file: few nodes, forbidden pairs, parallel edges, a limit."""
    nodes = draw(st.integers(1, 6))
    sizes = [draw(st.integers(1, 4)) for _ in range(nodes)]
    numbers = np.random.default_rng(draw(st.integers(0, 10**6)))
    forbidden = draw(st.sampled_from([0.0, 0.2, 0.6]))
    pairs = [sorted(numbers.choice(nodes, 2, replace=False).tolist(), reverse=bool(k % 2))
             for k in range(draw(st.integers(0, 8)) if nodes > 1 else 0)]  # fmt: skip
    costs = [numbers.integers(0, 20, k).tolist() for k in sizes]
    matrices = []
    for u, v in pairs:
        matrix = numbers.integers(0, 20, sizes[u] * sizes[v])
        if draw(st.booleans()) and sizes[u] <= sizes[v]:
            follow = np.full((sizes[u], sizes[v]), NEVER)
            follow[np.arange(sizes[u]), numbers.integers(0, sizes[v], sizes[u])] = 3
            matrix = follow.ravel()
        matrix = np.where(numbers.random(matrix.shape) < forbidden / 3, NEVER, matrix)
        matrices.append(matrix.tolist())
    starts = numbers.integers(0, 6, nodes)
    intervals = [[int(s), int(s + numbers.integers(0, 5))] for s in starts]
    usages = [numbers.integers(0, 10, k).tolist() for k in sizes]
    limit = 10**6 if loose else draw(st.integers(0, 40))
    return {
        "problem": {
            "name": "drawn",
            "nodes": {"intervals": intervals, "costs": costs, "usages": usages},
            "edges": {"nodes": pairs, "costs": matrices},
            "usage_limit": limit,
        }
    }


def networks(*, loose: bool = False) -> st.SearchStrategy[Network]:
    """Networks of such instances."""
    return records(loose=loose).map(network_of)


def best_by_trying(net: Network) -> float:
    """The least cost of a feasible choice; infinite if there is none."""
    choices = itertools.product(*(range(k) for k in net.sizes.tolist()))
    return min((net.evaluate(c) for c in choices if net.is_feasible(c)), default=np.inf)
