from collections.abc import Iterator
from typing import Any

import pytest

import data
from topology import chip_names, cluster_names, named_chip
from topology.catalogue import named_machine, server_names
from topology.chip_file import ChipFile
from topology.chips import chip_profile
from topology.cluster_file import ClusterFile
from topology.server_file import ServerFile
from topology.uses import bundled

pytestmark = pytest.mark.fast

FILES = [
    (folder, name) for folder in ("chips", "servers", "clusters") for name in data.names(folder)
]
SOURCES = data.read_yaml("sources.yaml")


def _load(folder: str, name: str) -> ChipFile | ServerFile | ClusterFile:
    if folder == "chips":
        return chip_profile(name)
    if folder == "servers":
        return ServerFile.model_validate(bundled("servers", name))
    return named_machine(name).file


def _sourced(record: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a dumped file that is a number with its origin."""
    if isinstance(record, dict):
        if "value" in record:
            yield record
        record = list(record.values())
    if isinstance(record, (list, tuple)):
        for each in record:
            yield from _sourced(each)


def _sources(record: Any) -> Iterator[str]:
    """Every key of a source in a dumped file."""
    if isinstance(record, dict):
        yield from record.get("source", ())
        record = list(record.values())
    if isinstance(record, (list, tuple)):
        for each in record:
            yield from _sources(each)


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_a_file_is_named_like_what_it_describes(folder: str, name: str) -> None:
    assert _load(folder, name).name == name


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_every_number_has_a_known_source_or_is_marked_as_assumed(folder: str, name: str) -> None:
    loaded = _load(folder, name)
    records = list(_sourced(loaded.model_dump()))
    assert records
    assert set(_sources(loaded.model_dump())) <= set(SOURCES)
    for record in records:
        assert record["confidence"] != "stated", record
        assert record["source"] or record["confidence"] == "assumed", record
        if record["confidence"] == "assumed":
            assert record["note"], record
        else:
            assert record["note"] or "DERIVED" not in record["source"] or folder == "chips", record


def test_the_machines_of_the_brief_are_bundled() -> None:
    assert {
        "atlas-800-9000", "atlas-800t-a2", "cloudmatrix384", "dgx-a100", "dgx-h100",
    } <= set(cluster_names())  # fmt: skip
    assert len(chip_names()) == 36
    assert len(server_names()) == 30
    used = {entry.use for name in cluster_names() for entry in named_machine(name).entries}
    assert used == set(server_names()), "every server stands in a cluster that a search can name"


@pytest.mark.parametrize("name", chip_names())
def test_every_chip_has_plausible_numbers(name: str) -> None:
    chip = named_chip(name)
    assert chip.peak_flops
    for dtype, peak in chip.peak_flops.items():
        assert chip.supports(dtype)
        assert 1e12 < peak < 2e16
    assert chip.vector_flops <= max(chip.peak_flops.values())
    assert 8 * 2**30 <= chip.memory_bytes < 300 * 2**30
    assert 5e10 < chip.memory_bandwidth_bytes_per_s < 1e13
    assert 0.5 <= chip.matmul_efficiency <= 1
    assert 0.5 < chip.memory_efficiency <= 1
    assert 1e-7 < chip.launch_latency_s < 1e-4


def test_the_first_ascend_generation_has_no_bfloat16() -> None:
    assert not named_chip("ascend_910a").supports("bfloat16")
    assert named_chip("ascend_910b3").supports("bfloat16")


def test_the_matmul_peak_of_ascend_is_that_of_the_matrix_units_alone() -> None:
    assert named_chip("ascend_910b3").peak_flops["float16"] == pytest.approx(294.9e12, rel=1e-3)
    assert named_chip("ascend_910b2").peak_flops["float16"] == pytest.approx(353.9e12, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "eight", "four"),
    [("a100_sxm_80g", None, None), ("h100_sxm_80g", 1978.9, None), ("b200", 4500, 9000),
     ("gb300", 5000, 15000), ("ascend_950pr_atlas350", 804, 1561)],
)  # fmt: skip
def test_chips_have_the_rates_of_narrow_types(
    name: str, eight: float | None, four: float | None
) -> None:
    peaks = named_chip(name).peak_flops
    for dtype, peak in (("float8", eight), ("float4", four)):
        assert peaks.get(dtype) == (None if peak is None else pytest.approx(peak * 1e12))


def test_older_chip_files_have_narrow_types_beside_the_peaks() -> None:
    file = chip_profile("b200")
    peaks = {dtype: rate for dtype, rate in file.peak_matmul.items() if "float8" not in dtype}
    older = file.model_copy(
        update={"peak_matmul": peaks, "other_peaks": {"float8": file.peak_matmul["float8"]}}
    )
    assert older.to_chip() == file.to_chip()


def test_aliases_of_chips_are_unique() -> None:
    aliases = [alias.lower() for name in chip_names() for alias in chip_profile(name).aliases]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & set(chip_names())
    assert named_chip("Ascend910B3") == named_chip("ascend_910b3")
