from __future__ import annotations

import pytest

from costmodel.collectives import Collective, CollectiveModel
from planner.whatif.axes import Place, of_place
from topology.catalogue import named_cluster
from topology.cluster import Cluster
from topology.mesh import tier_mesh

MACHINES = [named_cluster("atlas-800t-a2", 16), named_cluster("dgx-h100", 16)]


@pytest.mark.parametrize("cluster", MACHINES, ids=lambda c: c.name)
def test_factors_of_one_leave_the_machine_as_it_is(cluster: Cluster) -> None:
    assert cluster.scaled() == cluster
    assert of_place(cluster, Place((("devices", 16), ("latency", 1.0)))) == cluster


@pytest.mark.parametrize("cluster", MACHINES, ids=lambda c: c.name)
def test_each_factor_moves_its_numbers_alone(cluster: Cluster) -> None:
    fast = cluster.scaled(bandwidth=2.0)
    assert [t.bandwidth_bytes_per_s for t in fast.tiers] == [
        2 * t.bandwidth_bytes_per_s for t in cluster.tiers
    ]
    assert fast.chip == cluster.chip
    assert [t.latency_s for t in fast.tiers] == [t.latency_s for t in cluster.tiers]
    large = cluster.scaled(memory=1.5)
    assert large.chip.memory_bytes == round(1.5 * cluster.chip.memory_bytes)
    assert large.tiers == cluster.tiers
    quick = cluster.scaled(compute=3.0)
    assert quick.chip.peak_flops == {k: 3 * v for k, v in cluster.chip.peak_flops.items()}
    assert quick.chip.memory_bandwidth_bytes_per_s == cluster.chip.memory_bandwidth_bytes_per_s


@pytest.mark.parametrize("cluster", MACHINES, ids=lambda c: c.name)
def test_latency_moves_small_messages_and_bandwidth_large_ones(cluster: Cluster) -> None:
    mesh = tier_mesh(cluster)

    def time_s(machine: Cluster, nbytes: float) -> float:
        axes = tuple(range(len(mesh.axes)))
        return CollectiveModel(machine, mesh).time_s(Collective.ALL_REDUCE, nbytes, axes)

    for factor in (0.5, 4.0):
        slow = cluster.scaled(latency=factor)
        assert time_s(slow, 8.0) == pytest.approx(factor * time_s(cluster, 8.0), rel=0.02)
        narrow = cluster.scaled(bandwidth=1 / factor)
        assert time_s(narrow, 2.0**34) == pytest.approx(factor * time_s(cluster, 2.0**34), rel=0.1)
