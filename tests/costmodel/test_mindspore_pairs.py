"""Pairs of layouts that are worked out together are what each of them is alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import costmodel.mindspore.pairs
from costmodel.collectives import CollectiveModel
from costmodel.layout_moves import all_layouts
from costmodel.mindspore.redistribution import MindsporeRedistribution
from costmodel.redistribution import Shardable
from ir.layout import Layout
from topology.catalogue import named_cluster
from topology.mesh import prime_mesh

pytestmark = pytest.mark.fast

CLUSTER = named_cluster("atlas-800t-a2", 16)
MESH = prime_mesh(CLUSTER, 6)
MATRICES = tuple(x for x in all_layouts(2, len(MESH.axes)) if not x.partial)[::17]
CUBES = tuple(x for x in all_layouts(3, len(MESH.axes)) if not x.partial)[::97]
SMALL, LARGE = (Shardable((n, n), "float32") for n in (64, 4096))


def made(*, all_to_all: bool = True) -> MindsporeRedistribution:
    return MindsporeRedistribution(CollectiveModel(CLUSTER, MESH), MESH, all_to_all)


def alone_s(tensor: Shardable, source: Layout, target: Layout, *, all_to_all: bool) -> float:
    """The sum of the steps that are told one by one."""
    steps = made(all_to_all=all_to_all).steps(tensor, source, target)
    return sum(step.time_s for step in steps)


@pytest.mark.parametrize("all_to_all", [False, True])
def test_a_table_has_the_steps_of_every_pair(*, all_to_all: bool) -> None:
    model = made(all_to_all=all_to_all)
    model.prepare([(MATRICES, MATRICES), (CUBES, CUBES)])
    cube = Shardable((64, 64, 64), "bfloat16")
    for tensor, layouts in ((SMALL, MATRICES), (LARGE, MATRICES), (cube, CUBES)):
        table = model.pair_time_s(tensor, layouts, layouts)
        places = itertools.product(range(len(layouts)), repeat=2)
        for i, j in itertools.islice(places, 0, None, 7):
            expected = alone_s(tensor, layouts[i], layouts[j], all_to_all=all_to_all)
            assert table[i, j] == pytest.approx(expected, rel=1e-12)


def test_what_was_prepared_before_does_not_matter() -> None:
    together, later = made(), made()
    together.prepare([(MATRICES[:20], MATRICES[10:]), (MATRICES[5:], MATRICES[:9])])
    for sources, targets in ((MATRICES[5:], MATRICES[:9]), (MATRICES[:20], MATRICES[10:])):
        first = later.pair_time_s(SMALL, list(sources), list(targets))
        assert (first == together.pair_time_s(SMALL, sources, targets)).all()
        # Other sequences are known by now; earlier prices still hold.
        assert (first == later.pair_time_s(SMALL, sources, targets)).all()


def test_pairs_beyond_the_most_at_once_are_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made().pair_time_s(LARGE, MATRICES, MATRICES)
    monkeypatch.setattr(costmodel.mindspore.pairs, "MAX_PAIRS", 5)
    assert np.array_equal(made().pair_time_s(LARGE, MATRICES, MATRICES), whole)
