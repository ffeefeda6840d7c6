"""Redistributions of the free dialect, carried out on devices, and against an exhaustive search."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from costmodel.collectives import Collective, CollectiveModel
from costmodel.layout_moves import all_layouts
from costmodel.redistribution import UNREACHABLE_S, Redistribution, Shardable
from executors.exchange import Communication, exchanged
from executors.placement import Spread, difference, disagreement, spread, whole
from ir.layout import Layout
from topology.catalogue import named_cluster
from topology.mesh import Mesh, prime_mesh, tier_mesh

CLUSTER = named_cluster("atlas-800-9000", 8)
CUBE = prime_mesh(CLUSTER, 3)
DIMS = {1: (8,), 2: (8, 16), 3: (8, 8, 8)}
UNEVEN = {1: (15,), 2: (15, 16), 3: (15, 8, 8)}
PAIRS = 300
"""Of each rank; `--operator-candidates` above 20 tries all of ranks 1 and 2."""
Moves = Iterator[tuple[Collective | None, tuple[int, ...], float, Layout]]


def terms(dims: tuple[int, ...], layout: Layout, mesh: Mesh, draw: random.Random) -> Spread:
    """A tensor whose terms are all noise."""
    noise = np.random.default_rng(draw.randrange(1 << 30))
    parts = [
        spread(noise.uniform(-1, 1, dims), Layout(layout.dims), mesh)
        for _ in range(math.prod(mesh.sizes[a] for a in layout.partial))
    ]
    places = list(itertools.product(*(range(n) for n in mesh.sizes)))
    shards = []
    for rank, place in enumerate(places):
        term = 0
        for axis in layout.partial:
            term = term * mesh.sizes[axis] + place[axis]
        shards.append(parts[term].shards[rank])
    return replace(parts[0], layout=layout, shards=tuple(shards))


def test_the_cube_has_three_axes_of_two() -> None:
    assert CUBE.sizes == (2, 2, 2)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("uneven", "eager"), [(False, False), (True, False), (False, True)], ids=str
)
def test_every_step_moves_what_it_is_charged_for(
    rank: int, uneven: bool, eager: bool, request: pytest.FixtureRequest
) -> None:
    dims = (UNEVEN if uneven else DIMS)[rank]
    model = CollectiveModel(CLUSTER, CUBE)
    found = Redistribution(model, CUBE, 0.3 if uneven else 0.0, eager_sums=eager)
    tensor = Shardable(dims, "float64")
    fine = found.valid(tensor)
    layouts = [x for x, ok in zip(found.space(rank).layouts, fine, strict=True) if ok]
    pairs = list(itertools.product(layouts, repeat=2))
    draw = random.Random(rank)
    if not (rank < 3 and int(request.config.getoption("--operator-candidates")) > 20):
        pairs = draw.sample(pairs, min(PAIRS, len(pairs)))
    moved = 0
    for source, target in pairs:
        held = terms(dims, source, CUBE, draw)
        wanted = whole(held)
        steps = found.steps(tensor, source, target)
        charged = float(found.pair_time_s(tensor, [source], [target])[0, 0])
        assert sum(step.time_s for step in steps) == pytest.approx(charged)
        for step in steps:
            held, sent = exchanged(held, step.result, 8)
            planned = (
                Communication(step.kind.value, tuple(sorted(step.axes)), round(step.nbytes))
                if step.kind
                else None
            )
            assert sent == planned, (source, target, step)
            moved += sent is not None
        assert held.layout == target
        assert difference(whole(held), wanted) < 1e-12
        assert disagreement(held) < 1e-12
    assert moved > len(pairs) / 2


def test_eager_sums_are_completed_before_anything_else() -> None:
    found = Redistribution(CollectiveModel(CLUSTER, CUBE), CUBE, eager_sums=True)
    tensor = Shardable((8, 16), "float64")
    reductions = {Collective.ALL_REDUCE, Collective.REDUCE_SCATTER}
    pairs = itertools.product(found.space(2).layouts, repeat=2)
    for source, target in random.Random(5).sample(list(pairs), PAIRS):
        here, steps = source, found.steps(tensor, source, target)
        for number, step in enumerate(steps):
            assert not here.partial or step.kind in reductions or number == len(steps) - 1
            new_terms = set(step.result.partial) - set(here.partial)
            assert not new_terms or (number == len(steps) - 1 and step.kind is None)
            here = step.result
        assert here == target


def primitive_moves(layout: Layout, mesh: Mesh) -> Moves:
    """Kind, axes, bytes over those of the source, and the layout that a move leaves."""
    used = {*layout.split_axes, *layout.partial}
    for axis, dim in itertools.product(range(len(mesh.sizes)), range(len(layout.dims))):
        if axis not in used:
            yield None, (axis,), 0.0, with_axes(layout, dim, (axis,))
    for dim, held in enumerate(layout.dims):
        for keep in range(len(held)):
            yield from moves_of_tail(layout, dim, keep, mesh)
    for number in range(1, len(layout.partial) + 1):
        for axes in itertools.combinations(layout.partial, number):
            done = Layout(layout.dims, tuple(a for a in layout.partial if a not in axes))
            yield Collective.ALL_REDUCE, axes, 1.0, done
            for dim in range(len(layout.dims)):
                yield Collective.REDUCE_SCATTER, axes, 1.0, with_axes(done, dim, axes)


def moves_of_tail(layout: Layout, dim: int, keep: int, mesh: Mesh) -> Moves:
    """The inner axes of a dimension are gathered, or go to another one."""
    held = layout.dims[dim]
    tail = held[keep:]
    shorter = Layout((*layout.dims[:dim], held[:keep], *layout.dims[dim + 1 :]), layout.partial)
    yield Collective.ALL_GATHER, tail, float(math.prod(mesh.sizes[a] for a in tail)), shorter
    if len({mesh.axes[a].tier for a in tail}) == 1:
        for other in set(range(len(layout.dims))) - {dim}:
            yield Collective.ALL_TO_ALL, tail, 1.0, with_axes(shorter, other, tail)


def with_axes(layout: Layout, dim: int, axes: tuple[int, ...]) -> Layout:
    return Layout(
        (*layout.dims[:dim], (*layout.dims[dim], *axes), *layout.dims[dim + 1 :]), layout.partial
    )


def cheapest(
    source: Layout, dims: tuple[int, ...], mesh: Mesh, *, eager: bool
) -> dict[Layout, float]:
    """Least seconds to every layout, by Dijkstra's algorithm over the primitive moves; where sums
    are eager, of terms only reductions.
    """
    reductions = {Collective.ALL_REDUCE, Collective.REDUCE_SCATTER}
    model = CollectiveModel(CLUSTER, mesh)
    best: dict[Layout, float] = {}
    heap = [(0.0, 0, source)]
    number = itertools.count(1)
    while heap:
        cost, _, layout = heapq.heappop(heap)
        if layout in best:
            continue
        best[layout] = cost
        local = 8 * math.prod(layout.local_dims(dims, mesh.sizes))
        for kind, axes, factor, result in primitive_moves(layout, mesh):
            if any(d % n for d, n in zip(dims, result.shards(mesh.sizes), strict=True)):
                continue
            if eager and layout.partial and kind not in reductions:
                continue
            step = float(model.time_s(kind, local * factor, axes)) if kind else 0.0
            heapq.heappush(heap, (cost + step, next(number), result))
    return best


@pytest.mark.parametrize("mesh", [tier_mesh(CLUSTER), CUBE], ids=["tiers", "cube"])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("eager", [False, True])
def test_no_sequence_of_primitive_steps_is_cheaper(mesh: Mesh, rank: int, eager: bool) -> None:
    dims = (8, 16)[:rank]
    found = Redistribution(CollectiveModel(CLUSTER, mesh), mesh, 0.0, eager_sums=eager)
    tensor = Shardable(dims, "float64")
    layouts = all_layouts(rank, len(mesh.sizes))
    sources = random.Random(rank).sample(layouts, min(12, len(layouts)))
    table = found.pair_time_s(tensor, sources, layouts)
    for row, source in zip(table, sources, strict=True):
        least = cheapest(source, dims, mesh, eager=eager)
        for target, charged in zip(layouts, row, strict=True):
            if target in least:
                assert charged <= least[target] * (1 + 1e-9) + 1e-15
            if charged < UNREACHABLE_S and not target.partial:
                assert target in least
