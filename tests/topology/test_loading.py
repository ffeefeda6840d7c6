"""Machine files: read, filled in, and refused with every fault at once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import data
from tests.topology.machines import SERVER, alone, file, link, machine
from topology import ClusterError, named_chip, named_cluster, read_cluster
from topology.errors import MachineFileError
from topology.loading import check_machine

pytestmark = pytest.mark.fast


def codes(given: dict[str, Any]) -> list[str]:
    found = check_machine(yaml.safe_dump(given), "ours.yaml")[1]
    return [each.code for each in found]


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    given = copy.deepcopy(file())
    change(given)
    return given


def test_a_file_of_the_user_may_state_bare_numbers() -> None:
    cluster = machine(file()).cluster()
    assert cluster.devices == 12
    assert cluster.chip.name == "ascend_910b3"
    assert cluster.tiers[0].bandwidth_bytes_per_s == 25e9
    assert machine(file()).cluster(3).devices == 3


def test_json_is_the_same_format() -> None:
    assert read_cluster(json.dumps(file()), "ours.json") == machine(file()).cluster()


def test_a_chip_may_stand_in_the_file_itself() -> None:
    chip = data.read_yaml("chips", "v100_sxm2_32g.yaml")
    inline = {**SERVER, "chip": chip}
    assert machine(file(inline)).cluster().chip == named_chip("v100_sxm2_32g")
    layered = {**file({**SERVER, "chip": "own"}), "chips": {"own": {**chip, "name": "own"}}}
    assert machine(layered).cluster().chip.name == "own"


def test_bundled_parts_are_used_and_overridden() -> None:
    given = {
        "schema_version": 2,
        "name": "uncapped",
        "use": "atlas-800-9000",
        "override": {
            "servers": {
                "atlas_800_9000": {
                    "use": "atlas_800_9000",
                    "override": {
                        "links": {"pcie": {"via": None, "efficiency": 0.5}},
                        "shared": {"pcie_cross": None},
                    },
                }
            }
        },
    }
    ring = machine(given).cluster(8).tiers[0]
    assert ring.shared_capacity_bytes_per_s is None
    assert ring.bandwidth_bytes_per_s == 16e9
    assert named_cluster("atlas-800-9000", 8).tiers[0].shared_capacity_bytes_per_s == 64e9


def test_an_overridden_number_does_not_keep_the_origin_of_the_old_one() -> None:
    own = {"use": "dgx_a100", "override": {"nics": {"ib": {"bandwidth": {"value": "50 GB/s"}}}}}
    found = machine(file(own)).file.servers["mine"].nics["ib"].bandwidth
    assert (found.value, found.source, found.confidence) == ("50 GB/s", (), "stated")


def test_a_chip_may_be_a_changed_bundled_one() -> None:
    given = file({**SERVER, "chip": "big"})
    given["chips"] = {
        "big": {"use": "ascend_910b3", "override": {"memory": {"capacity": "128 GiB"}}}
    }
    assert machine(given).cluster().chip.memory_bytes == 128 * 2**30


def test_a_machine_of_open_size_needs_a_number_of_devices() -> None:
    ours = machine(file(count=None))
    with pytest.raises(ClusterError, match="the number of servers of 'ours' is open"):
        ours.cluster()
    assert ours.cluster(400).tiers[0].size == 100


@pytest.mark.parametrize(
    ("change", "code", "fault"),
    [
        (lambda f: f.update(names="x"), "E_UNKNOWN_KEY", "names: no such key here"),
        (lambda f: f.update(schema_version=3), "E_VALUE", "schema_version: "),
        (lambda f: f.update(schema_version=1), "E_VERSION", "described tiers alone"),
        (lambda f: f["servers"]["mine"].pop("devices"), "E_MISSING", "servers.mine.devices"),
        (
            lambda f: f["servers"]["mine"]["links"]["mesh"].update(bandwidth="100 Gib/s"),
            "E_UNIT",
            "servers.mine.links.mesh.bandwidth: unknown unit 'Gib/s'",
        ),
        (
            lambda f: f["servers"]["mine"]["links"]["mesh"].update(bandwidth="0 Gb/s"),
            "E_UNIT",
            "is not above zero",
        ),
        (
            lambda f: f["servers"]["mine"]["links"]["mesh"].update(bandwidth="1e400 GB/s"),
            "E_UNIT",
            "beyond all machines",
        ),
        (
            lambda f: f["servers"]["mine"]["links"]["mesh"].update(latency=10),
            "E_UNIT",
            "'10' has no unit",
        ),
        (
            lambda f: f["servers"]["mine"]["links"]["mesh"].update(ring="all"),
            "E_GENERATOR",
            "exactly one of",
        ),
        (lambda f: f["servers"]["mine"].update(chip="Ascend910B"), "E_CHIP", "unknown chip"),
        (lambda f: f["cluster"]["servers"][0].update(use="none"), "E_USE", "unknown server 'none'"),
        (lambda f: f["cluster"].update(fabrics={}), "E_DISCONNECTED", "nothing joins the servers"),
        (
            lambda f: f["cluster"]["fabrics"]["server"].update(servers=2),
            "E_DISCONNECTED",
            "they join 2 servers, not 3 servers",
        ),
        (
            lambda f: f["cluster"]["fabrics"]["server"].update(type="leaf_spine"),
            "E_FABRIC",
            "leaf_spine needs servers_per_leaf",
        ),
        (
            lambda f: f["cluster"]["fabrics"]["server"].update(oversubscription=2),
            "E_FABRIC",
            "switch has no uplinks",
        ),
        (
            lambda f: f["cluster"]["fabrics"]["server"].update(nic="ib"),
            "E_NIC",
            "has no nic 'ib': roce",
        ),
        (
            lambda f: f["cluster"]["servers"][0].update(names="n-[0-3]"),
            "E_NAMES",
            "4 names for 3 servers",
        ),
        (
            lambda f: f["cluster"]["servers"][0].update(names=["a", "b", "a"]),
            "E_NAMES",
            "the name 'a' stands twice",
        ),
        (
            lambda f: f["cluster"]["servers"][0].update(names="n-[3-0]"),
            "E_NAMES",
            "has -2 names",
        ),
        (
            lambda f: f["cluster"].update(library={"name": "gloo"}),
            "E_LIBRARY",
            "no library 'gloo'",
        ),
        (
            lambda f: f["cluster"].update(
                library={"name": "nccl", "generation": "ampere", "profile": "none"}
            ),
            "E_LIBRARY",
            "no profile 'none'; known: ",
        ),
        (
            lambda f: f["cluster"]["servers"].append({"use": "dgx_a100"}),
            "E_COUNT",
            "need a count each",
        ),
    ],
)
def test_a_fault_in_a_file_is_told_with_its_place(
    change: Callable[[dict[str, Any]], object], code: str, fault: str
) -> None:
    given = changed(change)
    assert code in codes(given)
    with pytest.raises(MachineFileError) as caught:
        machine(given)
    assert fault in caught.value.what
    assert str(caught.value).count("\n") == 2


def test_networks_that_do_not_nest_are_told() -> None:
    pods = {"type": "switch", "servers": 3}
    for outer in ({"type": "switch", "servers": 4}, {"type": "switch", "servers": 3}):
        given = file(count=12, fabrics={"server": pods, "pod": outer})
        assert "E_FABRIC" in codes(given)
    assert codes(file(count=12, fabrics={"server": pods, "pod": {"type": "switch"}})) == []


def test_all_faults_of_a_file_are_told_at_once() -> None:
    given = file(count=2)
    broken = {**copy.deepcopy(SERVER), "devices": 0}
    broken["links"]["mesh"] |= {"bandwidth": "28 GB", "latency": "2 MB"}
    other = {**copy.deepcopy(SERVER), "links": {"mesh": link(full_mesh=[0, 1, 9])}}
    given["servers"] = {"mine": broken, "other": other}
    with pytest.raises(MachineFileError) as caught:
        machine(given)
    for place in (
        "servers.mine.devices", "servers.mine.links.mesh.bandwidth",
        "servers.mine.links.mesh.latency", "servers.other.links.mesh: a link to device 9",
    ):  # fmt: skip
        assert place in caught.value.what


def test_an_error_tells_a_bounded_number_of_faults() -> None:
    given = file()
    given["servers"]["mine"] = {**SERVER, **{f"odd{i}": 1 for i in range(500)}}
    with pytest.raises(MachineFileError) as caught:
        machine(given)
    assert len(caught.value.violations) == 500
    assert "and 460 more" in caught.value.what


def test_what_is_odd_but_valid_is_a_warning() -> None:
    given = file()
    given["servers"]["mine"] = copy.deepcopy(SERVER)
    given["servers"]["mine"]["links"]["mesh"]["bandwidth"] = "240 GB/s"
    assert codes(given) == ["W_FAST"]
    assert codes(file()) == []


def test_links_that_the_planner_counts_for_less_are_a_warning() -> None:
    links = {
        "mesh": link(full_mesh="all"),
        "double": link(pairs=[[0, 1]], lanes=2),
        "switch": link("UB", "1 GB/s", switch="all"),
    }
    found = check_machine(yaml.safe_dump(alone(links, 3)), "ours.yaml")[1]
    assert [each.code for each in found] == ["W_UNEVEN", "W_UNEVEN"]
    assert "20 GB/s, but the planner's tier 'card' counts 10 GB/s" in found[0].message
    assert "do not use these links" in found[1].message
