from dataclasses import replace

import numpy as np
import pytest

from costmodel.operators import Basis, OperatorModel, chip_constants
from ir.ops import Engine
from tests.costmodel.operators.chips import CHIPS, dtype_of, faster
from topology import named_chip
from topology.cluster import Chip

pytestmark = pytest.mark.fast

A100 = named_chip("a100_sxm_80g")


def test_a_measured_chip_has_its_own_constants_and_says_so() -> None:
    assert OperatorModel(A100).basis is Basis.CHIP
    assert chip_constants(A100).share != A100.matmul_efficiency


def test_a_chip_of_a_measured_generation_inherits_and_keeps_its_own_share() -> None:
    other = replace(A100, name="my_a100", matmul_efficiency=0.5)
    assert OperatorModel(other).basis is Basis.GENERATION
    assert chip_constants(other).share == 0.5
    assert chip_constants(other).matmul.blend == chip_constants(A100).matmul.blend


def test_a_chip_of_an_unmeasured_generation_takes_the_mean_and_its_own_launch() -> None:
    ascend = named_chip("ascend_910b2")
    assert OperatorModel(ascend).basis is Basis.POOLED
    assert chip_constants(ascend).start_s == ascend.launch_latency_s
    unknown = replace(ascend, name="mine", family="nobody's")
    assert OperatorModel(unknown).basis is Basis.POOLED
    assert OperatorModel(unknown).matmul_s("bfloat16", 512, 512, 512) > 0


def test_a_type_without_a_rate_runs_as_the_next_wider_one() -> None:
    chip = replace(A100, peak_flops={"float8": 4e14, "bfloat16": 2e14, "float32": 1e13})
    model = OperatorModel(chip)
    assert model.peak_flops("float8e4m3fn") == 4e14
    assert model.peak_flops("float4e2m1") == 4e14
    assert model.peak_flops("float16") == model.peak_flops("int8") == 2e14
    assert model.peak_flops("float32") == 1e13
    assert model.peak_flops("float64") == 5e12
    assert OperatorModel(replace(chip, peak_flops={"bfloat16": 2e14})).peak_flops("float32") == (
        chip.vector_flops
    )


def test_narrow_types_are_faster_where_the_chip_has_them() -> None:
    chip = replace(A100, peak_flops={"float8": 4e14, "bfloat16": 2e14})
    model = OperatorModel(chip)
    wide, narrow = (model.matmul_s(d, 4096, 4096, 4096) for d in ("bfloat16", "float8e4m3fn"))
    assert 1.5 < float(wide / narrow) < 2.1  # the throttle falls away with the time


@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
def test_no_operator_slows_down_on_a_faster_chip(chip: Chip) -> None:
    plain = OperatorModel(chip)
    better = OperatorModel(faster(chip, flops=2.0, bandwidth=2.0))
    dtype = dtype_of(chip)
    flops, nbytes = np.array([1e9, 1e12]), np.array([1e9, 1e6])
    pairs = [
        (
            m.convolution_s(dtype, 1e5, 64, 576, nbytes=1e8),
            m.elementwise_s(1e6),
            *(m.time_s(e, dtype, flops, nbytes).sum() for e in Engine),
        )
        for m in (plain, better)
    ]
    for before, after in zip(*pairs, strict=True):
        assert after <= before


def test_a_convolution_is_the_product_of_its_windows_but_slower() -> None:
    model = OperatorModel(A100)
    pixels, channels, window = 32 * 56 * 56, 256, 64 * 9
    moved = 2.0 * (pixels * 64 + channels * window + pixels * channels)
    product = model.matmul_s("bfloat16", pixels, channels, window, nbytes=moved)
    assert product < model.convolution_s("bfloat16", pixels, channels, window, nbytes=moved)
    grouped = model.convolution_s("bfloat16", pixels, channels / 4, window / 4, 4, nbytes=moved)
    assert grouped < model.convolution_s("bfloat16", pixels, channels, window, nbytes=moved)


def test_a_view_takes_no_time() -> None:
    flops, nbytes = np.array([1e9]), np.array([1e9])
    assert OperatorModel(A100).time_s(Engine.VIEW, "bfloat16", flops, nbytes).tolist() == [0.0]


def test_a_machine_of_the_mind_has_no_shapes() -> None:
    ideal = replace(A100, family="ideal", name="case", matmul_efficiency=1.0)
    model = OperatorModel(ideal)
    times = [model.matmul_s("bfloat16", m, 4096, 4096) - ideal.launch_latency_s for m in (5e4, 1e5)]
    assert float(times[1] / times[0]) == pytest.approx(2)
    assert float(times[0]) == pytest.approx(2 * 5e4 * 4096**2 / 312e12)
