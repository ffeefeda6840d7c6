"""One table of machines for every command: names, memory that a job may fill, links in words."""

from __future__ import annotations

from typing import Any

import pytest

import data
from ir.causes import cause_text
from planner.requests.conventional_layouts import machine_named
from planner.requests.errors import UserError
from planner.requests.machines import named_machine as asked_machine
from service.routes.work import check_cluster
from topology.catalogue import chip_names, cluster_names, is_machine, named_machine
from topology.errors import ClusterError
from topology.machine_names import known_machine, known_machines

pytestmark = pytest.mark.fast

EVERY_NAME = [
    *cluster_names(),
    *(each for known in known_machines().values() for each in (known.name, *known.aliases)),
]


@pytest.mark.parametrize("name", EVERY_NAME)
def test_a_name_that_one_command_knows_all_know(name: str) -> None:
    """A search and an estimate of layouts take the same chip, memory and server."""
    priced, found = machine_named(name), asked_machine(name, "--cluster")
    check_cluster(None, name)  # type: ignore[arg-type]
    one, known = found.cluster(1), known_machine(name)
    assert known_machine(found.name).name == priced.name == known.name
    assert known.cluster == found.name
    assert one.usable_memory_bytes == priced.usable_bytes
    assert one.reserved_memory_bytes == priced.reserved_bytes
    assert one.chip.name == known.chip
    assert one.chip.family == priced.family
    assert found.file.servers[found.entries[0].use].devices == priced.server


@pytest.mark.parametrize("name", chip_names())
def test_a_chip_stands_for_its_cluster_or_none_command_knows_it(name: str) -> None:
    of_chip = [known for known in known_machines().values() if known.chip == name]
    assert is_machine(name) is bool(of_chip)
    if of_chip:
        assert known_machine(name).chip == name
        return
    with pytest.raises(ClusterError, match=f"no cluster of data/clusters has the chip {name}"):
        asked_machine(name, "--cluster")
    with pytest.raises(UserError, match=f"no cluster of data/clusters has the chip {name}"):
        machine_named(name)


def test_of_several_clusters_with_one_chip_one_is_the_usual() -> None:
    by_chip: dict[str, list[bool]] = {}
    for known in known_machines().values():
        usual = bool(data.read_yaml("clusters", f"{known.cluster}.yaml").get("usual"))
        by_chip.setdefault(known.chip, []).append(usual)
    for chip, said in by_chip.items():
        assert sum(said) == (len(said) > 1), chip


@pytest.mark.parametrize("name", cluster_names())
def test_every_bundled_cluster_is_a_known_machine(name: str) -> None:
    assert named_machine(name).name == name
    assert known_machine(name).cluster == name


def test_names_are_read_however_they_are_spelled() -> None:
    assert named_machine("H100").name == named_machine("h100_sxm_80g").name == "dgx-h100"
    assert named_machine("DGX_1V").name == "dgx-1v"
    assert machine_named("dgx-1v").name == "v100-dgx1"
    assert named_machine("a100-40g").cluster(16).chip.memory_bytes == 40 * 2**30
    assert named_machine("910B").name == "ascend-910b"


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
    from costmodel.simulation.layout_step import ACROSS, INSIDE  # noqa: PLC0415

    tiers: Any = named_machine("dgx-h100").cluster(16).tiers
    assert [tier.name for tier in tiers] == [ACROSS, INSIDE]
