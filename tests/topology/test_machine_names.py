"""One table of machines for every command: names, memory that a job may fill, links in words."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.training.machines import machine_called, machines
from ir.causes import cause_text
from planner.asking.layouts import machine_named
from planner.asking.machines import named_machine as asked_machine
from service.routes.work import check_cluster
from topology.catalogue import cluster_names, is_machine, machine_names, named_machine
from topology.errors import ClusterError
from topology.machine_names import known_machine, known_machines

EVERY_NAME = [
    *cluster_names(),
    *(each for known in known_machines().values() for each in (known.name, *known.aliases)),
]


@pytest.mark.parametrize("name", EVERY_NAME)
def test_a_name_that_one_command_knows_all_know(name: str) -> None:
    """`layouts` knows all; `search` those whose links are known, of the same chip and memory."""
    priced = machine_named(name)
    if not known_machine(name).is_wired:
        with pytest.raises(ClusterError, match=f"of {priced.name} only the sizes are known"):
            asked_machine(name, "--cluster")
        assert not is_machine(name)
        return
    found = asked_machine(name, "--cluster")
    check_cluster(None, name)  # type: ignore[arg-type]
    one = found.cluster(1)
    assert machine_called(found.name).name == priced.name
    assert one.usable_memory_bytes == priced.usable_bytes
    assert one.reserved_memory_bytes == priced.reserved_bytes
    assert one.chip.name == known_machine(name).chip


@pytest.mark.parametrize("name", cluster_names())
def test_every_bundled_cluster_is_a_machine_of_the_calibration(name: str) -> None:
    assert named_machine(name).name == name
    assert name in known_machine(name).clusters


def test_names_are_read_however_they_are_spelled() -> None:
    assert named_machine("H100").name == named_machine("h100_sxm_80g").name == "dgx-h100"
    assert named_machine("DGX_1V").name == "dgx-1v"
    assert machine_named("dgx-1v").name == "v100-dgx1"
    assert named_machine("a100-40g").cluster(16).chip.memory_bytes == 40 * 2**30


@pytest.mark.parametrize("name", machine_names())
def test_a_machine_like_another_has_its_wiring(name: str) -> None:
    like = known_machine(name).like
    if like:
        assert named_machine(name).cluster(8).tiers == named_machine(like).cluster(8).tiers


def test_memory_is_stated_where_no_cluster_says_it() -> None:
    for name, found in machines().items():
        stated = min(found.stated_bytes) > 0
        assert stated is not known_machines()[name].is_wired
        assert found.usable_bytes > 0


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ("all_gather in server", "all-gather over links between servers"),
        ("all_reduce in card", "all-reduce over links between cards"),
        ("compute forward", "compute forward"),
    ],
)
def test_links_have_the_name_of_what_they_join(cause: str, text: str) -> None:
    assert cause_text(cause) == text


def test_layouts_and_plans_name_links_alike() -> None:
    """A layout inside a server crosses the tier of cards, as a plan there does."""
    from costmodel.simulation.layout_job import ACROSS, INSIDE  # noqa: PLC0415

    tiers: Any = named_machine("dgx-h100").cluster(16).tiers
    assert [tier.name for tier in tiers] == [ACROSS, INSIDE]
