from dataclasses import replace

import pytest

from costmodel.collectives import Collective, CollectiveModel, forced
from costmodel.collectives.hccl import level_1_algorithm
from topology import ClusterError, named_cluster, tier_mesh
from topology.cluster import Cluster

pytestmark = pytest.mark.fast

AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER
BOTH = (0, 1)


def model(cluster: Cluster) -> CollectiveModel:
    return CollectiveModel(cluster, tier_mesh(cluster))


@pytest.mark.parametrize(
    ("generation", "servers", "algorithm"),
    [
        ("910a", 2, "halving_doubling"),
        ("910a", 3, "ring"),
        ("910a", 6, "ring"),
        ("910a", 9, "halving_doubling"),
        ("910b", 2, "ring"),
        ("910b", 3, "ring"),
        ("910b", 4, "nhr"),
        ("910b", 300, "nhr"),
        ("910c", 4, "nhr"),
        ("910c", 6, "ring"),
    ],
)
def test_between_servers(generation: str, servers: int, algorithm: str) -> None:
    """Source: HCCL's defaults and the chooser of its open part."""
    assert level_1_algorithm(generation, servers) == algorithm


def test_a_gather_over_two_levels_sends_whole_vectors_between_servers() -> None:
    cluster = named_cluster("atlas-800-9000", 16)
    of = model(cluster)
    server, inside = (0,), (1, 2)
    n = 1e8
    parts = of.time_s(AG, n, server) + of.time_s(AG, n / 2, inside)
    assert of.time_s(AG, n, (0, 1, 2)) == pytest.approx(parts)
    shares = of.time_s(AR, n / 8, server) + of.time_s(RS, n, inside) + of.time_s(AG, n, inside)
    assert of.time_s(AR, n, (0, 1, 2)) == pytest.approx(shares)


def test_the_second_generation_pipelines_what_is_large() -> None:
    cluster = named_cluster("atlas-800t-a2", 32)
    of, plain = model(cluster), model(replace(cluster, library=None))
    server, card = cluster.tiers
    n = 1e9
    slower = max(1 / server.bandwidth_bytes_per_s, 1 / card.bandwidth_bytes_per_s)
    piece = n / 32
    expected = 3 * (server.latency_s + piece * slower) + card.latency_s
    expected += piece / card.bandwidth_bytes_per_s
    assert of.time_s(AG, n, BOTH) == pytest.approx(expected)
    assert of.time_s(AR, n, BOTH) == pytest.approx(2 * expected)
    # The first byte beyond the threshold is not cheaper by more than padding allows.
    below, above = (of.time_s(AG, x, BOTH) for x in (32 * 2**10 - 1, 32 * 2**10))
    assert below <= above
    # Both levels work at once, where one would wait for the other.
    assert of.time_s(AG, n, BOTH) < plain.time_s(AG, n, BOTH)


def test_one_algorithm_can_be_forced_for_a_tier() -> None:
    cluster = named_cluster("atlas-800t-a2", 64)
    tier = cluster.tiers[0]
    ring = model(forced(cluster, "server", "ring")).time_s(AR, 8.0, (0,))
    nhr = model(forced(cluster, "server", "nhr")).time_s(AR, 8.0, (0,))
    assert ring - nhr == pytest.approx((14 - 6) * tier.latency_s)
    assert model(cluster).time_s(AR, 8.0, (0,)) == nhr
    with pytest.raises(ClusterError, match="no algorithm 'best'"):
        forced(cluster, "server", "best")
    with pytest.raises(ClusterError, match="no tier 'leaf'"):
        forced(cluster, "leaf", "ring")


def test_a_plan_file_keeps_a_forced_algorithm_and_the_library() -> None:
    cluster = forced(named_cluster("dgx-h100", 16), "card", "ring/simple")
    again = Cluster.from_dict(cluster.to_dict())
    assert again == cluster
    assert again.tiers[1].algorithm == "ring/simple"
    assert again.library is not None
    assert cluster.library is not None
    assert again.library.constants == cluster.library.constants
