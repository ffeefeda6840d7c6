import csv
import itertools
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.operators import MatmulRates, chip_constants, generation_of, matmul_s, units_of
from tests.costmodel.operators.chips import CHIPS, dtype_of
from topology.cluster import Chip

PLAIN = MatmulRates(
    units=100,
    share=1.0,
    tile_penalty=0.0,
    start_length=0.0,
    blend=0.0,
    split_cost=1e9,
    memory=1.0,
    sharpness=200.0,
    throttle=0.0,
    throttle_after_s=1.0,
    start_s=0.0,
    largest_tile=128 * 128,
    fewest_rows=128,
)
"""Tiles of 128 x 128 and 128 x 64, nothing lost but what does not fill them."""

UNIT_RATE = 1e13
LARGE = 1e18
"""A bandwidth that never binds."""

MEASURED = Path("tests/data/operators/matmul_measured.csv")
SYSTEMS = {
    "a100_sxm": ("a100_sxm_80g", 312e12, 2.039e12),
    "h100_sxm": ("h100_sxm_80g", 989.4e12, 3.35e12),
    "h200_sxm": ("h200_sxm_141g", 989.4e12, 4.8e12),
    "b200_sxm": ("b200", 2250e12, 8e12),
    "gb200": ("gb200_186g", 2500e12, 8e12),
}


def _plain_s(m: float, n: float, k: float, rates: MatmulRates = PLAIN) -> float:
    return float(matmul_s((1.0, m, n, k), 100 * UNIT_RATE, LARGE, rates))


def test_a_product_of_one_wave_takes_the_time_of_one_tile() -> None:
    tile = 2 * 128 * 128 * 512 / UNIT_RATE
    assert _plain_s(128 * 10, 128 * 10, 512) == pytest.approx(tile)


def test_one_tile_more_than_a_wave_costs_another_tile() -> None:
    tile = 2 * 128 * 128 * 512 / UNIT_RATE
    assert _plain_s(128 * 10, 128 * 10 + 1, 512) == pytest.approx(1.5 * tile)  # 210 half tiles
    only_whole = replace(PLAIN, tile_penalty=1e9)
    assert _plain_s(128 * 10, 128 * 10 + 1, 512, only_whole) >= 2 * tile


def test_a_blend_of_waves_gives_back_a_part_of_what_the_last_one_wastes() -> None:
    tile = 2 * 128 * 64 * 512 / UNIT_RATE
    whole, half = _plain_s(1280, 1281, 512), _plain_s(1280, 1281, 512, replace(PLAIN, blend=0.5))
    assert whole == pytest.approx(3 * tile)
    assert half == pytest.approx((0.5 * 3 + 0.5 * 2.1) * tile)


def test_a_batch_of_products_fills_units_like_one_large_product() -> None:
    batched = matmul_s((10.0, 128.0, 1280.0, 512.0), 100 * UNIT_RATE, LARGE, PLAIN)
    assert float(batched) == pytest.approx(_plain_s(1280, 1280, 512))


def test_starting_a_tile_costs_like_a_longer_inner_dimension() -> None:
    started = _plain_s(1280, 1280, 512, replace(PLAIN, start_length=512.0))
    assert started == pytest.approx(2 * _plain_s(1280, 1280, 512))


def test_few_tiles_split_the_inner_dimension_where_partial_sums_are_cheap() -> None:
    cheap = replace(PLAIN, split_cost=1e-9)
    assert _plain_s(128, 128, 8192, cheap) == pytest.approx(_plain_s(128, 128, 8192) / 8, rel=1e-3)


def test_a_thin_product_takes_the_time_of_its_traffic() -> None:
    time = float(matmul_s((1.0, 8.0, 8192.0, 8192.0), 1e18, 1e12, PLAIN))
    assert time == pytest.approx(2 * (8 * 8192 * 2 + 8192 * 8192) / 1e12, rel=1e-3)


def test_a_long_run_feels_the_throttle_at_once() -> None:
    rates = replace(PLAIN, throttle=0.3, throttle_after_s=1.0)
    assert _plain_s(1280, 1280, 512, rates) == pytest.approx(_plain_s(1280, 1280, 512))
    ratio = _plain_s(1280, 1280, 512, rates.sustained()) / _plain_s(1280, 1280, 512)
    assert ratio == pytest.approx(1.3)


def test_a_smooth_product_costs_what_it_fills_and_hides_its_traffic() -> None:
    tile = 2 * 128 * 64 * 512 / UNIT_RATE
    rates = replace(PLAIN, sharpness=1.0, throttle=0.1)
    assert _plain_s(1280, 1281, 512, rates.smooth()) == pytest.approx(1.1 * 2.1 * tile)
    bound = float(matmul_s((1.0, 8.0, 8192.0, 8192.0), 1e18, 1e12, rates.smooth()))
    assert bound == pytest.approx(1.1 * 2 * (8 * 8192 * 2 + 8192 * 8192) / 1e12, rel=1e-12)


