import json
import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import (
    Cluster,
    ClusterError,
    Mesh,
    MeshAxis,
    cluster_names,
    grouped_meshes,
    named_cluster,
    prime_mesh,
    tier_mesh,
)
from topology.mesh import rank_groups, reordered_meshes


def _cluster(name: str, devices: int) -> Cluster:
    return named_cluster(name, devices)


_ODD = {"gb200-nvl72", "gb300", "tpu-v3"}
"""Racks of 72 GPUs do not divide 96, nor rows of 32 chips 48."""
NAMES = [name for name in cluster_names() if name not in _ODD]
CLUSTERS = st.builds(
    _cluster, st.sampled_from(NAMES), st.sampled_from([1, 2, 4, 8, 16, 48, 96, 768])
)


def _tier_products(mesh: Mesh, tiers: int) -> list[int]:
    return [
        math.prod(axis.size for axis in mesh.axes if axis.tier == tier) for tier in range(tiers)
    ]


def test_the_tier_mesh_has_one_axis_per_tier() -> None:
    assert str(tier_mesh(named_cluster("atlas-800-9000", 32))) == "server 4 x ring 2 x card 4"


@pytest.mark.parametrize(
    ("devices", "max_axes", "text"),
    [
        (16, 8, "server 2 x card0 2 x card1 2 x card2 2"),
        (96, 8, "server0 3 x server1 2 x server2 2 x card0 2 x card1 2 x card2 2"),
        (96, 5, "server0 6 x server1 2 x card0 2 x card1 2 x card2 2"),
        (96, 4, "server 12 x card0 2 x card1 2 x card2 2"),
        (96, 3, "server 12 x card0 4 x card1 2"),
        (96, 2, "server 12 x card 8"),
    ],
)
def test_primes_are_merged_from_the_outermost_until_they_fit(
    devices: int, max_axes: int, text: str
) -> None:
    assert str(prime_mesh(named_cluster("atlas-800t-a2", devices), max_axes)) == text


def test_grouped_meshes_start_with_the_tiers_and_are_all_ways() -> None:
    cluster = named_cluster("atlas-800t-a2", 16)
    assert [str(mesh) for mesh in grouped_meshes(cluster, 3)] == [
        "server 2 x card 8",
        "server 2 x card0 2 x card1 4",
        "server 2 x card0 4 x card1 2",
    ]
    assert len(grouped_meshes(cluster, 4)) == 4
    assert prime_mesh(cluster, 4) in grouped_meshes(cluster, 4)


@given(CLUSTERS, st.integers(3, 8))
def test_every_mesh_covers_every_tier_exactly(cluster: Cluster, axes: int) -> None:
    wanted = [tier.size for tier in cluster.tiers]
    meshes = (tier_mesh(cluster), prime_mesh(cluster, axes), *grouped_meshes(cluster, 3))
    for mesh in meshes:
        assert _tier_products(mesh, len(wanted)) == wanted
        assert mesh.size == cluster.devices
    assert len(meshes[1].axes) <= axes
    assert len(set(meshes[2:])) == len(meshes[2:])


