import math
import pickle
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from costmodel import Collective, CollectiveModel
from topology import (
    Cluster,
    ClusterError,
    cluster_names,
    named_chip,
    named_cluster,
    prime_mesh,
    tier_mesh,
)
from topology.cluster import Tier, TierKind

AG, RS, AR = Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_REDUCE
A2A, BROADCAST = Collective.ALL_TO_ALL, Collective.BROADCAST
MB = 1e6

Axes: TypeAlias = tuple[int, ...]
Group: TypeAlias = tuple[CollectiveModel, Axes]


def _model(name: str, devices: int, max_axes: int = 8) -> CollectiveModel:
    cluster = named_cluster(name, devices)
    return CollectiveModel(cluster, prime_mesh(cluster, max_axes))


def _uncapped(cluster: Cluster) -> Cluster:
    tiers = tuple(replace(tier, shared_capacity_bytes_per_s=None) for tier in cluster.tiers)
    return replace(cluster, tiers=tiers)


def _by_tier(cluster: Cluster) -> CollectiveModel:
    return CollectiveModel(cluster, tier_mesh(cluster))


def _bandwidth_time_s(model: CollectiveModel, kind: Collective, nbytes: float, axes: Axes) -> float:
    return model.time_s(kind, nbytes, axes, latency_scale=0.0)


MODELS = st.builds(
    _model,
    st.sampled_from([name for name in cluster_names() if name != "tpu-v3"]),
    st.sampled_from([1, 2, 4, 8, 16, 48, 64]),
    st.sampled_from([3, 5, 8]),
)
KINDS = st.sampled_from(Collective)
BYTES = st.floats(0, 1e12)


@st.composite
def _groups(draw: st.DrawFn) -> Group:
    model = draw(MODELS)
    axes = draw(st.sets(st.integers(0, len(model.mesh.axes) - 1)))
    return model, tuple(sorted(axes))


# Worked numbers for first-generation Ascend servers: 30 GB/s HCCS links, 19.3 GB/s of DMA over
# PCIe, 12 GB/s of RDMA. Without latencies, as they were worked by hand.


def test_all_reduce_in_one_ring_of_four() -> None:
    model = _by_tier(named_cluster("atlas-800-9000", 4))
    assert _bandwidth_time_s(model, AR, 64 * MB, (0,)) == pytest.approx(1.07e-3, rel=0.02)


@pytest.mark.parametrize(("capped", "expected_s"), [(False, 1.45e-3), (True, 1.75e-3)])
def test_all_reduce_over_a_whole_server_runs_in_four_rings(capped: bool, expected_s: float) -> None:
    cluster = named_cluster("atlas-800-9000", 8)
    model = _by_tier(cluster if capped else _uncapped(cluster))
    assert _bandwidth_time_s(model, AR, 64 * MB, (0, 1)) == pytest.approx(expected_s, rel=0.02)
    (latency_s,) = model.curve(AR, (0, 1)).latencies_s
    assert latency_s == pytest.approx(2 * 7 * 2.5e-6)


@pytest.mark.parametrize(("capped", "expected_s"), [(False, 25.9e-3), (True, 31.3e-3)])
def test_all_reduce_of_pairs_shares_the_path_between_the_rings(
    capped: bool, expected_s: float
) -> None:
    cluster = named_cluster("atlas-800-9000", 8)
    model = _by_tier(cluster if capped else _uncapped(cluster))
    assert _bandwidth_time_s(model, AR, 500 * MB, (0,)) == pytest.approx(expected_s, rel=0.02)


def test_all_reduce_of_two_servers_has_a_port_per_card() -> None:
    model = _by_tier(named_cluster("atlas-800-9000", 16))
    assert _bandwidth_time_s(model, AR, 500 * MB, (0,)) == pytest.approx(41.7e-3, rel=0.02)


def test_all_reduce_of_pairs_on_two_servers_is_hierarchical() -> None:
    model = _by_tier(_uncapped(named_cluster("atlas-800-9000", 16)))
    hierarchical_s = _bandwidth_time_s(model, AR, 500 * MB, (0, 1))
    assert hierarchical_s == pytest.approx(46.7e-3, rel=0.02)
    flat = _by_tier(named_cluster("atlas-800-9000", 32))
    assert _bandwidth_time_s(flat, AR, 500 * MB, (0,)) == pytest.approx(62.5e-3, rel=0.02)


# Measurements.


