"""Time of messages between single devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.transfers import scheduled, tier_distance
from topology.catalogue import named_cluster
from topology.cluster import Cluster, Tier, TierKind


def machine(kind: TierKind, shared: float | None = None) -> Cluster:
    """Two servers of four devices: 10 B/s between servers, 100 B/s inside."""
    outer = Tier("server", 2, TierKind.SWITCH, 10.0, 10.0, 0.5, shared)
    inner = Tier("card", 4, kind, 100.0, 100.0, 0.25)
    return replace(named_cluster("atlas-800t-a2", 16), tiers=(outer, inner))


MESH, SWITCH = machine(TierKind.FULL_MESH), machine(TierKind.SWITCH)


def test_a_message_takes_its_bytes_over_the_link_and_the_latency() -> None:
    assert scheduled({(0, 1): 50.0}, MESH).time_s == 50 / 100 + 0.25
    assert scheduled({(0, 4): 50.0}, MESH).time_s == 50 / 10 + 0.5
    assert scheduled({}, MESH).time_s == 0


def test_a_device_sends_one_message_at_a_time() -> None:
    found = scheduled({(0, 1): 50.0, (0, 2): 20.0, (3, 2): 30.0}, SWITCH)
    assert [each.messages for each in found.rounds] == [
        ((0, 1, 50.0), (3, 2, 30.0)),
        ((0, 2, 20.0),),
    ]
    assert found.time_s == pytest.approx(0.5 + 0.25 + 0.2 + 0.25)
    assert found.bound_s == pytest.approx(0.7 + 0.25)


def test_links_of_a_mesh_are_apart_and_a_port_is_not() -> None:
    messages = {(0, 1): 50.0, (0, 2): 50.0}
    assert scheduled(messages, MESH).bound_s == pytest.approx(0.75)
    assert scheduled(messages, SWITCH).bound_s == pytest.approx(1.25)


def test_devices_of_one_server_share_its_uplink() -> None:
    messages = {(i, 4 + i): 10.0 for i in range(4)}
    assert scheduled(messages, MESH).time_s == pytest.approx(1 + 0.5)
    shared = machine(TierKind.FULL_MESH, shared=20.0)
    assert scheduled(messages, shared).time_s == pytest.approx(2 + 0.5)
    apart = {(i, 4 + i): 10.0 for i in (0,)} | {(4 + i, i): 10.0 for i in (1,)}
    assert scheduled(apart, shared).time_s == pytest.approx(1 + 0.5)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1]),
        st.floats(1, 1e6),
        max_size=20,
    )
)
def test_every_message_is_sent_once_and_no_bound_is_above_the_time(
    messages: dict[tuple[int, int], float],
) -> None:
    found = scheduled(messages, MESH)
    sent = [message for each in found.rounds for message in each.messages]
    assert {(s, r): n for s, r, n in sent} == messages
    assert len(sent) == len(messages)
    for each in found.rounds:
        for ends in zip(*((s, r) for s, r, _ in each.messages), strict=True):
            assert len(set(ends)) == len(ends)
    assert found.bound_s <= found.time_s * (1 + 1e-12)


def test_distance_is_the_tier_that_a_message_crosses() -> None:
    assert [tier_distance(MESH, 0, other) for other in (0, 3, 4)] == [0, 1, 2]


def torus(*dims: int, wrap: bool = True) -> Cluster:
    """Links of 100 B/s and 0.25 s between neighbours of a grid."""
    tiers = tuple(
        Tier(f"d{i}", size, TierKind.TORUS, 100.0, 100.0, 0.25, wrap=wrap)
        for i, size in enumerate(dims)
    )
    return replace(named_cluster("atlas-800t-a2", 16), tiers=tiers)


@pytest.mark.parametrize(
    ("wrap", "sender", "receiver", "hops"),
    [
        (True, 0, 1, 1),
        (True, 0, 3, 1),  # round the back of a row
        (True, 0, 2, 2),
        (True, 0, 10, 4),  # two in either dimension
        (True, 5, 0, 2),
        (False, 0, 3, 3),
        (False, 15, 0, 6),
    ],
)
def test_a_message_in_a_torus_goes_from_neighbour_to_neighbour(
    wrap: bool, sender: int, receiver: int, hops: int
) -> None:
    machine = torus(4, 4, wrap=wrap)
    found = scheduled({(sender, receiver): 50.0}, machine)
    assert found.time_s == pytest.approx(50 / 100 + hops * 0.25)


def test_messages_that_pass_over_one_link_of_a_torus_share_it() -> None:
    ring = torus(8)
    apart = {(0, 1): 50.0, (2, 3): 50.0}
    crossing = {(0, 2): 50.0, (1, 3): 50.0}  # both over the link from 1 to 2
    assert scheduled(apart, ring).time_s == pytest.approx(0.5 + 0.25)
    assert scheduled(crossing, ring).time_s == pytest.approx(1.0 + 0.5)
    opposite = {(0, 2): 50.0, (3, 1): 50.0}  # the other direction is another link
    assert scheduled(opposite, ring).time_s == pytest.approx(0.5 + 0.5)


@given(st.integers(0, 26), st.integers(0, 26), st.booleans())
def test_hops_of_a_torus_are_the_distance_of_its_dimensions(
    sender: int, receiver: int, wrap: bool
) -> None:
    steps = 0
    for stride in (9, 3, 1):
        apart = abs(sender // stride % 3 - receiver // stride % 3)
        steps += min(apart, 3 - apart) if wrap else apart
    messages = {(sender, receiver): 100.0} if sender != receiver else {}
    found = scheduled(messages, torus(3, 3, 3, wrap=wrap))
    assert found.time_s == pytest.approx(1 + 0.25 * steps if steps else 0)
