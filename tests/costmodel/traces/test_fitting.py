"""Constants from profiles: rates that were put in come out again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.link_calibration.measurements import CalibrationError
from costmodel.operators.model import OperatorModel
from costmodel.traces.comparing import check_same_job, planned_seconds
from costmodel.traces.fitting import constants_of, priced
from costmodel.traces.machine_text import profiled_text
from costmodel.traces.records import Kernel, Message, Trace
from ir.throughput import load_of
from tests.plans import tiny_plan
from topology.catalogue import named_machine
from topology.loading import load_machine

pytestmark = pytest.mark.fast

CHIP = named_machine("dgx-h100").cluster(1).chip
SHAPES = [(4096, 1024, 2048), (2048, 2048, 2048), (8192, 2048, 1024)]


def trace(share: float, memory: float) -> Trace:
    """Products at a share of the peak, streams at one of the bandwidth."""
    peak = CHIP.peak_flops["bfloat16"]
    kernels = [
        Kernel(
            "gemm", "products", 4, 4 * 2 * m * k * n / (share * peak), "aten::mm",
            ((m, k), (k, n)), "bfloat16",
        )
        for m, k, n in SHAPES
    ]  # fmt: skip
    for size in (2**24, 2**25):
        seconds = 3 * 2 * size / (memory * CHIP.memory_bandwidth_bytes_per_s)
        kernels.append(
            Kernel("add", "streams", 1, seconds, "aten::add", ((size,), (size,)), "bfloat16")
        )
    message = Message("all_reduce", 1e6, 8, 10, 10 * 1e6 / 50e9)
    return Trace(
        name="x.json", format="torch.profiler", kernels=tuple(kernels), messages=(message,),
        message_s=4.0, hidden_s=3.0, launches_s=(1e-6, 5e-6, 6e-6, 7e-6, 50e-6), ranks=8,
    )  # fmt: skip


@pytest.mark.parametrize(("share", "memory"), [(0.7, 0.9), (0.4, 0.5)])
def test_rates_that_kernels_have_are_found(share: float, memory: float) -> None:
    found = {each.name: each for each in constants_of([trace(share, memory)], CHIP)}
    assert found["products.bfloat16"].value == pytest.approx(share)
    assert found["products.bfloat16"].told == 4 * len(SHAPES)
    assert found["streams"].value == pytest.approx(memory)
    assert found["all_reduce.bytes_per_s"].value == pytest.approx(50e9)
    assert found["messages.hidden"].value == pytest.approx(0.75)
    assert found["launch_s"].value == pytest.approx(6e-6)
    for each in found.values():
        assert each.low <= each.value * (1 + 1e-9)
        assert each.high >= each.value * (1 - 1e-9)


def test_kernels_that_differ_widen_the_interval() -> None:
    same = trace(0.5, 0.5)
    slow = tuple(replace(k, seconds=(1 + i) * k.seconds) for i, k in enumerate(same.kernels))
    narrow, wide = (
        next(c for c in constants_of([t], CHIP) if c.name == "products.bfloat16")
        for t in (same, replace(same, kernels=slow))
    )
    assert narrow.high - narrow.low < 1e-9
    assert wide.high - wide.low > 0.05


def test_short_kernels_tell_no_rate() -> None:
    short = Kernel("gemm", "products", 9, 9e-6, "aten::mm", ((8, 8), (8, 8)), "bfloat16")
    assert not constants_of([replace(trace(0.5, 0.5), kernels=(short,), messages=(),
                                     message_s=0.0, launches_s=())], CHIP)  # fmt: skip


def test_a_kernel_is_priced_as_the_planner_prices_it() -> None:
    found, model = trace(0.5, 0.5), OperatorModel(CHIP)
    m, k, n = SHAPES[0]
    row = priced(found.kernels[0], replace(found, steps=2), model)
    assert row.predicted_s == pytest.approx(2 * float(model.matmul_s("bfloat16", m, n, k)))
    assert row.measured_s == pytest.approx(found.kernels[0].seconds / 2)
    unknown = Kernel("x", "streams", 1, 1.0)
    assert priced(unknown, found, model).predicted_s is None


def test_the_machine_has_what_was_measured() -> None:
    machine = named_machine("dgx-h100")
    constants = constants_of([trace(0.61, 0.77)], CHIP)
    text = profiled_text(machine, constants, {"use": "dgx-h100"}, ["x.json"])
    chip = load_machine(text, "mine.yaml").cluster(8).chip
    assert chip.matmul_efficiency == pytest.approx(0.61)
    assert chip.memory_efficiency == pytest.approx(0.77)
    assert chip.launch_latency_s == pytest.approx(6e-6)


def test_a_trace_of_other_ranks_or_other_work_is_of_another_job() -> None:
    plan, found = tiny_plan(), trace(0.5, 0.5)
    with pytest.raises(CalibrationError, match="another job: it has 4 ranks, the plan 8"):
        check_same_job(replace(found, ranks=4), plan)
    with pytest.raises(CalibrationError, match="another job: its products"):
        check_same_job(found, plan)
    work = sum(each.calls * each.flops for each in found.kernels)
    times = work / (load_of(plan).flops / plan.devices)
    check_same_job(replace(found, steps=round(times)), plan)


def test_planned_seconds_are_those_of_the_plan() -> None:
    plan = tiny_plan()
    planned = planned_seconds(plan)
    kernels = sum(sum(op.kernels_s) + op.recompute_s for op in plan.operators)
    computed = sum(s for group, s in planned.items() if group not in {"update", "messages"})
    assert computed == pytest.approx(kernels)
