from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.attention_fit import read
from costmodel.operators import (
    AttentionRates,
    AttentionShape,
    OperatorModel,
    attention_kernels,
    attention_rates,
    fused_attention_s,
)
from tests.costmodel.operators.chips import CHIPS, dtype_of, faster
from topology import named_chip
from topology.cluster import Chip

MEASURED = Path("data/calibration/attention_measured.csv")
RATES = AttentionRates(1.0, 0.5, 0.0, 0.0, 0.0)
CHIP = (10.0, 1e14, 1e12, 1e30)


def _share(model: OperatorModel, head: int, *, backward: bool) -> float:
    """Share of the peak in long causal rows."""
    shape = AttentionShape(1, 32, 32, 16384, 16384, head)
    time = model.attention_s("bfloat16", shape, causal=True, backward=backward)
    flops = 4 * 32 * 16384**2 * head / 2 * (2.5 if backward else 1)
    return float(flops / time / model.peak_flops("bfloat16"))


def test_without_overheads_attention_takes_its_products() -> None:
    shape = AttentionShape(2, 8, 8, 1024, 1024, 64)
    flops = 4 * 2 * 8 * 1024**2 * 64
    forward = fused_attention_s(shape, CHIP, RATES, causal=False, backward=False)
    backward = fused_attention_s(shape, CHIP, RATES, causal=False, backward=True)
    assert float(forward) == pytest.approx(flops / 1e14)
    assert float(backward) == pytest.approx(2.5 * flops / 0.5e14)


def test_a_causal_mask_saves_half_but_for_the_tiles_on_the_diagonal() -> None:
    shape = AttentionShape(2, 8, 8, 1024, 1024, 64)
    full = fused_attention_s(shape, CHIP, RATES, causal=False, backward=False)
    half = fused_attention_s(shape, CHIP, RATES, causal=True, backward=False)
    assert float(half / full) == pytest.approx((1024 + 128) / 2 / 1024)


def test_a_lone_tile_has_one_unit_for_itself() -> None:
    shape = AttentionShape(1, 1, 1, 128, 1024, 64)
    alone = fused_attention_s(shape, CHIP, RATES, causal=False, backward=False)
    assert float(alone) == pytest.approx(4 * 128 * 1024 * 64 / (1e14 / 10))
    model, rates = OperatorModel(named_chip("h100_sxm_80g")), attention_rates("flash3")
    chip = (132, 989.4e12, 66.9e12, 3.35e12 * model.chip.memory_efficiency)
    kernel = fused_attention_s(shape, chip, rates, causal=False, backward=False)
    started = model.attention_s("bfloat16", shape) - kernel
    assert float(started) == pytest.approx(model.constants.start_s)


def test_narrow_heads_go_by_the_softmax() -> None:
    rates = AttentionRates(1.0, 1.0, 20.0, 20.0, 0.0)
    narrow, wide = (AttentionShape(2, 8, 8, 1024, 1024, d) for d in (1, 2))
    times = [
        fused_attention_s(s, CHIP, rates, causal=False, backward=False) for s in (narrow, wide)
    ]
    assert float(times[0]) == pytest.approx(2 * 8 * 1024**2 * 20 / 1e12, rel=1e-3)
    assert float(times[1] / times[0]) == pytest.approx(1, rel=1e-3)


def test_published_measurements_are_met() -> None:
    errors: dict[str, list[float]] = defaultdict(list)
    for row in read(MEASURED):
        if row.chip == "h100_sxm_80g" and row.kernel in attention_kernels():
            model = OperatorModel(named_chip(row.chip))
            found = model.attention_s(
                "bfloat16",
                row.shape,
                causal=row.causal,
                backward=row.backward,
                kernel=row.kernel,
            )
            errors[row.kernel].append(abs(float(found) / row.time_s - 1))
    assert set(errors) == {"flash2", "flash3", "cudnn"}
    for kernel, found_errors in errors.items():
        assert np.median(found_errors) < 0.09, kernel
        assert max(found_errors) < 0.25, kernel


def test_an_ascend_without_measurements_gets_what_its_vector_units_allow() -> None:
    model = OperatorModel(named_chip("ascend_910b2"))
    assert 0.4 < _share(model, 128, backward=False) < 0.5
    assert 0.35 < _share(model, 128, backward=True) < 0.5
    assert _share(model, 64, backward=False) < _share(model, 128, backward=False)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
def test_a_fused_kernel_beats_kernels_apart_in_long_rows(chip: Chip) -> None:
    model = OperatorModel(chip)
    shape = AttentionShape(1, 8, 8, 8192, 8192, 128)
    dtype = dtype_of(chip)
    for backward in (False, True):
        fused = model.attention_s(dtype, shape, causal=True, backward=backward)
        apart = model.attention_s(dtype, shape, fused=False, causal=True, backward=backward)
        assert fused < apart


@given(
    size=st.tuples(st.integers(1, 64), st.integers(1, 9000), st.integers(1, 256)),
    more=st.tuples(st.integers(0, 8), st.integers(0, 900), st.integers(0, 64)),
    chip=st.sampled_from(CHIPS),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_more_work_is_never_faster_and_a_faster_chip_never_slower(
    size: tuple[int, int, int],
    more: tuple[int, int, int],
    chip: Chip,
    flags: tuple[bool, bool, bool],
) -> None:
    fused, causal, backward = flags
    model, dtype = OperatorModel(chip), dtype_of(chip)
    better = OperatorModel(faster(chip, flops=1.7, bandwidth=1.3))
    heads, rows, head = size
    small = AttentionShape(1, heads, heads, rows, rows, head)
    large = AttentionShape(
        1, heads + more[0], heads, rows + more[1], rows + more[1], head + more[2]
    )
    found = [
        float(m.attention_s(dtype, s, fused=fused, causal=causal, backward=backward))
        for m, s in ((model, small), (model, large), (better, small))
    ]
    assert 0 < found[0] <= found[1] * (1 + 1e-12)
    assert found[2] <= found[0] * (1 + 1e-12)


def test_rows_split_over_devices_are_never_slower_than_together() -> None:
    model = OperatorModel(named_chip("h100_sxm_80g"))
    times = [
        float(model.attention_s("bfloat16", AttentionShape(1, 8, 8, q, 8192, 128), causal=True))
        for q in (1, 100, 1024, 2048, 4096, 8192)
    ]
    assert times == sorted(times)


def test_an_unknown_kernel_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'flash9'.*flash2"):
        attention_rates("flash9")