@pytest.mark.parametrize(
    ("kind", "cards", "algorithm_bandwidth_gb_per_s"),
    [(AG, 2, 38), (AG, 4, 64), (AG, 8, 149), (AR, 2, 18), (AR, 4, 30), (AR, 8, 72)],
)
def test_collectives_of_ascend_910b_agree_with_measurements(
    kind: Collective, cards: int, algorithm_bandwidth_gb_per_s: float
) -> None:
    """Source: limulidae benchmark README, 8 x 910B, large messages."""
    model = _by_tier(named_cluster("atlas-800t-a2", cards))
    predicted = 1024 * MB / model.time_s(kind, 1024 * MB, (0,)) / 1e9
    assert predicted == pytest.approx(algorithm_bandwidth_gb_per_s, rel=0.35)


@pytest.mark.parametrize(
    ("kind", "cards", "nbytes", "measured_s"),
    [
        (AG, 2, 1 << 20, 19.95e-6),
        (AG, 2, 1 << 24, 93.44e-6),
        (AG, 2, 1 << 28, 939.0e-6),
        (AG, 4, 1 << 24, 118.5e-6),
        (AG, 4, 1 << 29, 2102.0e-6),
        (AG, 8, 1 << 20, 26.79e-6),
        (AG, 8, 1 << 24, 135.0e-6),
        (AG, 8, 1 << 27, 660.3e-6),
        (AR, 2, 1 << 27, 747.5e-6),
        (AR, 4, 1 << 24, 183.5e-6),
    ],
)
def test_collectives_of_dgx_a100_agree_with_measurements(
    kind: Collective, cards: int, nbytes: int, measured_s: float
) -> None:
    """Source: aiconfigurator's table of NCCL 2.27.3 on one node."""
    model = _by_tier(named_cluster("dgx-a100", cards))
    assert model.time_s(kind, nbytes, (0,)) == pytest.approx(measured_s, rel=0.5)


# Laws.


@given(_groups(), KINDS, BYTES, BYTES)
def test_time_is_not_negative_and_grows_with_bytes(
    group: Group, kind: Collective, some: float, more: float
) -> None:
    model, axes = group
    low, high = sorted((some, more))
    assert 0 <= model.time_s(kind, low, axes) <= model.time_s(kind, high, axes)


@given(MODELS, KINDS, BYTES)
def test_nobody_to_talk_to_takes_no_time(
    model: CollectiveModel, kind: Collective, nbytes: float
) -> None:
    alone = tuple(i for i, axis in enumerate(model.mesh.axes) if axis.size == 1)
    assert model.time_s(kind, nbytes, ()) == 0
    assert model.time_s(kind, nbytes, alone) == 0
    assert model.tier_of(()) == "local"


@given(_groups(), BYTES)
def test_all_reduce_is_reduce_scatter_and_all_gather(group: Group, nbytes: float) -> None:
    model, axes = group
    model = CollectiveModel(replace(model.cluster, library=None), model.mesh)
    parts = model.time_s(RS, nbytes, axes) + model.time_s(AG, nbytes, axes)
    assert model.time_s(AR, nbytes, axes) == pytest.approx(parts)


@given(_groups(), KINDS, BYTES, st.floats(1, 100), st.data())
def test_more_bandwidth_is_never_slower(
    group: Group, kind: Collective, nbytes: float, factor: float, draw: st.DataObject
) -> None:
    model, axes = group
    tier = draw.draw(st.sampled_from([tier.name for tier in model.cluster.tiers]))
    faster = CollectiveModel(model.cluster.with_bandwidth(tier, factor), model.mesh)
    before_s, after_s = model.time_s(kind, nbytes, axes), faster.time_s(kind, nbytes, axes)
    assert after_s <= before_s * (1 + 1e-12)


@given(_groups(), KINDS)
def test_vectors_cost_what_their_elements_cost(group: Group, kind: Collective) -> None:
    model, axes = group
    nbytes = np.array([[0.0, 1.0, 1e6], [1e9, 5e7, 3.0]])
    for scale in (1.0, 0.25, 0.0):
        times_s = model.time_s(kind, nbytes, axes, scale)
        assert times_s.shape == nbytes.shape
        each = [[model.time_s(kind, n, axes, scale) for n in row] for row in nbytes.tolist()]
        assert np.allclose(times_s, each, rtol=1e-12)


@given(_groups(), KINDS, st.floats(1e-3, 1), BYTES)
def test_a_share_of_a_bucket_pays_its_share_of_the_bucket(
    group: Group, kind: Collective, share: float, bucket: float
) -> None:
    model, axes = group
    alone = model.time_s(kind, share * bucket, axes, latency_scale=share)
    assert alone == pytest.approx(share * model.time_s(kind, bucket, axes), rel=1e-9)


