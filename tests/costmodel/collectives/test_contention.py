import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives import Collective
from costmodel.collectives.contention import (
    GroupTraffic,
    concurrent_time_s,
    fair_rates,
    flow_rates,
)
from topology.catalogue import named_machine
from topology.errors import ClusterError

AR, AG = Collective.ALL_REDUCE, Collective.ALL_GATHER
SERVER = named_machine("atlas-800-9000").links(8)
RINGS = ((0, 1, 2, 6, 5, 4, 7, 3), (0, 3, 7, 4, 5, 6, 2, 1), (0, 2, 3, 1, 5, 7, 6, 4))
FOURTH = (0, 4, 6, 7, 5, 1, 3, 2)
"""The four rings that HCCL runs at once over a server of two rings."""


def rates(capacities: list[float], flows: list[list[int]]) -> list[float]:
    offsets = np.cumsum([0, *map(len, flows)])
    indices = np.array([i for flow in flows for i in flow], dtype=np.int64)
    return [float(rate) for rate in fair_rates(np.array(capacities), offsets, indices)]


def test_flows_that_share_a_link_have_equal_parts() -> None:
    assert rates([6.0], [[0], [0], [0]]) == [2.0, 2.0, 2.0]


def test_what_a_slow_flow_leaves_goes_to_the_others() -> None:
    """The textbook case: one flow over both links, two over one each."""
    assert rates([1.0, 10.0], [[0, 1], [0], [1]]) == pytest.approx([0.5, 0.5, 9.5])


def test_a_flow_that_passes_a_resource_twice_takes_it_twice() -> None:
    assert rates([6.0], [[0, 0], [0]]) == [2.0, 2.0]


def test_no_flows_have_no_rates_and_a_flow_over_nothing_is_an_error() -> None:
    assert rates([1.0], []) == []
    with pytest.raises(ClusterError, match="draws on no link"):
        rates([1.0], [[0], []])


@given(st.data())
def test_rates_are_max_min_fair(data: st.DataObject) -> None:
    """No capacity is exceeded, and every flow has one that is full and in which none is faster."""
    count = data.draw(st.integers(1, 6))
    capacities = data.draw(st.lists(st.floats(0.1, 100), min_size=count, max_size=count))
    flow = st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True)
    flows = data.draw(st.lists(flow, min_size=1, max_size=8))
    found = rates(capacities, flows)
    load = [sum(r for r, f in zip(found, flows, strict=True) if c in f) for c in range(count)]
    assert all(used <= whole * (1 + 1e-6) for used, whole in zip(load, capacities, strict=True))
    for rate, own in zip(found, flows, strict=True):
        assert any(
            load[c] >= capacities[c] * (1 - 1e-6)
            and all(r <= rate * (1 + 1e-6) for r, f in zip(found, flows, strict=True) if c in f)
            for c in own
        )


def bandwidth_time_s(*groups: GroupTraffic) -> float:
    """Of the slowest group, without latencies."""
    large, small = (
        concurrent_time_s(
            SERVER, [GroupTraffic(g.ranks, g.kind, g.nbytes * k, g.algorithm) for g in groups]
        )
        for k in (2, 1)
    )
    return float((large - small).max())


def test_disjoint_links_give_the_closed_form_of_the_mesh() -> None:
    """2 n / 4 over each link of 30 GB/s: 1.07 ms for 64 MB, in both rings at once."""
    one = GroupTraffic((0, 1, 2, 3), AR, 64e6, "mesh")
    other = GroupTraffic((4, 5, 6, 7), AR, 64e6, "mesh")
    assert bandwidth_time_s(one) == pytest.approx(2 * 64e6 / 4 / 30e9)
    assert bandwidth_time_s(one, other) == pytest.approx(1.07e-3, rel=0.03)


def test_four_rings_over_the_whole_server() -> None:
    """Each carries a quarter; two cross pairs each at 16 of 64 GB/s: 1.75 ms for 64 MB."""
    rings = [GroupTraffic(order, AR, 16e6) for order in (*RINGS, FOURTH)]
    assert bandwidth_time_s(*rings) == pytest.approx(1.75e-3, rel=0.03)


def test_four_pairs_share_the_path_between_the_rings() -> None:
    """Each has 16 of 64 GB/s: 31.3 ms for 500 MB; alone it has its 19.3 GB/s: 25.9 ms."""
    pairs = [GroupTraffic((i, i + 4), AR, 500e6) for i in range(4)]
    assert bandwidth_time_s(*pairs) == pytest.approx(31.3e-3, rel=0.03)
    assert bandwidth_time_s(pairs[0]) == pytest.approx(25.9e-3, rel=0.03)


def test_rails_do_not_meet_and_two_groups_on_a_port_do() -> None:
    graph = named_machine("atlas-800-9000").links(16)
    rails = [GroupTraffic((i, i + 8), AR, 500e6) for i in range(8)]
    times = concurrent_time_s(graph, rails)
    assert times == pytest.approx(np.full(8, 500e6 / 12e9), rel=1e-2)
    both = concurrent_time_s(graph, [rails[0], rails[0], rails[1]])
    assert both[:2] == pytest.approx(2 * both[2], rel=1e-2)


def test_a_ring_of_links_has_the_closed_form_of_a_ring() -> None:
    graph = named_machine("dgx-a100").links(8)
    group = GroupTraffic(tuple(range(8)), AG, 1e9)
    flows = graph.concurrent_flows([group.ranks])
    port = float(flow_rates(graph, flows).min())
    expected = 7 * flows.latencies_s.max() + 7 / 8 * 1e9 / port
    assert concurrent_time_s(graph, [group])[0] == pytest.approx(expected)
    with pytest.raises(ClusterError, match="use ring or mesh"):
        concurrent_time_s(graph, [GroupTraffic((0, 1), AG, 1.0, "tree")])
