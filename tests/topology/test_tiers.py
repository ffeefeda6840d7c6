"""The planner's tiers, found from the links."""

from __future__ import annotations

from typing import Any

import pytest

from tests.topology.machines import SERVER, alone, file, link, machine
from topology import ClusterError, TierKind
from topology.cluster import Tier
from topology.uses import bundled

pytestmark = pytest.mark.fast


def tiers(links: dict[str, Any], devices: int, **more: Any) -> tuple[Tier, ...]:
    return machine(alone(links, devices, **more)).cluster().tiers


HALVES = {"half": [[0, 1], [2, 3]]}


def test_a_mesh_is_preferred_to_a_slower_switch_and_not_to_a_faster_one() -> None:
    mesh, switch = link(full_mesh="all"), link("UB", "20 GB/s", switch="all")
    assert tiers({"mesh": mesh, "switch": switch}, 4)[0].kind is TierKind.FULL_MESH
    switch["bandwidth"] = "40 GB/s"
    (tier,) = tiers({"mesh": mesh, "switch": switch}, 4)
    assert (tier.kind, tier.transport) == (TierKind.SWITCH, "UB")


def test_a_tier_has_what_all_its_links_have() -> None:
    links = {"slow": link(pairs=[[0, 1], [1, 2]]), "fast": link("HCCS", "30 GB/s", pairs=[[0, 2]])}
    (tier,) = tiers(links, 3)
    assert tier.bandwidth_bytes_per_s == 10e9
    (tier,) = tiers({"fast": link("HCCS", "30 GB/s", full_mesh="all")}, 3)
    assert tier.bandwidth_bytes_per_s == 30e9


def test_counterparts_of_two_halves_are_pairs() -> None:
    links = {"mesh": link(full_mesh=[[0, 1], [2, 3]]), "pcie": link("PCIE", pairs=[[0, 2], [1, 3]])}
    outer, inner = tiers(links, 4, groups=HALVES)
    assert (outer.name, outer.size, outer.kind) == ("half", 2, TierKind.PAIRS)
    assert (inner.name, inner.size, inner.kind) == ("card", 2, TierKind.FULL_MESH)
    assert outer.shared_capacity_bytes_per_s is None


def test_counterparts_that_are_not_joined_are_an_error() -> None:
    links = {"mesh": link(full_mesh=[[0, 1], [2, 3]]), "pcie": link("PCIE", pairs=[[0, 2]])}
    with pytest.raises(ClusterError, match="no link between devices 1 and 3") as caught:
        tiers(links, 4, groups=HALVES)
    assert "'half' are not all wired alike" in caught.value.what


@pytest.mark.parametrize(("per", "shared"), [("direction", 12e9), ("total", 12e9)])
def test_pairs_may_share_a_resource(per: str, shared: float) -> None:
    links = {
        "mesh": link(full_mesh=[[0, 1], [2, 3]]),
        "pcie": link("PCIE", pairs=[[0, 2], [1, 3]], via="bus"),
    }
    bus = {"bus": {"bandwidth": "12 GB/s", "per": per}}
    outer = tiers(links, 4, groups=HALVES, shared=bus)[0]
    assert outer.shared_capacity_bytes_per_s == shared / (2 if per == "total" else 1)


def test_links_of_a_mesh_that_share_a_resource_get_their_part() -> None:
    bus = {"bus": {"bandwidth": "9 GB/s"}}
    (tier,) = tiers({"mesh": link("PCIE", full_mesh="all", via="bus")}, 3, shared=bus)
    assert tier.bandwidth_bytes_per_s == pytest.approx(3e9)
    (tier,) = tiers({"host": link("PCIE", switch="all", via="bus")}, 3, shared=bus)
    assert tier.bandwidth_bytes_per_s == pytest.approx(3e9)


def test_a_torus_is_a_tier_for_each_dimension() -> None:
    ici = link("ICI", torus={"dims": [4, 2, 8], "wrap": [True, False, False]})
    found = tiers({"ici": ici}, 64)
    assert [(t.name, t.size, t.wrap) for t in found] == [
        ("x", 4, True), ("y", 2, False), ("z", 8, False),
    ]  # fmt: skip
    assert all(t.kind is TierKind.TORUS for t in found)


def test_part_of_a_ring_is_a_line() -> None:
    ours = machine(alone({"ring": link(ring="all")}, 8))
    assert ours.cluster(8).tiers[0].wrap
    (tier,) = ours.cluster(4).tiers
    assert (tier.kind, tier.size, tier.wrap) == (TierKind.TORUS, 4, False)


