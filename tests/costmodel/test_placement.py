from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives import Collective
from costmodel.placement import Message, Role, best_placement, placements
from topology import ClusterError, named_cluster
from topology.cluster import Cluster

TENSOR_BYTES = 64e6
SERVER = named_cluster("atlas-800-9000", 8)
"""Two rings of four: 30 GB/s between any two cards of a ring, 64 GB/s for all pairs across."""


def quiet(cluster: Cluster) -> Cluster:
    """The same machine without latencies."""
    return replace(cluster, tiers=tuple(replace(tier, latency_s=0.0) for tier in cluster.tiers))


def roles(ratio: float) -> tuple[Role, Role]:
    """Data parallel 2 times tensor parallel 4, with `ratio` times the traffic of the latter."""
    summed = Collective.ALL_REDUCE
    return (
        Role("data", 2, (Message(summed, ratio * TENSOR_BYTES),)),
        Role("tensor", 4, (Message(summed, TENSOR_BYTES),)),
    )


def closed_forms(ratio: float) -> dict[str, float]:
    """Seconds of the two placements, by hand.

    The tensor group in a ring: 2 n / 4 on each link; data over a pair: n. Across the rings: pairs
    of cards in a ring and their counterparts, 2 n / 2 and half of it over the pair; data: n.
    """
    ring, pair = 30e9, 64e9 / 4
    n, m = TENSOR_BYTES, ratio * TENSOR_BYTES
    return {
        "inside": 2 * n / 4 / ring + m / pair,
        "across": n / ring + n / 2 / pair + m / ring,
    }


FLIP = (1 / (2 * 30e9) + 1 / (2 * 16e9)) / (1 / 16e9 - 1 / 30e9)
"""Ratio at which both take the same time."""


def where(ratio: float, cluster: Cluster = SERVER) -> str:
    best = best_placement(quiet(cluster), roles(ratio))
    data, _ = best.axes
    return "inside" if {best.mesh.axes[axis].tier for axis in data} == {0} else "across"


def test_the_ratio_at_which_placements_flip_is_that_of_the_closed_forms() -> None:
    assert pytest.approx(1.643, rel=1e-3) == FLIP
    assert closed_forms(FLIP)["inside"] == pytest.approx(closed_forms(FLIP)["across"])
    assert where(FLIP * 0.999) == "inside"
    assert where(FLIP * 1.001) == "across"


@given(st.floats(-4, 4))
def test_the_better_placement_is_found_for_any_ratio_of_traffic(exponent: float) -> None:
    ratio = 10**exponent
    times = closed_forms(ratio)
    assert best_placement(quiet(SERVER), roles(ratio)).time_s == pytest.approx(min(times.values()))
    if abs(ratio / FLIP - 1) > 1e-6:
        assert where(ratio) == min(times, key=lambda name: times[name])


@given(st.floats(0.1, 10))
def test_names_and_the_order_of_roles_change_nothing(ratio: float) -> None:
    tiers = tuple(replace(tier, name=f"other{i}") for i, tier in enumerate(SERVER.tiers))
    renamed = replace(SERVER, name="renamed", tiers=tiers)
    assert best_placement(renamed, roles(ratio)).axes == best_placement(SERVER, roles(ratio)).axes
    forwards, backwards = roles(ratio), roles(ratio)[::-1]
    assert best_placement(SERVER, backwards).time_s == best_placement(SERVER, forwards).time_s


def test_ranks_are_placed_on_every_device_once() -> None:
    across = best_placement(SERVER, roles(10))
    assert sorted(across.device_order()) == list(range(8))
    # Tensor groups of four consecutive ranks: two cards of a ring with their counterparts.
    group = across.device_order()[:4]
    assert {device // 4 for device in group} == {0, 1}
    assert {device % 4 for device in group} == {group[0] % 4, group[-1] % 4}
    assert best_placement(SERVER, roles(0.1)).device_order() == tuple(range(8))


def test_three_roles_over_two_servers() -> None:
    cluster = named_cluster("atlas-800-9000", 16)
    summed = Message(Collective.ALL_REDUCE, 1e8)
    found = best_placement(
        cluster, (Role("data", 2, ()), Role("expert", 2, (summed,)), Role("tensor", 4, (summed,)))
    )
    assert [found.mesh.axes[axis].tier for axis in found.axes[0]] == [0]
    assert found.time_s == min(
        each.time_s
        for each in placements(
            cluster,
            (Role("d", 2, ()), Role("e", 2, (summed,)), Role("t", 4, (summed,))),
        )
    )


@pytest.mark.parametrize("sizes", [(), (2, 2), (3, 4)])
def test_sizes_that_do_not_fill_the_machine_are_an_error(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ClusterError, match="multiply to the number of devices"):
        best_placement(SERVER, [Role(f"r{i}", size, ()) for i, size in enumerate(sizes)])
