"""Messages of conventional layouts: the curves of plans, group by group."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives import Collective, CollectiveModel
from costmodel.training.links import Group, Links
from costmodel.training.machines import machine
from topology.catalogue import named_machine
from topology.machine_names import known_machines
from topology.mesh import Mesh, MeshAxis, tier_mesh

NAMES = ("a100-80g", "h100", "ascend-910b", "ascend-910a", "gb200", "tpu-v5e")
KINDS = (
    Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_REDUCE, Collective.ALL_TO_ALL,
)  # fmt: skip
LARGE = np.array([1e9])


def links_of(name: str, server: int = 0, link: float = 1.0, port: float = 1.0) -> Links:
    """The links of a machine; servers of fewer devices, rates of so many times."""
    found = machine(name)
    values = (
        list(known_machines()).index(name), server or found.server,
        link * found.link_bytes_per_s, port * found.port_bytes_per_s,
    )  # fmt: skip
    return Links(*(np.array([float(value)]) for value in values))


def group(size: int, stride: int = 1) -> Group:
    return Group(np.array([float(size)]), np.array([float(stride)]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a100-80g", "h100", "ascend-910b", "gb200"])
def test_a_message_takes_what_it_takes_in_a_plan(name: str, kind: Collective) -> None:
    """Whole servers, and one device of each."""
    found = named_machine(known_machines()[name].cluster)
    server = machine(name).server
    cluster = found.cluster(4 * server)
    model = CollectiveModel(cluster, tier_mesh(cluster))
    every = tuple(range(len(cluster.tiers)))
    for size, stride, axes in ((4 * server, 1, every), (4, server, every[:1])):
        for nbytes in (np.array([3e4]), LARGE):
            wanted = model.time_s(kind, nbytes, axes)
            seconds = links_of(name).bucketed_s(kind, nbytes, group(size, stride))
            assert seconds.tolist() == pytest.approx(wanted.tolist(), rel=1e-12)


def test_a_group_inside_a_server_has_every_second_device() -> None:
    cluster = named_machine(known_machines()["ascend-910b"].cluster).cluster(8)
    mesh = Mesh((MeshAxis("apart", 4, 0), MeshAxis("between", 2, 0)))
    wanted = CollectiveModel(cluster, mesh).time_s(Collective.ALL_REDUCE, LARGE, (0,))
    seconds = links_of("ascend-910b").bucketed_s(Collective.ALL_REDUCE, LARGE, group(4, 2))
    assert seconds[0] == wanted[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["h100", "ascend-910b", "gb200"])
def test_a_group_that_divides_no_tiers_lies_between_those_that_do(
    name: str, kind: Collective
) -> None:
    """Of large messages, by groups of one, two and three servers and a part of the last."""
    server = machine(name).server
    sizes = [server, server + server // 2, 2 * server, 2 * server + 1, 3 * server]
    times = [float(links_of(name).bucketed_s(kind, LARGE, group(size))[0]) for size in sizes]
    assert all(one <= other * 1.02 for one, other in pairwise(times))
    assert times[-1] > times[0]


@given(
    st.sampled_from(NAMES), st.sampled_from(KINDS), st.integers(1, 40), st.integers(1, 20),
    st.floats(1e3, 1e11), st.sampled_from([(2.0, 1.0), (1.0, 2.0), (1.5, 1.5), (1e20, 1e20)]),
)  # fmt: skip
def test_faster_links_are_never_slower(
    name: str, kind: Collective, size: int, stride: int, nbytes: float, more: tuple[float, float]
) -> None:
    usual, faster = (
        each.bucketed_s(kind, np.array([nbytes]), group(size, stride))
        for each in (links_of(name), links_of(name, 0, *more))
    )
    assert np.isfinite(usual[0])
    assert 0 <= faster[0] <= usual[0] * (1 + 1e-12)
    assert (usual[0] > 0) == (size > 1)


def test_servers_with_fewer_devices_send_more_over_their_ports() -> None:
    """Eight ranks on two servers of four: as fast as sixteen on two of eight, or slower."""
    halves, whole = links_of("h200", server=4), links_of("h200")
    inside = float(whole.all_gather_s(LARGE, group(8))[0])
    across = float(halves.all_gather_s(LARGE, group(8))[0])
    assert across > inside
    assert across >= float(whole.all_gather_s(LARGE, group(16))[0]) * (1 - 1e-9)
    assert halves.send_s(LARGE, np.array([True])) == whole.send_s(LARGE, np.array([True]))


def test_many_messages_at_once_are_each_by_itself() -> None:
    sizes, strides = (np.array(each, dtype=np.float64) for each in ([2, 8, 16, 6], [1, 1, 2, 8]))
    nbytes, share = np.array([1e3, 1e6, 1e9, 0.0]), np.array([0.25, 1.0, 1.0, 1.0])
    links = links_of("h100")
    together = links.bucketed_s(Collective.ALL_REDUCE, nbytes, Group(sizes, strides), share)
    each = [
        links.bucketed_s(Collective.ALL_REDUCE, nbytes[i], Group(sizes[i], strides[i]), share[i])[0]
        for i in range(4)
    ]
    assert together.tolist() == each


def test_a_sum_in_parts_is_a_scatter_and_a_gather() -> None:
    links, split = links_of("a100-80g"), np.array([True])
    parts = links.summed_s(LARGE, group(8), split)
    kinds = (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
    assert parts[0] == sum(links.bucketed_s(kind, LARGE, group(8))[0] for kind in kinds)
    whole = links.bucketed_s(Collective.ALL_REDUCE, LARGE, group(8))
    assert links.summed_s(LARGE, group(8), ~split) == whole
    half = replace(links, link_bytes_per_s=links.link_bytes_per_s / 2)
    assert half.summed_s(LARGE, group(8), split) > 1.5 * parts
