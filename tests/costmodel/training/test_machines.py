"""Which machine a name or a text stands for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.operators import chip_constants
from costmodel.training.families import family_of
from costmodel.training.machines import machine, machine_of
from costmodel.training.records import LayoutError
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import run
from topology.catalogue import named_chip
from topology.errors import ClusterError
from topology.machine_names import known_machine, known_machines, spelled

pytestmark = pytest.mark.fast

NAMES = list(known_machines())


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_answers_to_its_names_and_its_chip(name: str) -> None:
    known = known_machines()[name]
    for each in (name, name.upper(), name.replace("-", "_"), known.cluster, *known.aliases):
        assert known_machine(each) == known


def test_no_name_stands_for_two_machines() -> None:
    names: dict[str, str] = {}
    for known in known_machines().values():
        for each in {*map(spelled, (known.name, known.cluster, *known.aliases))}:
            assert names.setdefault(each, known.name) == known.name


@pytest.mark.parametrize("name", NAMES)
def test_what_power_allows_is_a_share_of_the_peak(name: str) -> None:
    known = machine(name)
    for each, peak in known.peak_flops.items():
        assert known.peak(each) == peak
        assert known.flops(each) == pytest.approx(known.sustained * peak, rel=1e-12)


def test_large_products_reach_what_was_measured_of_each_generation() -> None:
    """Over the A100: share / (1 + throttle) of the products measured on one chip of each."""

    def reached(chip: str) -> float:
        rates = chip_constants(named_chip(chip)).matmul
        return float(rates.share) / (1.0 + float(rates.throttle))

    first = reached("a100_sxm_80g")
    for name, chip in (
        ("a100-80g", "a100_sxm_80g"),
        ("h100", "h100_sxm_80g"),
        ("gb200", "gb200_186g"),
    ):
        known = machine(name)
        assert known.products == pytest.approx(reached(chip) / first, abs=0.005)
        table = RunTable.of([replace(run(machine=name), precision="bf16")])
        assert table.machine.products16[0] == known.products


@given(st.sampled_from(NAMES), st.sampled_from(["0", "00", "x", "-pcie"]))
def test_a_name_with_more_letters_is_another_machine(name: str, more: str) -> None:
    """No chip is taken for one whose name it begins with; the error names that one."""
    with pytest.raises(ClusterError, match=name):
        known_machine(name + more)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA A100 (memory size not stated)", "a100-80g"),
        ("NVIDIA A100-SXM4-40GB", "a100-40g"),
        ("8x H100 SXM5 80GB", "h100"),
        ("8xH100", "h100"),
        ("NVIDIA H100 96GB HBM2e 500W", "h100-96g-hbm2e"),
        ("NVIDIA GB200 NVL72", "gb200"),
        ("Ascend 910 (ModelArts; 8 per server)", "ascend-910a"),
        ("Ascend 910A (Atlas 800 / v1.0 docs default)", "ascend-910a"),
        ("Ascend 910B (Atlas 800T A2)", "ascend-910b3"),
        ("Ascend 910B (Atlas 800)", "ascend-910a"),
        ("Ascend 910B, Atlas 800 (model 9000)", "ascend-910a"),
        ("Ascend 910B (Atlas 800I A2)", "ascend-910b"),
        ("Ascend 910B (Atlas 800 A2)", "ascend-910b"),
        ("Ascend 910B (Atlas 900 A2 PoDc)", "ascend-910b"),
        ("Ascend 910B4", "ascend-910b4"),
        ("Ascend910B3", "ascend-910b3"),
        ("8x Ascend910_93", "ascend-910c"),
        ("TPUv5e", "tpu-v5e"),
        ("Ascend 910C / Atlas A3 (script name)", "ascend-910c"),
        ("NVIDIA V100 32GB (DGX-2)", "v100-dgx2"),
        ("TPU v6e Trillium", "tpu-v6e"),
        ("TPU v4", "tpu-v4"),
        ("TPU7x", "tpu-v7x"),
        ("Atlas 800T A2", "ascend-910b3"),
        ("Atlas 900 A2 PoDc", "ascend-910b"),
        ("Ascend 910B2C", "ascend-910b"),
        ("CloudMatrix384", "cloudmatrix384"),
        ("DGX-2", "v100-dgx2"),
        ("TPU v3-256", "tpu-v3"),
        ("NVIDIA H800 80GB", "h800"),
        ("8x NVIDIA A800-SXM4-80GB", "a800-80g"),
        ("NVIDIA H20 96GB", "h20-96g"),
        ("NVIDIA H200", "h200"),
        ("V100 32GB (DGX-1)", "v100-dgx1"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_whole_words_of_a_text_name_a_machine(text: str, name: str) -> None:
    assert machine_of(text).name == name


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA H1000",
        "GH200",
        "NVIDIA A100 80GB PCIe",
        "Ascend 910B9",
        "H100 NVL",
        "XB200",
        "A800 PCIe",
    ],
)
def test_part_of_a_word_names_none(text: str) -> None:
    with pytest.raises(LayoutError, match=r"is not in .*nearest: "):
        machine_of(text)


@pytest.mark.parametrize("name", NAMES)
def test_rates_are_those_of_the_chip(name: str) -> None:
    """Rows of published runs and plans take the same peaks and the same memory."""
    known, chip = machine(name), named_chip(known_machines()[name].chip)
    assert known.memory_bytes_per_s == chip.memory_bandwidth_bytes_per_s
    assert known.usable_bytes + known.reserved_bytes == chip.memory_bytes
    for short, dtype in (("fp8", "float8"), ("fp4", "float4"), ("fp16", "float16")):
        assert known.peak_flops.get(short) == chip.peak_flops.get(dtype)


def test_links_and_ports_are_those_of_the_cluster() -> None:
    """What follows from links, ports that are shared, parts of servers, and tori."""
    assert machine("h100").link_bytes_per_s == 450e9
    assert machine("v100-32g").link_bytes_per_s == 2 * 25e9
    assert machine("ascend-910c").port_bytes_per_s == 50e9 / 2, "two dies on a port"
    assert machine("cloudmatrix384").port_bytes_per_s == 196e9
    rings = machine("ascend-910a")
    assert (rings.mesh, rings.meshed) == (True, 4)
    assert machine("atlas-200t-a2-box16").meshed == 8
    torus = machine("tpu-v4")
    assert not torus.mesh
    assert torus.link_bytes_per_s == pytest.approx(6 * 45e9)


@pytest.mark.slow
def test_tpus_before_the_v6e_reach_more_of_their_peak() -> None:
    assert machine("tpu-v5p").flops("bf16") == 459e12
    assert machine("tpu-v6e").flops("bf16") == pytest.approx(0.67 * 918e12)


def test_chips_go_before_software_where_another_stack_has_run_on_them() -> None:
    """torchtitan on an A100: the constants that its own began at, as they are on that chip."""
    on_a100 = replace(run(machine="a100-80g"), profile="torchtitan")
    family, why = family_of(on_a100)
    assert family.name == "fsdp-ampere"
    assert why == "constants of fsdp-ampere: no runs of torchtitan on these chips"
    assert family_of(replace(on_a100, machine="b200"))[0].name == "torchtitan-hopper"


@pytest.mark.parametrize(
    ("profile", "name", "family"),
    [
        ("maxtext", "h100", "megatron-core-hopper"),
        ("maxtext", "b200", "megatron-core-blackwell"),
        ("maxtext", "mi300x", "maxtext-tpu"),
        ("torchtitan", "ascend-910b", "mindspeed-910b"),
        ("pytorch", "a100-80g", "fsdp-ampere"),
        ("pytorch", "h200", "fsdp-hopper"),
        ("pytorch", "tpu-v5p", "maxtext-tpu"),
    ],
)
def test_the_usual_software_of_chips_goes_before_chips_of_another_maker(
    profile: str, name: str, family: str
) -> None:
    found, why = family_of(replace(run(machine=name), profile=profile))
    assert found.name == family
    assert why.startswith(f"constants of {family}: ")


def test_constants_of_the_nearest_age_stand_in() -> None:
    """A stack without runs on a chip takes what it does on chips of about that age."""
    found = {
        name: family_of(replace(run(machine=name), profile="megatron-core"))
        for name in ("a100-80g", "v100-32g", "mi300x", "h800", "b200")
    }
    names = {name: family.name for name, (family, _) in found.items()}
    assert set(names.values()) == {"megatron-core-hopper", "megatron-core-blackwell"}
    assert [name for name, family in names.items() if family.endswith("blackwell")] == ["b200"]
    inherited = {name for name, (_, why) in found.items() if why}
    assert inherited == {"a100-80g", "v100-32g", "mi300x"}