@given(CLUSTERS, st.data())
def test_groups_partition_the_ranks_and_vary_only_their_axes(
    cluster: Cluster, draw: st.DataObject
) -> None:
    mesh = prime_mesh(cluster, 6)
    axes = tuple(sorted(draw.draw(st.sets(st.integers(0, len(mesh.axes) - 1)))))
    groups = rank_groups(mesh.sizes, axes)
    assert sorted(rank for group in groups for rank in group) == list(range(mesh.size))
    strides = [mesh.stride(axis) for axis in range(len(mesh.axes))]
    for group in groups[:4]:
        assert list(group) == sorted(group)
        for fixed in set(range(len(mesh.axes))) - set(axes):
            assert len({rank // strides[fixed] % mesh.sizes[fixed] for rank in group}) == 1


def test_strides_follow_row_major_ranks() -> None:
    mesh = prime_mesh(named_cluster("atlas-800t-a2", 16), 4)
    assert [mesh.stride(axis) for axis in range(4)] == [8, 4, 2, 1]
    assert rank_groups(mesh.sizes, (1, 3)) == (
        (0, 1, 4, 5),
        (2, 3, 6, 7),
        (8, 9, 12, 13),
        (10, 11, 14, 15),
    )
    assert mesh.axis_index("card1") == 2
    assert rank_groups(mesh.sizes, ()) == tuple((rank,) for rank in range(16))


def _is_legal_on_first_generation(group: tuple[int, ...]) -> bool:
    """MindSpore's check of a communication group on Ascend 910A (device manager)."""
    local = {
        server: [r % 8 for r in group if r // 8 == server] for server in {r // 8 for r in group}
    }
    patterns = {tuple(ranks) for ranks in local.values()}
    if len(patterns) > 1:
        return False
    ranks = patterns.pop()
    if len(ranks) == 4:
        halves = ranks[2] % 4 == ranks[0] % 4 and ranks[3] % 4 == ranks[1] % 4
        return ranks in {(0, 1, 2, 3), (4, 5, 6, 7)} or halves
    if len(ranks) == 2:
        return ranks[1] - ranks[0] == 4 or ranks[0] // 4 == ranks[1] // 4
    return len(ranks) in {1, 8}


def test_every_group_of_every_mesh_is_legal_on_first_generation_servers() -> None:
    mesh = prime_mesh(named_cluster("atlas-800-9000", 32), 8)
    for count in range(1, len(mesh.axes) + 1):
        for axes in combinations(range(len(mesh.axes)), count):
            assert all(map(_is_legal_on_first_generation, rank_groups(mesh.sizes, axes))), axes


@given(CLUSTERS)
def test_ranks_of_a_mesh_in_tier_order_are_the_devices(cluster: Cluster) -> None:
    mesh = prime_mesh(cluster, 8)
    assert mesh.rank_order() == tuple(range(cluster.devices))


def test_other_orders_of_ranks_turn_the_tiers_of_a_server() -> None:
    cluster = named_cluster("atlas-800-9000", 16)
    mesh = prime_mesh(cluster, 6)
    (turned,) = reordered_meshes(cluster, mesh)
    assert str(turned) == "server 2 x card0 2 x card1 2 x ring 2"
    assert turned.rank_order()[:8] == (0, 4, 1, 5, 2, 6, 3, 7)
    for axes in combinations(range(len(turned.axes)), 2):
        for group in rank_groups(turned.sizes, axes):
            places = tuple(sorted(turned.rank_order()[rank] for rank in group))
            assert _is_legal_on_first_generation(places)
    # Ranks of two servers must not interleave, and one tier has one order.
    flat = named_cluster("atlas-800t-a2", 16)
    assert reordered_meshes(flat, prime_mesh(flat, 6)) == ()


@given(CLUSTERS)
def test_every_order_of_ranks_has_every_device_once_and_the_same_groups(cluster: Cluster) -> None:
    mesh = prime_mesh(cluster, 8)
    names = [axis.name for axis in mesh.axes]
    for turned in reordered_meshes(cluster, mesh):
        order = turned.rank_order()
        assert sorted(order) == list(range(cluster.devices))
        for index, axis in enumerate(turned.axes):
            groups = {
                frozenset(order[rank] for rank in group)
                for group in rank_groups(turned.sizes, (index,))
            }
            own = rank_groups(mesh.sizes, (names.index(axis.name),))
            assert groups == set(map(frozenset, own))


@given(CLUSTERS)
def test_a_mesh_survives_json(cluster: Cluster) -> None:
    mesh = prime_mesh(cluster, 6)
    assert Mesh.of_rows(map(tuple, json.loads(json.dumps(mesh.rows)))) == mesh


def test_a_mesh_that_cannot_be_is_an_error() -> None:
    card = MeshAxis("card", 2, 1)
    for axes, fault in (
        ((), "at least one axis"),
        ((card, card), "axes named"),
        ((card, MeshAxis("server", 2, 0), MeshAxis("die", 2, 1)), "axes of tiers"),
        ((MeshAxis("server", 2, -1),), "axes of tiers"),
        ((MeshAxis("server", 0, 0),), "axes of sizes"),
    ):
        with pytest.raises(ClusterError, match=fault):
            Mesh(axes)
    with pytest.raises(ClusterError, match="use one of card"):
        Mesh((card,)).axis_index("cards")


def test_a_mesh_needs_an_axis_for_every_tier() -> None:
    cluster = named_cluster("atlas-800-9000", 16)
    for build in (prime_mesh, grouped_meshes):
        with pytest.raises(ClusterError, match="a mesh of 2 axes over 3 tiers"):
            build(cluster, 2)