sizes = st.tuples(*[st.integers(1, 20000)] * 3)


@given(shape=sizes, more=st.tuples(*[st.integers(0, 3000)] * 3), chip=st.sampled_from(CHIPS))
def test_a_larger_product_is_never_faster(
    shape: tuple[int, int, int], more: tuple[int, int, int], chip: Chip
) -> None:
    rates = chip_constants(chip).matmul
    (m, n, k), (dm, dn, dk) = shape, more
    small = matmul_s((1.0, m, n, k), 1e14, 1e12, rates)
    large = matmul_s((1.0, m + dm, n + dn, k + dk), 1e14, 1e12, rates)
    assert 0 < small <= large


@given(shape=sizes, factor=st.floats(1.0, 4.0), chip=st.sampled_from(CHIPS))
def test_a_faster_chip_is_never_slower(
    shape: tuple[int, int, int], factor: float, chip: Chip
) -> None:
    rates = chip_constants(chip).matmul
    m, n, k = shape
    given_sizes = (1.0, m, n, k)
    base = matmul_s(given_sizes, 1e14, 1e12, rates)
    assert matmul_s(given_sizes, 1e14 * factor, 1e12, rates) <= base * (1 + 1e-12)
    assert matmul_s(given_sizes, 1e14, 1e12 * factor, rates) <= base * (1 + 1e-12)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
def test_large_products_come_near_the_known_share_of_the_peak(chip: Chip) -> None:
    known = chip_constants(chip)
    peak, bandwidth = chip.peak_flops[dtype_of(chip)], chip.memory_bandwidth_bytes_per_s
    time = matmul_s((1.0, 16384.0, 16384.0, 16384.0), peak, bandwidth, known.matmul)
    reached = 2 * 16384.0**3 / float(time) / peak
    assert 0.7 * known.share < reached <= known.share


def test_measured_shapes_that_no_constant_was_fitted_on_are_predicted() -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    with MEASURED.open(encoding="utf-8") as lines:
        rows = csv.DictReader(itertools.filterfalse(lambda line: line.startswith("#"), lines))
        for row in rows:
            if row["system"] not in SYSTEMS:
                continue
            chip, peak, bandwidth = SYSTEMS[row["system"]]
            rates = chip_constants(next(c for c in CHIPS if c.name == chip)).matmul
            shape = (1.0, float(row["m"]), float(row["n"]), float(row["k"]))
            predicted = float(matmul_s(shape, peak, bandwidth, rates))
            errors[row["system"]].append(abs(predicted / (float(row["latency_ms"]) / 1e3) - 1))
    assert set(errors) == set(SYSTEMS)
    for system, found in errors.items():
        assert len(found) == 60
        assert np.median(found) < 0.06, system
        assert np.quantile(found, 0.9) < 0.2, system


def test_constants_may_differ_from_row_to_row() -> None:
    each = [chip_constants(chip).matmul for chip in CHIPS[:3]]
    table = {f: np.array([float(getattr(r, f)) for r in each]) for f in each[0].__slots__}
    together = matmul_s((1.0, 4096.0, 4096.0, 4096.0), 1e14, 1e12, MatmulRates(**table))
    alone = [matmul_s((1.0, 4096.0, 4096.0, 4096.0), 1e14, 1e12, rates) for rates in each]
    assert together.tolist() == pytest.approx([float(t) for t in alone])


def test_many_products_take_what_each_takes_alone() -> None:
    rates = replace(PLAIN, units=np.array([[50.0], [100.0]]), split_cost=1.0)
    m = np.arange(1.0, 6001.0)
    together = matmul_s((1.0, m, 4096.0, 4096.0), 1e14, 1e12, rates)
    assert together.shape == (2, 6000)
    for row, units in enumerate((50.0, 100.0)):
        for column in (0, 2000, 4095, 4096, 5999):
            alone = replace(rates, units=units)
            expected = matmul_s((1.0, m[column], 4096.0, 4096.0), 1e14, 1e12, alone)
            assert together[row, column] == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("field", MatmulRates.__slots__)
def test_any_constant_may_be_an_array(field: str) -> None:
    plain = replace(PLAIN, split_cost=1.0, sharpness=2.0)
    value = float(getattr(plain, field))
    rates = replace(plain, **{field: np.array([value, value, value])})
    found = matmul_s((1.0, 100.0, 100.0, 5000.0), 1e14, 1e12, rates)
    expected = float(matmul_s((1.0, 100.0, 100.0, 5000.0), 1e14, 1e12, plain))
    assert found.tolist() == pytest.approx([expected] * 3)


def test_generations_and_units_are_told_by_the_name() -> None:
    assert generation_of("h100_sxm_80g") == generation_of("mine", "NVIDIA H200") == "hopper"
    assert generation_of("gb200_186g") == "blackwell"
    assert generation_of("xh1000") == "pooled"
    assert units_of("ascend_910b3") == 20
    assert units_of("mine", "NVIDIA A100") == 108
