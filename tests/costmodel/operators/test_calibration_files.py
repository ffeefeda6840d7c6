import csv
import math
from collections.abc import Iterator
from typing import Any

import pytest

import data
from costmodel.operators import attention_kernels, generation_of
from topology import chip_names

pytestmark = pytest.mark.fast

SOURCES = data.read_yaml("sources.yaml")
FACTS = data.read_yaml("calibration", "architectures.yaml")
FITTED = data.read_yaml("calibration", "operators.yaml")


def _numbers(record: Any) -> Iterator[float]:
    if isinstance(record, dict):
        for each in record.values():
            yield from _numbers(each)
    elif isinstance(record, (int, float)):
        yield float(record)


def test_every_fact_names_its_source() -> None:
    for unit in FACTS["units"].values():
        assert set(unit["source"]) <= set(SOURCES)
        assert unit["value"] >= 1
    for generation in FACTS["generations"].values():
        assert set(generation.get("source", ())) <= set(SOURCES)
        assert generation.get("source") or "no measurements" in generation["note"]


def test_every_generation_has_a_kernel_of_attention_with_constants() -> None:
    named = {g["attention"] for g in FACTS["generations"].values() if "attention" in g}
    assert named | {FITTED["other_attention"]} <= set(attention_kernels())


def test_every_bundled_chip_belongs_to_a_generation() -> None:
    assert {generation_of(name) for name in chip_names()} <= set(FACTS["generations"])


def test_fitted_constants_mean_something_physical() -> None:
    matmul = FITTED["matmul"]
    assert set(matmul["generations"]) - {"pooled"} <= set(FACTS["generations"])
    for values in matmul["generations"].values():
        assert 0 <= values["blend"] < 1
        assert values["sharpness"] >= 1
        assert 1e-6 < values["start_s"] < 1e-5
        assert 0 <= values["throttle"] < 0.5
    for values in matmul["chips"].values():
        assert 0.6 < values["share"] < 1
    for kernel in FITTED["attention"].values():
        assert 0 < kernel["share"] <= 1
        assert 0 < kernel["share_backward"] <= 1
    assert all(math.isfinite(v) and v >= 0 for v in _numbers(FITTED))


def test_measurements_of_attention_name_their_sources() -> None:
    rows = list(
        csv.DictReader(data.read_text("calibration", "attention_measured.csv").splitlines())
    )
    assert len(rows) > 200
    assert {row["source"] for row in rows} <= set(SOURCES)
