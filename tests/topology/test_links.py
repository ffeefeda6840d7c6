"""Which links and resources flows draw on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.topology.machines import SERVER, alone, file, link, machine
from topology import ClusterError
from topology.catalogue import named_machine
from topology.link_graph import Flows, LinkGraph, Pattern


def name_of(graph: LinkGraph, capacity: int) -> str:
    """What one entry of the vector of capacities is, for people."""
    if capacity >= graph.links:
        server = int(np.searchsorted(graph.resource_base, capacity, side="right")) - 1
        kind = graph.kinds[int(graph.kind_of_server[server])]
        resource = kind.resources[capacity - int(graph.resource_base[server])]
        return f"server {server}: {resource.name}"
    inside = int(graph.link_base[-1]) + len(graph.kinds[int(graph.kind_of_server[-1])].links)
    if capacity >= inside:
        starts = [fabric.first_link for fabric in graph.fabrics]
        fabric = graph.fabrics[int(np.searchsorted(starts, capacity, side="right")) - 1]
        return f"fabric {fabric.name}: link {capacity - fabric.first_link}"
    server = int(np.searchsorted(graph.link_base, capacity, side="right")) - 1
    kind = graph.kinds[int(graph.kind_of_server[server])]
    link = kind.links[capacity - int(graph.link_base[server])]
    ends = f"{kind.nodes[link.source].name} -> {kind.nodes[link.target].name}"
    return f"server {server}: {link.kind} {ends}"


def names(graph: LinkGraph, flows: Flows, flow: int) -> list[str]:
    return [name_of(graph, int(each)) for each in flows.of(flow)]


def fair_seconds(graph: LinkGraph, flows: Flows, nbytes: float) -> float:
    """Time of equal flows if every capacity is divided by the number of flows that draw on it."""
    drawn = np.bincount(flows.indices, minlength=len(graph.capacities_bytes_per_s))
    share = graph.capacities_bytes_per_s / np.maximum(drawn, 1)
    rates = [share[flows.of(flow)].min() for flow in range(len(flows))]
    return float(nbytes / min(rates))


def test_four_pairs_of_the_first_generation_share_the_way_between_the_rings() -> None:
    graph = named_machine("atlas-800-9000").links(8)
    flows = graph.concurrent_flows([[i, i + 4] for i in range(4)])
    assert names(graph, flows, 0) == ["server 0: PCIE 0 -> 4", "server 0: pcie_cross out"]
    assert names(graph, flows, 1) == ["server 0: PCIE 4 -> 0", "server 0: pcie_cross back"]
    # An all-reduce of two sends its bytes once each way: 500 MB over a quarter of 64 GB/s.
    assert fair_seconds(graph, flows, 500e6) == pytest.approx(31.25e-3)
    one = graph.concurrent_flows([[0, 4]])
    assert fair_seconds(graph, one, 500e6) == pytest.approx(500e6 / 19.3e9)


def test_rings_of_one_server_share_nothing() -> None:
    graph = named_machine("atlas-800-9000").links(8)
    flows = graph.concurrent_flows([[0, 1, 2, 3], [4, 5, 6, 7]], Pattern.ALL_PAIRS)
    assert len(flows) == 24
    assert len(set(flows.indices.tolist())) == 24
    assert fair_seconds(graph, flows, 30e9) == pytest.approx(1.0)
    assert flows.groups.tolist() == [0] * 12 + [1] * 12


def test_ranks_without_a_link_go_over_another_device() -> None:
    graph = named_machine("atlas-800-9000").links(8)
    flows = graph.flows([0], [5])
    assert names(graph, flows, 0)[:2] == ["server 0: HCCS 0 -> 1", "server 0: PCIE 1 -> 5"]
    assert flows.latencies_s[0] == pytest.approx(4.5e-6)


def test_no_way_inside_a_server_leads_through_a_network_port() -> None:
    nics = {"ib": {**link("IB"), "devices": [[0, 2], [1, 3]]}}
    graph = machine(alone({"ring": link(ring="all")}, 4, nics=nics)).links()
    assert names(graph, graph.flows([0], [2]), 0) == [
        "server 0: HCCS 0 -> 1",
        "server 0: HCCS 1 -> 2",
    ]


def test_a_network_is_entered_and_left_by_the_port_of_the_device() -> None:
    graph = named_machine("dgx-h100").links(24)
    flows = graph.flows([3, 3], [11, 20])
    for flow, port in ((0, 3), (1, 4)):
        told = names(graph, flows, flow)
        assert told[0] == "server 0: IB 3 -> ib 3"
        assert told[-1].endswith(f"IB ib {port} -> {port}")
        assert len(told) == 4
        assert flows.latencies_s[flow] == pytest.approx(14e-6)
        rates = graph.capacities_bytes_per_s[flows.of(flow)]
        assert rates == pytest.approx(48.5e9)


def test_two_devices_on_one_port_share_it() -> None:
    graph = named_machine("dgx-1v").links(16)
    flows = graph.flows([0, 1], [8, 9])
    shared = set(flows.of(0).tolist()) & set(flows.of(1).tolist())
    assert len(shared) == 2, "into the network and out of it"
    assert fair_seconds(graph, flows, 6e9) == pytest.approx(1.0)


def leafy(kind: str, **more: Any) -> LinkGraph:
    fabric = {"type": kind, "servers_per_leaf": 2, "hop_latency": "1 us"} | more
    return machine(file(count=4, fabrics={"server": fabric})).links()


def test_leaves_have_uplinks_that_their_servers_share() -> None:
    graph = leafy("leaf_spine", oversubscription=4)
    near, far = graph.flows([0], [4]), graph.flows([0, 5], [8, 13])
    assert near.latencies_s[0] == pytest.approx(9e-6)
    assert far.latencies_s[0] == pytest.approx(11e-6)
    assert len(near.of(0)) == 4
    assert len(far.of(0)) == 6
    common = set(far.of(0).tolist()) & set(far.of(1).tolist())
    # Eight ports of 25 GB/s below, a quarter of that above.
    assert graph.capacities_bytes_per_s[sorted(common)] == pytest.approx([50e9, 50e9])


def test_there_and_back_share_nothing() -> None:
    graph = leafy("leaf_spine", oversubscription=4)
    for one, two in ((0, 1), (0, 4), (0, 8)):
        there, back = graph.flows([one, two], [two, one]), graph.flows([two], [one])
        assert not set(there.of(0).tolist()) & set(there.of(1).tolist())
        assert there.of(1).tolist() == back.of(0).tolist()


def test_uplinks_may_be_counted() -> None:
    graph = leafy("leaf_spine", uplinks=3, uplink_bandwidth="100 Gb/s")
    flows = graph.flows([0], [8])
    assert sorted(graph.capacities_bytes_per_s[flows.of(0)])[-2:] == pytest.approx([37.5e9] * 2)


def test_a_rail_needs_no_spine_below_one_leaf() -> None:
    graph = leafy("rail_optimized", oversubscription=4)
    same, other, away = (graph.flows([1], [to]) for to in (5, 6, 9))
    assert [len(each.of(0)) for each in (same, other, away)] == [4, 6, 6]
    # Below the leaf of one rail are a port of 25 GB/s of each of two servers.
    assert min(graph.capacities_bytes_per_s[away.of(0)]) == 12.5e9
    rails = graph.flows([0, 1], [8, 9])
    assert not set(rails.of(0).tolist()) & set(rails.of(1).tolist())


def test_without_a_spine_the_own_server_leads_to_another_rail() -> None:
    fabric = {"server": {"type": "rails"}}
    graph = machine(file(count=4, fabrics=fabric)).links()
    flows = graph.flows([1], [14])
    told = names(graph, flows, 0)
    assert told[0] == "server 0: HCCS 1 -> 2"
    assert told[1] == "server 0: ROCE 2 -> roce 2"
    assert flows.latencies_s[0] == pytest.approx(10e-6)


def test_rails_below_several_leaves_are_not_joined() -> None:
    with pytest.raises(ClusterError, match="has no spine"):
        leafy("rails").flows([0], [8])


def test_pods_are_joined_by_the_outer_network() -> None:
    server = SERVER | {
        "nics": {
            "ub": {"kind": "UB", "bandwidth": "100 GB/s", "latency": "3 us"},
            "roce": {"kind": "ROCE", "bandwidth": "10 GB/s", "latency": "8 us"},
        }
    }
    fabrics = {
        "server": {"type": "switch", "nic": "ub", "servers": 2},
        "pod": {"type": "switch", "nic": "roce"},
    }
    graph = machine(file(server, 4, fabrics=fabrics)).links()
    assert graph.flows([0, 0], [4, 8]).latencies_s == pytest.approx([3e-6, 8e-6])


def test_flows_go_both_ways_round_a_ring() -> None:
    graph = machine(alone({"ring": link(ring="all")}, 4)).links()
    flows = graph.concurrent_flows([[0, 1, 2, 3]], Pattern.BOTH_WAYS)
    assert sorted(flows.indices.tolist()) == list(range(8))


def test_one_member_sends_nothing() -> None:
    graph = machine(alone({"ring": link(ring="all")}, 4)).links()
    assert len(graph.concurrent_flows([[0], [1]])) == 0
    assert len(graph.concurrent_flows([])) == 0


@pytest.mark.parametrize(
    ("one", "two", "fault"), [(0, 12, "no rank 12"), (-1, 0, "no rank -1"), (3, 3, "to itself")]
)
def test_ranks_that_do_not_exist_are_told(one: int, two: int, fault: str) -> None:
    with pytest.raises(ClusterError, match=fault):
        machine(file()).links().flows([one], [two])


def test_a_machine_of_a_thousand_servers_is_a_few_arrays() -> None:
    machine = named_machine("atlas-800-9000")
    graph = machine.links(9216)
    assert (graph.devices, graph.links) == (9216, 73728)
    flows = graph.concurrent_flows([list(range(card, 9216, 8)) for card in range(8)])
    assert len(flows) == 9216
    assert np.bincount(flows.indices).max() == 1, "every card of a server has its own port"
    assert machine.cluster(9216).devices == 9216


def test_very_many_links_are_refused() -> None:
    with pytest.raises(ClusterError, match="fewer servers"):
        named_machine("atlas-800-9000").links(2**23)


def test_devices_of_two_kinds_of_servers_are_numbered_one_after_the_other() -> None:
    given = file()
    given["servers"]["small"] = SERVER | {"devices": 2, "chip": "ascend_910b1"}
    given["cluster"]["servers"] = [{"use": "mine", "count": 1}, {"use": "small", "count": 2}]
    graph = machine(given).links()
    assert graph.server_of_rank.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    told = names(graph, graph.flows([3], [7]), 0)
    assert told[0] == "server 0: ROCE 3 -> roce 3"
    assert told[-1] == "server 2: ROCE roce 1 -> 1"
