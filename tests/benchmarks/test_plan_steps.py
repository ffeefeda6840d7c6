"""Published runs beside the cost model of plans: laws of the prices and of the ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.plan_ends import Compared, ends_of, held, quantiles
from benchmarks.plan_steps import kind_of, outside, parts_of, sent_s
from benchmarks.software_fit import in_turn_s
from costmodel.training.records import Attention, Recompute, TrainingRun
from ir.published import CONTEXT_PARALLEL, DENSE, ROUTED
from tests.costmodel.training.runs import LLAMA, run

ROOT: dict[str, Any] = {"global_batch": 32, "micro_batch": 1, "dp": 4, "recompute": Recompute.NONE}


def step_s(**layout: Any) -> float:
    return priced_s(run(LLAMA, **(ROOT | layout)))


def priced_s(of: TrainingRun) -> float:
    """Seconds of its step in turn."""
    return float(in_turn_s([parts_of(of, 1.0)])[0])


@pytest.mark.fast
def test_computing_again_adds_the_forward_pass() -> None:
    assert 1.15 < step_s(recompute=Recompute.FULL) / step_s() < 1.4


def test_twice_the_micro_batches_take_almost_twice_as_long() -> None:
    assert 1.8 < step_s(global_batch=64) / step_s() < 2.0


def test_stages_share_the_layers_and_fill_once() -> None:
    whole, halves = step_s(), step_s(pp=2)
    micro_batches = 8
    assert halves / whole == pytest.approx((1 + 1 / micro_batches) / 2, rel=0.15)
    assert step_s(pp=2, vpp=2) < halves


def test_tensor_parallel_ranks_share_the_work_but_send_more() -> None:
    assert step_s() / 2 < step_s(tp=2) < step_s()


def test_one_device_does_all_the_work_and_sends_nothing() -> None:
    assert step_s(dp=1, global_batch=8) == pytest.approx(step_s(), rel=0.1)


def test_what_ran_in_several_kernels_is_priced_in_several() -> None:
    plain = run(LLAMA, **ROOT)
    fused = replace(plain, attention=Attention.FLASH)
    assert 1.1 < priced_s(plain) / priced_s(fused) < 1.4


def test_stages_wait_for_what_they_send() -> None:
    whole, parts = (run(LLAMA, **(ROOT | {"dp": 8, "pp": pp})) for pp in (1, 4))
    assert sent_s(whole) == 0
    assert sent_s(parts) > 0
    assert sent_s(replace(parts, layout=replace(parts.layout, seq_len=8192))) > 3 * sent_s(parts)
    within = replace(parts, layout=replace(parts.layout, dp=2))
    assert sent_s(within) < sent_s(parts) / 2, "on the links of one server"


def test_a_stage_on_parts_of_servers_is_left_out() -> None:
    assert "parts of servers" in outside(run(LLAMA, dp=12))
    assert not outside(run(LLAMA, dp=16))
    racks = replace(run(LLAMA, dp=64), machine="gb200")
    assert not outside(racks)
    assert not outside(replace(racks, layout=replace(racks.layout, dp=128)))
    assert "parts of servers" in outside(replace(racks, layout=replace(racks.layout, dp=96)))


def compared(name: str, model: str, ratio: float) -> Compared:
    return Compared(name, "block", model, DENSE, "ampere", ratio, 1e-3)


def test_ends_hold_most_runs_and_the_middle_half() -> None:
    runs = [compared(f"r{i}", f"m{i % 5}", 1.0 + i / 100) for i in range(100)]
    low, middle, high = quantiles(runs)
    assert middle == pytest.approx(1.495, abs=0.01)
    assert sum(low <= run.ratio <= high for run in runs) == pytest.approx(92, abs=1)


def test_a_model_unlike_the_others_is_outside_of_ends_without_it() -> None:
    alike = [compared(f"r{i}", f"m{i % 4}", 1.0 + i / 1000) for i in range(40)]
    odd = [compared(f"odd{i}", "odd", 3.0) for i in range(10)]
    assert held([*alike, *odd]) <= 0.8
    assert held([*alike, *(replace(run, ratio=1.02) for run in odd)]) > 0.85


def test_kinds_and_generations_with_few_models_have_the_ends_of_all_or_none() -> None:
    many = [compared(f"r{i}", f"m{i % 8}", 1.0 + i / 100) for i in range(40)]
    few = [replace(run, kind=ROUTED, model=f"m{i % 5}") for i, run in enumerate(many)]
    fewest = [replace(run, kind=CONTEXT_PARALLEL, model=f"m{i % 3}") for i, run in enumerate(many)]
    kinds = ends_of([*many, *few, *fewest])
    assert {kind: set(found) for kind, found in kinds.items()} == {
        DENSE: {"ampere", "pooled"}, ROUTED: {"pooled"},
    }  # fmt: skip


MIXTRAL = replace(LLAMA, name="mixtral", experts=8, experts_per_token=2, expert_ffn=4096)
"""Experts of the width of Llama's block: each token takes two."""


def test_a_mixture_takes_longer_the_more_experts_a_token_visits() -> None:
    plain = replace(run(LLAMA, **ROOT), attention=Attention.FLASH)
    routed = replace(plain, model=MIXTRAL)
    spread = replace(routed, layout=replace(routed.layout, ep=4))
    one, two = (
        priced_s(replace(routed, model=replace(MIXTRAL, experts_per_token=n))) for n in (1, 2)
    )
    assert one < two == priced_s(routed)
    assert priced_s(spread) != two
    assert kind_of(spread) == ROUTED


def test_layers_without_experts_count_by_their_share() -> None:
    plain = replace(run(LLAMA, **ROOT), attention=Attention.FLASH)
    times = [
        priced_s(replace(plain, model=replace(MIXTRAL, dense_layers=dense)))
        for dense in (0, LLAMA.layers // 2)
    ]
    dense_s = priced_s(plain)
    assert times[1] == pytest.approx((times[0] + dense_s) / 2, rel=0.02)


def test_a_split_context_shares_the_work() -> None:
    whole = replace(run(LLAMA, **ROOT), attention=Attention.FLASH)
    cut = replace(whole, layout=replace(whole.layout, cp=2))
    assert 0.5 < priced_s(cut) / priced_s(whole) < 0.8
    assert kind_of(cut) == CONTEXT_PARALLEL
