"""Redistributions, and the collectives that the planner says MindSpore makes of them.

Run by the planner's Python. The file is a list of cases: the cuts of a tensor of DIMS, an order of
its dimensions, the cuts wanted after it, and [kind, ranks with rank 0, bytes] of each collective.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from costmodel.collectives import CollectiveModel
from costmodel.mindspore.redistribution import MindsporeRedistribution
from costmodel.redistribution import Shardable
from ir.layout import Layout
from topology.catalogue import named_cluster
from topology.mesh import Mesh, prime_mesh

DEVICES = 8
DIMS = (64, 64, 64)
CASES = 200
Cuts = tuple[int, ...]


def redistributions() -> Iterator[dict[str, Any]]:
    """Drawn from all strategies of three dimensions and all orders of them."""
    cluster = named_cluster("atlas-800t-a2", DEVICES)
    mesh = prime_mesh(cluster, 6)
    model = CollectiveModel(cluster, mesh)
    strategies = [c for c in itertools.product((1, 2, 4, 8), repeat=3) if math.prod(c) <= DEVICES]
    orders = list(itertools.permutations(range(3)))
    draw = random.Random(5)
    for number in range(CASES):
        cuts, wanted, order = draw.choice(strategies), draw.choice(strategies), draw.choice(orders)
        source = Layout(tuple(_layout(cuts, mesh).dims[dim] for dim in order))
        for all_to_all in (True, False):
            priced = MindsporeRedistribution(model, mesh, all_to_all)
            steps = priced.steps(Shardable(DIMS, "float32"), source, _layout(wanted, mesh))
            yield {
                "case": number,
                "cuts": cuts,
                "order": order,
                "wanted": wanted,
                "all_to_all": all_to_all,
                "collectives": [
                    [s.kind.value, _ranks(s.axes, mesh), s.nbytes] for s in steps if s.kind
                ],
            }


def _layout(cuts: Cuts, mesh: Mesh) -> Layout:
    """Axes go to dimensions in order, as MindSpore's device matrix has them."""
    axes = iter(range(len(mesh.sizes)))
    dims: list[tuple[int, ...]] = []
    for cut in cuts:
        mine: tuple[int, ...] = ()
        while math.prod(mesh.sizes[a] for a in mine) < cut:
            mine += (next(axes),)
        dims.append(mine)
    return Layout(tuple(dims))


def _ranks(axes: Sequence[int], mesh: Mesh) -> list[int]:
    places = itertools.product(*(range(n if a in axes else 1) for a, n in enumerate(mesh.sizes)))
    strides = [math.prod(mesh.sizes[a + 1 :]) for a in range(len(mesh.sizes))]
    return [sum(p * s for p, s in zip(place, strides, strict=True)) for place in places]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(list(redistributions())))