def test_part_of_a_server_keeps_the_wiring_of_the_whole() -> None:
    links = {"sio": link("SIO", "99 GB/s", pairs=[[0, 1], [2, 3]]), "ub": link("UB", switch="all")}
    (tier,) = machine(alone(links, 4)).cluster(2).tiers
    assert (tier.kind, tier.transport) == (TierKind.SWITCH, "UB")


def test_switches_tell_that_they_reduce() -> None:
    links = {"nv": link("NVLINK", switch="all", in_network_reduction=True, algorithm="ring")}
    (tier,) = tiers(links, 4)
    assert tier.in_network_reduction
    assert tier.algorithm == "ring"


def test_ports_that_devices_share_are_a_shared_capacity() -> None:
    server = SERVER | {"nics": {"ib": {**link("IB", "12 GB/s"), "devices": [[0, 1], [2, 3]]}}}
    outer = machine(file(server)).cluster().tiers[0]
    assert outer.bandwidth_bytes_per_s == 12e9
    assert outer.shared_capacity_bytes_per_s == 24e9


def fabric(count: int, **entry: Any) -> tuple[Tier, ...]:
    return machine(file(count=count, fabrics={"server": entry})).cluster().tiers


def test_leaves_are_a_tier_where_the_spine_is_narrow() -> None:
    narrow = fabric(
        8, type="leaf_spine", servers_per_leaf=4, oversubscription=2, hop_latency="1 us"
    )
    assert [(t.name, t.size) for t in narrow] == [("leaf", 2), ("server", 4), ("card", 4)]
    assert narrow[0].shared_capacity_bytes_per_s == 4 * 4 * 25e9 / 2
    assert [t.latency_s for t in narrow[:2]] == pytest.approx([11e-6, 9e-6])
    wide = fabric(8, type="leaf_spine", servers_per_leaf=4, hop_latency="1 us")
    assert [(t.name, t.size) for t in wide] == [("server", 8), ("card", 4)]
    assert wide[0].latency_s == pytest.approx(11e-6)
    below = fabric(4, type="leaf_spine", servers_per_leaf=4, oversubscription=2, hop_latency="1 us")
    assert [(t.name, t.size) for t in below] == [("server", 4), ("card", 4)]
    assert below[0].latency_s == pytest.approx(9e-6)


def test_the_leaves_of_all_rails_are_one_tier() -> None:
    found = fabric(4, type="rail_optimized", servers_per_leaf=2, oversubscription=2)
    assert [(t.name, t.size) for t in found] == [("leaf", 2), ("server", 2), ("card", 4)]
    assert found[0].shared_capacity_bytes_per_s == 2 * 4 * 25e9 / 2
    below = fabric(4, type="rails", hop_latency="1 us")[0]
    assert (below.name, below.size) == ("server", 4)
    assert below.latency_s == pytest.approx(9e-6)


def test_servers_that_do_not_fill_a_leaf_have_their_part_of_it() -> None:
    found = fabric(6, type="leaf_spine", servers_per_leaf=4, oversubscription=2)
    assert [(t.name, t.size) for t in found] == [("leaf", 3), ("server", 2), ("card", 4)]
    assert found[0].shared_capacity_bytes_per_s == 2 * 4 * 25e9 / 2


def test_a_plan_sees_three_tiers_at_most() -> None:
    given = {
        "schema_version": 2,
        "name": "narrow",
        "cluster": {
            "servers": [{"use": "atlas_800_9000", "count": 8}],
            "fabrics": {
                "server": {"type": "leaf_spine", "servers_per_leaf": 4, "oversubscription": 2}
            },
        },
    }
    found = machine(given).cluster().tiers
    assert [(t.name, t.size) for t in found] == [("server", 8), ("ring", 2), ("card", 4)]
    # A leaf's uplinks, divided by the servers below it.
    assert found[0].shared_capacity_bytes_per_s == pytest.approx(8 * 12e9 / 2)


def test_names_and_the_order_in_a_file_change_nothing() -> None:
    given = file(bundled("servers", "atlas_800_9000"), 4)
    before = machine(given).cluster()
    server = given["servers"]["mine"]
    server["links"] = {f"other {name}": server["links"][name] for name in ("pcie", "hccs")}
    server["groups"] = {"ring": server["groups"]["ring"][::-1]}
    server["links"]["other hccs"]["full_mesh"].reverse()
    server["links"]["other pcie"]["pairs"].reverse()
    given["cluster"]["servers"][0]["names"] = ["d", "a", "c", "b"]
    assert machine(given).cluster() == before
