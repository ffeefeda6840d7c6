"""Masks and indices are exchanged as what they are."""

from __future__ import annotations

import numpy as np
import pytest

from executors.exchange import exchanged
from executors.placement import spread, whole
from ir.layout import Layout
from topology.catalogue import named_cluster
from topology.mesh import prime_mesh

pytestmark = pytest.mark.fast

CUBE = prime_mesh(named_cluster("atlas-800-9000", 8), 3)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32"])
@pytest.mark.parametrize("target", [Layout(((), ())), Layout(((), (0, 1)))], ids=str)
def test_an_array_of_any_type_is_the_same_in_another_layout(dtype: str, target: Layout) -> None:
    array = np.random.default_rng(1).integers(0, 2, (8, 16)).astype(dtype)
    moved, _ = exchanged(spread(array, Layout(((0,), (2,))), CUBE), target, array.itemsize)
    assert {shard.dtype for shard in moved.shards} == {array.dtype}
    np.testing.assert_array_equal(whole(moved), array)
