"""Generators of links, and what a server file must keep."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.topology.machines import alone, link, machine
from topology.catalogue import named_machine
from topology.loading import check_machine
from topology.server_file import ServerFile
from topology.wiring import device_order, server_links

pytestmark = pytest.mark.fast


def joined(links: dict[str, Any], devices: int, **more: Any) -> set[tuple[str, str]]:
    """Names of the ends of all directed links."""
    made = machine(alone(links, devices, **more)).server_links("mine")
    return {(made.nodes[each.source].name, made.nodes[each.target].name) for each in made.links}


def both(*pairs: tuple[int, int]) -> set[tuple[str, str]]:
    return {(str(a), str(b)) for one, two in pairs for a, b in ((one, two), (two, one))}


def faults(links: dict[str, Any], devices: int, **more: Any) -> list[str]:
    text = yaml.safe_dump(alone(links, devices, **more))
    return [f"{each.code} {each.message}" for each in check_machine(text, "ours.yaml")[1]]


def test_a_full_mesh_joins_every_two_devices_of_a_group() -> None:
    meshes = {"mesh": link(full_mesh=[[0, 1, 2], [3, 4, 5]]), "pairs": link(pairs=[[0, 3]])}
    assert joined(meshes, 6) == both((0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (0, 3))


def test_a_ring_joins_neighbours_and_closes() -> None:
    assert joined({"ring": link(ring="all")}, 4) == both((0, 1), (1, 2), (2, 3), (3, 0))


def test_a_torus_wraps_where_it_says_so() -> None:
    row = both((0, 1), (1, 2), (3, 4), (4, 5))
    column = both((0, 3), (1, 4), (2, 5))
    torus = {"dims": [2, 3], "wrap": [False, True]}
    assert joined({"ici": link(torus=torus)}, 6) == row | column | both((2, 0), (5, 3))
    torus["wrap"] = False
    assert joined({"ici": link(torus=torus)}, 6) == row | column


def test_a_dimension_of_two_has_one_link_and_not_two() -> None:
    torus = alone({"ici": link(torus={"dims": [2, 2], "wrap": True})}, 4)
    assert faults({"ici": link(torus={"dims": [2, 2], "wrap": True})}, 4) == []
    assert len(machine(torus).server_links("mine").links) == 8


def test_a_switch_gives_every_device_a_port() -> None:
    ends = joined({"nvlink": link(switch="all")}, 3)
    assert ends == {(str(d), "nvlink") for d in range(3)} | {("nvlink", str(d)) for d in range(3)}


def test_directed_links_go_one_way() -> None:
    links = {"ring": link(directed=[[0, 1], [1, 0], [1, 2], [2, 1]])}
    assert joined(links, 3) == both((0, 1), (1, 2))


def test_lanes_multiply_the_bandwidth() -> None:
    made = machine(alone({"double": link(pairs=[[0, 1]], lanes=2, efficiency=0.5)}, 2))
    rates = {each.bandwidth_bytes_per_s for each in made.server_links("mine").links}
    assert rates == {10e9}


def test_the_latency_through_a_switch_counts_once() -> None:
    made = machine(alone({"nvlink": link(switch="all")}, 2)).server_links("mine")
    assert [made.links[each].latency_s for each in made.routes.way(0, 1)] == [1e-6, 0]


def test_ranks_follow_the_groups() -> None:
    groups = {"pair": [[3, 1], [0, 2]]}
    server = ServerFile.model_validate(
        {"name": "x", "chip": "b200", "devices": 4, "groups": groups}
    )
    assert device_order(server) == (3, 1, 0, 2)
    both_levels = groups | {"half": [[0, 1, 2, 3]]}
    assert device_order(server.model_copy(update={"groups": both_levels})) == (3, 1, 0, 2)


def test_the_rings_of_hccl_pass_each_way_of_every_link_once() -> None:
    server = named_machine("atlas-800-9000").file.servers["atlas_800_9000"]
    steps = [
        step
        for order in server.ring_orders
        for step in zip(order, order[1:] + order[:1], strict=True)
    ]
    made = server_links(server)
    links = [(x.source, x.target) for x in made.links if max(x.source, x.target) < made.devices]
    assert sorted(steps) == sorted(links)


def test_every_server_of_the_first_generation_has_two_shared_ways() -> None:
    made = named_machine("atlas-800-9000").server_links("atlas_800_9000")
    drawn = {(x.source < 4, x.resource) for x in made.links if x.kind == "PCIE"}
    assert drawn == {(True, 0), (False, 1)}
    assert [each.name for each in made.resources] == ["pcie_cross out", "pcie_cross back"]


MESH = {"mesh": link(full_mesh="all")}


@pytest.mark.parametrize(
    ("links", "more", "fault"),
    [
        ({"x": link(pairs=[[0, 4]])}, {}, "E_DEVICE a link to device 4, but"),
        ({"x": link(full_mesh=[[0, 1], [2, 7]])}, {}, "E_DEVICE a link to device 7"),
        ({"x": link(pairs=[[0, 1, 2]])}, {}, "E_PAIR [0, 1, 2] is no pair"),
        (MESH | {"x": link(pairs=[[1, 1]])}, {}, "E_SELF a link from device 1 to itself"),
        (MESH | {"x": link(pairs=[[0, 1], [1, 0]])}, {}, "E_TWICE the link 1 - 0 stands twice"),
        ({"x": link(ring=[0, 1, 2, 2])}, {}, "E_TWICE group [0, 1, 2, 2] names a device twice"),
        ({"x": link(ring=[[0, 1], [2, 3]])}, {}, "E_RING a ring of 2"),
        ({"x": link(torus={"dims": [2, 3]})}, {}, "E_TORUS a torus of 2 x 3 has 6 devices, not 4"),
        (
            {"x": link(torus={"dims": [2, 2], "wrap": [True]})},
            {},
            "E_TORUS wrap needs one value",
        ),
        (
            {"x": link(directed=[[0, 1], [1, 2], [2, 3], [3, 0]])},
            {},
            "E_ASYMMETRIC a link 0 -> 1, but none of the same kind back",
        ),
        ({"x": link(full_mesh=[[0, 1], [2, 3]])}, {}, "E_DISCONNECTED no links join these devices"),
        ({}, {}, "E_DISCONNECTED no links join these devices: [0]; [1]; [2]; [3]"),
        (MESH | {"x": link(pairs=[[0, 1]], via="bus")}, {}, "E_SHARED no shared resource 'bus'"),
        (MESH, {"groups": {"ring": [[0, 1, 2], [3]]}}, "E_GROUPS the groups have different sizes"),
        (MESH, {"groups": {"ring": [[0, 1], [1, 3]]}}, "E_GROUPS the groups do not hold each"),
        (
            MESH,
            {"groups": {"a": [[0, 1], [2, 3]], "b": [[0], [2], [1], [3]], "c": [[0, 2], [1, 3]]}},
            "E_GROUPS a group lies across two",
        ),
        (MESH | {"x": link("HCCS", full_mesh="all", lanes=3)}, {}, "E_PORTS device 0 has 12 HCCS"),
        (MESH, {"ring_orders": [[0, 1, 2, 2]]}, "E_RING the order does not name every device once"),
        (
            {"x": link(ring="all")},
            {"ring_orders": [[0, 2, 1, 3]]},
            "E_RING no link 0 - 2 for this ring",
        ),
        (
            MESH,
            {"nics": {"ib": {**link("IB"), "devices": [[0, 1], [2]]}}},
            "E_NIC the ports do not serve each of devices 0 to 3 once",
        ),
        (MESH, {"placement": {"on_one_server": [1, 8]}}, "E_PLACEMENT 8 devices of a server"),
        (
            MESH,
            {"placement": {"on_one_server": [1], "job": [{"count": 2, "inside": "ring"}]}},
            "E_PLACEMENT no groups named 'ring'",
        ),
    ],
)
def test_links_that_cannot_be_are_told(
    links: dict[str, Any], more: dict[str, Any], fault: str
) -> None:
    assert [told for told in faults(links, 4, **more) if told.startswith(fault)]


def test_a_ring_with_one_slow_way_is_asymmetric() -> None:
    there = link(directed=[[0, 1], [1, 2], [2, 0]])
    back = link("HCCS", "5 GB/s", directed=[[1, 0], [2, 1], [0, 2]])
    assert any("E_ASYMMETRIC" in told for told in faults({"there": there, "back": back}, 3))
    back = link("HCCS", "10 GB/s", directed=[[1, 0], [2, 1], [0, 2]])
    assert faults({"there": there, "back": back}, 3) == []


def test_very_many_links_are_counted_and_not_made() -> None:
    told = faults({"mesh": link(full_mesh="all")}, 8192)
    assert told == ["E_SIZE 67100672 links; the servers of a file have at most 131072"]