@given(_groups(), KINDS)
def test_the_order_of_axes_does_not_matter(group: Group, kind: Collective) -> None:
    model, axes = group
    one, two = model.curve(kind, axes), model.curve(kind, axes[::-1])
    sizes = np.geomspace(1, 1e10, 30)
    assert two.time_s(sizes) == pytest.approx(one.time_s(sizes))


@pytest.mark.parametrize("name", cluster_names())
@pytest.mark.parametrize("kind", Collective)
def test_several_axes_of_one_tier_are_one_group(name: str, kind: Collective) -> None:
    cluster = named_cluster(name, 64)
    coarse, fine = _by_tier(cluster), CollectiveModel(cluster, prime_mesh(cluster, 8))
    for tier in range(len(cluster.tiers)):
        axes = tuple(i for i, axis in enumerate(fine.mesh.axes) if axis.tier == tier)
        assert fine.curve(kind, axes) == coarse.curve(kind, (tier,))


@pytest.mark.parametrize("name", cluster_names())
@pytest.mark.parametrize("kind", Collective)
def test_one_server_costs_what_a_group_inside_many_servers_costs(
    name: str, kind: Collective
) -> None:
    one = named_cluster(name, 16).tiers[-1].size
    inner = _by_tier(named_cluster(name, one))
    outer = CollectiveModel(many := named_cluster(name, 16), tier_mesh(many))
    assert outer.curve(kind, (len(many.tiers) - 1,)) == inner.curve(kind, (0,))


@given(st.integers(2, 64), st.integers(2, 64), KINDS, BYTES)
def test_an_outer_tier_of_one_adds_nothing(
    outer: int, inner: int, kind: Collective, nbytes: float
) -> None:
    assume(kind is not Collective.POINT_TO_POINT)
    card = Tier("card", inner, TierKind.SWITCH, 1e11, 1e11, 1e-6)
    server = Tier("server", outer, TierKind.SWITCH, 1e10, 1e10, 1e-5)
    chip = named_chip("a100_sxm_80g")
    both = _by_tier(Cluster("both", chip, (server, card)))
    single = _by_tier(Cluster("single", chip, (replace(server, size=1), card)))
    assert single.time_s(kind, nbytes, (0, 1)) == both.time_s(kind, nbytes, (1,))
    assert both.time_s(kind, nbytes, (0, 1)) >= both.time_s(kind, nbytes, (1,))


def test_three_tiers_are_worked_from_the_inside_out() -> None:
    tiers = tuple(Tier(name, 2, TierKind.SWITCH, 1.0, 1.0, 0.0) for name in ("a", "b", "c"))
    model = _by_tier(Cluster("three", named_chip("a100_sxm_80g"), tiers))
    assert model.time_s(AG, 8.0, (0, 1, 2)) == pytest.approx(4 + 2 + 1)
    assert model.time_s(A2A, 8.0, (0, 1, 2)) == pytest.approx(4 + 4 + 4)
    assert model.time_s(AR, 8.0, (0, 2)) == pytest.approx(2 * (4 + 2))
    assert model.tier_of((1, 2)) == "b"
    assert model.time_s(Collective.POINT_TO_POINT, 8.0, (1, 2)) == pytest.approx(8)


def test_a_small_group_in_a_full_mesh_uses_only_its_own_links() -> None:
    model = _model("atlas-800t-a2", 8)
    link = model.cluster.tiers[0].bandwidth_bytes_per_s
    for count in (1, 2, 3):
        for axes in combinations(range(3), count):
            assert _bandwidth_time_s(model, AG, link, axes) == pytest.approx(1 / 2**count)


def test_every_bundled_collective_has_a_latency_and_a_rate() -> None:
    for name in cluster_names():
        model = _model(name, 16)
        for kind in Collective:
            curve = model.curve(kind, tuple(range(len(model.mesh.axes))))
            assert 1e-6 <= curve.time_s(0.0) < 1e-3
            assert 1e-13 < curve.slopes[-1] < 1e-9


def test_a_mesh_of_another_cluster_is_an_error() -> None:
    cluster, other = named_cluster("dgx-a100", 16), named_cluster("dgx-a100", 32)
    with pytest.raises(ClusterError, match="build the mesh from this cluster"):
        CollectiveModel(cluster, tier_mesh(other))
    with pytest.raises(ClusterError, match="build the mesh from this cluster"):
        CollectiveModel(named_cluster("dgx-a100", 8), tier_mesh(cluster))


