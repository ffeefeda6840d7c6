"""Two kinds of servers in one job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.topology.machines import SERVER, link, machine
from topology import TierKind, named_chip
from topology.kinds import common_chip

pytestmark = pytest.mark.fast


def mixed(
    one: str = "atlas_800_9000", two: str = "atlas_800t_a2", count: int = 2
) -> dict[str, Any]:
    return {
        "schema_version": 2,
        "name": "mixed",
        "cluster": {
            "servers": [{"use": one, "count": count}, {"use": two, "count": count}],
            "fabrics": {"server": {"type": "switch"}},
        },
    }


def test_a_job_over_two_kinds_has_what_both_have() -> None:
    cluster = machine(mixed()).cluster()
    assert cluster.devices == 32
    server, ring, card = cluster.tiers
    assert server.bandwidth_bytes_per_s == 12e9
    assert (ring.kind, card.kind) == (TierKind.PAIRS, TierKind.FULL_MESH)
    assert ring.bandwidth_bytes_per_s == pytest.approx(18.2e9)
    assert ring.shared_capacity_bytes_per_s == 64e9
    assert card.bandwidth_bytes_per_s == pytest.approx(18.2e9)
    assert cluster.chip.memory_bytes == 32 * 2**30
    assert not cluster.chip.supports("bfloat16")
    assert cluster.chip.peak_flops["float16"] == 256e12


def test_the_order_of_the_kinds_changes_nothing_but_names() -> None:
    one, two = (machine(mixed(*names)).cluster() for names in (
        ("atlas_800_9000", "atlas_800t_a2"), ("atlas_800t_a2", "atlas_800_9000"),
    ))  # fmt: skip
    assert one.tiers == two.tiers
    assert one.chip.peak_flops == two.chip.peak_flops
    assert one.chip.memory_bandwidth_bytes_per_s == two.chip.memory_bandwidth_bytes_per_s


def test_a_job_inside_the_first_kind_is_not_held_back() -> None:
    ours = machine(mixed("atlas_800t_a2", "atlas_800_9000"))
    assert ours.cluster(16).chip == named_chip("ascend_910b3")
    assert ours.notes(16) == ()


def test_the_output_says_which_kind_limits() -> None:
    notes = " ".join(machine(mixed()).notes())
    assert (
        "matmul is limited by atlas_800_9000 (ascend_910a): 179.2 TFLOP/s of 265.4 TFLOP/s" in notes
    )
    assert "memory is limited by atlas_800_9000 (ascend_910a): 32 GiB of 64 GiB" in notes
    assert "no bfloat16: atlas_800_9000 lacks it" in notes


def test_a_switch_does_the_work_of_a_mesh_with_a_part_of_its_port() -> None:
    given = mixed("dgx_h100", "mi300x_platform")
    given["cluster"]["fabrics"]["server"] = {"type": "switch"}
    card = machine(given).cluster().tiers[-1]
    assert card.kind is TierKind.FULL_MESH
    assert card.bandwidth_bytes_per_s == pytest.approx(min(297e9 / 7, 48e9))


def test_servers_of_different_sizes_are_cut_to_their_common_part() -> None:
    given = mixed("mine", "large", 1)
    given["servers"] = {"mine": SERVER, "large": SERVER | {"devices": 8}}
    ours = machine(given)
    assert [(t.name, t.size) for t in ours.cluster().tiers] == [("server", 3), ("card", 4)]
    assert ours.cluster(4).devices == 4
    given["servers"]["large"] = SERVER | {"devices": 6}
    assert [t.size for t in machine(given).cluster().tiers] == [5, 2]


def test_leaves_that_are_narrow_for_one_kind_are_a_tier_for_both() -> None:
    given = mixed("atlas_800_9000", "atlas_800t_a2", 2)
    uplinks = {"servers_per_leaf": 2, "uplinks": 8, "uplink_bandwidth": "25 GB/s"}
    given["cluster"]["fabrics"]["server"] = {"type": "leaf_spine", **uplinks}
    names = [(tier.name, tier.size) for tier in machine(given).cluster().tiers]
    assert names == [("server", 4), ("ring", 2), ("card", 4)]
    assert machine(given).cluster().tiers[0].shared_capacity_bytes_per_s == pytest.approx(100e9)


def test_a_torus_and_a_mesh_have_a_line_of_links_in_common() -> None:
    given = mixed("mine", "ring", 1)
    ring = SERVER | {"links": {"ring": link("ICI", "50 GB/s", ring="all")}}
    given["servers"] = {"mine": SERVER, "ring": ring}
    card = machine(given).cluster().tiers[-1]
    assert (card.kind, card.bandwidth_bytes_per_s) == (TierKind.TORUS, 28e9)
    assert card.latency_s == 2e-6, "the longer of 1 and 2 us"


def test_each_element_type_has_the_slower_of_two_rates() -> None:
    slow = replace(named_chip("b200"), name="slow", peak_flops={"float16": 1e12, "int8": 9e12})
    fast = replace(named_chip("b200"), name="fast", peak_flops={"float16": 2e12, "int8": 5e12})
    assert common_chip(slow, fast).peak_flops == {"float16": 1e12, "int8": 5e12}
    assert common_chip(fast, slow).peak_flops == {"float16": 1e12, "int8": 5e12}


def test_a_chip_with_itself_is_itself() -> None:
    chip = named_chip("b200")
    assert common_chip(chip, chip) is chip
    both = common_chip(chip, named_chip("a100_sxm_80g"))
    assert both.family == "the least of b200 and a100_sxm_80g"
    achieved = {d: f * both.matmul_efficiency for d, f in both.peak_flops.items()}
    for other in (chip, named_chip("a100_sxm_80g")):
        for dtype, rate in achieved.items():
            assert rate <= other.peak_flops[dtype] * other.matmul_efficiency * (1 + 1e-12)