@pytest.mark.parametrize("axes", [(2,), (-1,), (0, 0)])
def test_axes_that_are_not_there_are_an_error(axes: Axes) -> None:
    model = _by_tier(named_cluster("dgx-a100", 16))
    with pytest.raises(ClusterError, match="name each axis at most once"):
        model.time_s(AR, 1.0, axes)


def test_a_model_can_be_sent_to_another_process() -> None:
    model = _by_tier(named_cluster("dgx-a100", 16))
    model.curve(AR, (0,))
    assert pickle.loads(pickle.dumps(model)) == model
    assert math.isfinite(model.time_s(BROADCAST, 1e9, (0, 1)))


def test_many_messages_of_many_groups_cost_what_each_costs() -> None:
    for name in ("atlas-800t-a2", "dgx-h100"):
        model = _model(name, 16)
        groups = [(kind, axes) for kind in Collective for axes in ((0,), (0, 1), (2, 3))]
        sizes = np.tile(np.geomspace(1, 1e9, 7), len(groups))
        rows = np.repeat(np.arange(len(groups)), 7)
        times = model.times_s(groups, rows, sizes)
        each = [
            model.time_s(groups[r][0], n, groups[r][1])
            for r, n in zip(rows.tolist(), sizes.tolist(), strict=True)
        ]
        assert times == pytest.approx(each)


def test_a_group_knows_what_it_has_of_each_tier() -> None:
    server, ring, card = _by_tier(named_cluster("atlas-800-9000", 16)).group((0, 1, 2))
    assert (server.name, server.ranks, ring.ranks, card.ranks) == ("server", 2, 2, 4)
    assert ring.bandwidth_bytes_per_s == pytest.approx(16e9)
    assert card.bandwidth_bytes_per_s == pytest.approx(30e9)
    assert card.algorithm == "auto"


def _torus(sizes: tuple[int, ...], wrap: bool) -> Cluster:
    tiers = tuple(
        Tier(name, size, TierKind.TORUS, 45e9, 50e9, 1e-6, transport="ICI", wrap=wrap)
        for name, size in zip("xyz", sizes, strict=False)
    )
    return Cluster("slice", named_chip("tpu_v5e"), tiers)


def test_both_dimensions_of_a_torus_work_at_once() -> None:
    """V / (k W) of both directions; source: "How to Scale Your Model"."""
    model = _by_tier(_torus((16, 16), wrap=True))
    n = 1e9
    one, both = (_bandwidth_time_s(model, AG, n, axes) for axes in ((0,), (0, 1)))
    assert one == pytest.approx(15 / 16 * n / 90e9)
    assert both == pytest.approx(255 / 256 * n / 180e9)
    assert model.time_s(AG, 0.0, (0, 1)) == pytest.approx(16e-6)
    assert _bandwidth_time_s(model, AR, n, (0, 1)) == pytest.approx(2 * both)
    # Without the closing link a slice below 16 takes twice as long.
    line = _by_tier(_torus((4, 4), wrap=False))
    assert _bandwidth_time_s(line, AG, n, (0,)) == pytest.approx(2 * 3 / 4 * n / 90e9)


def test_groups_that_lie_between_one_another_share_the_links_of_a_ring() -> None:
    cluster = _torus((8,), wrap=True)
    model = CollectiveModel(cluster, prime_mesh(cluster, 3))
    near, far = (_bandwidth_time_s(model, AG, 1e9, (axis,)) for axis in (2, 0))
    assert far == pytest.approx(4 * near)
    assert _bandwidth_time_s(model, AG, 1e9, (0, 1, 2)) == pytest.approx(7 / 8 * 1e9 / 90e9)


def test_devices_of_a_leaf_share_its_uplinks() -> None:
    leaf = Tier("leaf", 2, TierKind.SWITCH, 10.0, 10.0, 0.0, shared_capacity_bytes_per_s=20.0)
    card = Tier("card", 4, TierKind.SWITCH, 10.0, 10.0, 0.0)
    model = _by_tier(Cluster("leaves", named_chip("a100_sxm_80g"), (leaf, card)))
    # Four devices of a leaf send at once: 5 of 20 bytes per second each.
    assert model.time_s(AG, 10.0, (0,)) == pytest.approx(10.0 / 2 / 5)
    assert model.time_s(AG, 10.0, (1,)) == pytest.approx(10.0 * 3 / 4 / 10)
