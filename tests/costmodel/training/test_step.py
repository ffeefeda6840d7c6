"""The estimate of a step: closed forms, laws, and many layouts at once."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.training.constants import StepConstants
from costmodel.training.layers import layer_times
from costmodel.training.machines import MachineRates, machine
from costmodel.training.passes import IN_TURN
from costmodel.training.records import Attention, TrainingLayout, TrainingModel
from costmodel.training.sizes import stage_parameters
from costmodel.training.step import step_times, times_in_turn
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import GPT, LLAMA, ROUTED, run

CONSTANTS = StepConstants()
LAYOUTS = st.builds(
    lambda tp, pp, dp, micro, vpp, zero, model: run(
        model,
        tp=2**tp,
        pp=2**pp,
        vpp=vpp if pp else 1,
        dp=2**dp,
        micro_batch=2**micro,
        zero_stage=zero,
        global_batch=2**dp * 2**micro * 8,
        ep=2 if model is ROUTED and dp else 1,
    ),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from([1, 2]),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([LLAMA, GPT, ROUTED]),
)


def total(table: RunTable) -> float:
    return float(step_times(table, CONSTANTS).total[0])


def faster(table: RunTable, column: str, factor: float = 2.0) -> RunTable:
    """The same runs on machines with one rate higher."""
    rates = {column: getattr(table.machine, column) * factor}
    machine = replace(table.machine, **rates)
    return replace(table, machine=machine)


def test_bubble_of_1f1b_is_the_closed_form() -> None:
    """(p - 1) stage times without embedding and head, and that over v when interleaved."""
    bare = replace(LLAMA, vocab=1)
    quiet = replace(CONSTANTS, host_micro_s=0.0, logit_bytes=0.0)
    for chunks in (1, 2, 4):
        table = RunTable.of([run(bare, pp=8, vpp=chunks, global_batch=64)])
        table = replace(table, hidden=table.hidden)
        times = step_times(table, quiet)
        layer = times.layer_forward + times.layer_backward
        ends = times.steady / 64 - 4 * layer
        expected = (7 * 4 * layer) / chunks
        assert times.bubble[0] == pytest.approx(float(expected[0]), abs=8 * float(ends[0]) + 1e-12)


def test_no_bubble_without_stages() -> None:
    assert step_times(RunTable.of([run()]), CONSTANTS).bubble[0] == 0


def test_parts_add_up() -> None:
    times = step_times(RunTable.of([run(tp=2, pp=4, dp=4)]), CONSTANTS)
    parts = [
        times.steady, times.bubble, times.transfer, times.gradients, times.optimizer, times.other,
    ]  # fmt: skip
    assert times.total[0] == pytest.approx(float(sum(part[0] for part in parts)), rel=1e-12)


RATES = (
    "flops", "flops16", "usable_bytes", "memory_bytes_per_s", "link_bytes_per_s", "port_bytes_per_s"
)  # fmt: skip


@given(LAYOUTS, st.sampled_from(RATES))
def test_a_better_machine_is_never_slower(made: object, column: str) -> None:
    table = RunTable.of([made])  # type: ignore[list-item]
    assert total(faster(table, column)) <= total(table) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("layout", "column"),
    [
        ({"tp": 8}, "link_bytes_per_s"),
        ({"dp": 64, "global_batch": 64}, "port_bytes_per_s"),
        ({"pp": 4, "dp": 8, "global_batch": 64}, "port_bytes_per_s"),
        ({"pp": 4, "tp": 4, "global_batch": 64}, "port_bytes_per_s"),
        ({"dp": 64, "zero_stage": 3, "zero_group": 8, "global_batch": 64}, "port_bytes_per_s"),
    ],
)
def test_a_faster_link_on_the_critical_path_makes_the_step_faster(
    layout: dict[str, Any], column: str
) -> None:
    table = RunTable.of([run(GPT, **layout)])
    assert total(faster(table, column)) < total(table)


def test_many_runs_at_once_are_what_they_are_one_by_one() -> None:
    runs = [run(tp=2, dp=4), run(GPT, pp=4), run(ROUTED, ep=2, dp=8), run(machine="h100", tp=8)]
    together = step_times(RunTable.of(runs), CONSTANTS).total
    alone = [total(RunTable.of([one])) for one in runs]
    assert together == pytest.approx(alone, rel=1e-12)


def test_one_run_spreads_over_columns_of_layouts() -> None:
    """What the search over layouts does: one model, one machine, arrays of degrees."""
    degrees = np.array([1.0, 2.0, 4.0, 8.0])
    table = RunTable.of([run(tp=1)]).with_columns({"tp": degrees})
    expected = [total(RunTable.of([run(tp=int(tp))])) for tp in degrees]
    assert step_times(table, CONSTANTS).total == pytest.approx(expected, rel=1e-12)


def test_recomputation_costs_a_forward_pass_and_early_stop_spares_its_last_product() -> None:
    plain, full = run(GPT), run(GPT, recompute="full")
    early = replace(full, flags=frozenset({"early-stop"}))
    times = [total(RunTable.of([one])) for one in (plain, early, full)]
    assert times == sorted(times)
    assert times[2] > 1.2 * times[0]


@pytest.mark.parametrize("model", [LLAMA, ROUTED])
def test_attention_that_is_kept_is_not_computed_again(model: TrainingModel) -> None:
    """Full recomputation less the products into attention and its core."""
    full = run(model, recompute="full")
    table = RunTable.of([full, replace(full, flags=frozenset({"keeps-attention"}))])
    spared = CONSTANTS.in_turn()
    times = step_times(table, spared, IN_TURN).layer_backward
    layers = layer_times(table, spared)
    kept = layers[model is ROUTED].inward + layers[model is ROUTED].core
    assert times[0] - times[1] == pytest.approx(float(kept[0]))
    assert layers[0].inward[0] < layers[0].products[0]


def test_frozen_weights_need_no_gradient() -> None:
    adapter = replace(run(dp=8), flags=frozenset({"frozen"}))
    ratio = total(RunTable.of([adapter])) / total(RunTable.of([run(dp=8)]))
    assert 0.5 < ratio < 0.85


def test_small_layers_take_the_time_of_the_host() -> None:
    small = replace(GPT, hidden=256, heads=16, kv_heads=16, head_size=16, ffn=1024, vocab=1024)
    slow = replace(CONSTANTS, host_s=5e-3)
    table = RunTable.of([run(small, seq_len=64, global_batch=1)])
    times = step_times(table, slow)
    assert times.layer_forward[0] == pytest.approx(5e-3, rel=0.01)


def test_some_rows_of_a_table() -> None:
    runs = [run(tp=2), run(GPT), run(machine="h100")]
    table = RunTable.of(runs)
    chosen = step_times(table.take([2, 0]), CONSTANTS).total
    assert chosen == pytest.approx(step_times(table, CONSTANTS).total[[2, 0]], rel=1e-12)


def test_all_rates_are_taken_along() -> None:
    names = {item.name for item in fields(MachineRates)}
    assert names >= {"flops", "shapes", "server", "number"}


def test_devices_of_a_layout() -> None:
    assert TrainingLayout(64, 1, 2048, tp=2, pp=4, dp=8, cp=2, ep=4).devices == 128


def test_starting_a_collective_takes_longer_with_every_doubling_of_its_ranks() -> None:
    slow = replace(CONSTANTS, start_s=1e-3, host_s=0.0, host_tp_s=0.0)
    starts = []
    for tp in (2, 4, 8):
        table = RunTable.of([run(tp=tp)])
        quiet = step_times(table, replace(slow, start_s=0.0)).layer_forward
        starts.append(float((step_times(table, slow).layer_forward - quiet)[0]))
    assert starts == pytest.approx([2e-3, 4e-3, 6e-3], rel=1e-3)


def test_ranks_that_send_a_part_each_share_the_transfer() -> None:
    whole = run(tp=4, pp=2)
    parts = replace(whole, flags=frozenset({"scatter-stages"}))
    shown = replace(CONSTANTS, pp_shown=1.0)
    times = [
        step_times(RunTable.of([one, replace(one, link_bytes_per_s=1e30)]), shown).transfer
        for one in (whole, parts)
    ]
    moved = [float(one - start) for one, start in times]
    assert moved[1] == pytest.approx(moved[0] / 4, rel=1e-9)


def test_a_pipeline_in_one_server_does_not_feel_its_ports() -> None:
    table = RunTable.of([run(GPT, pp=4, tp=2)])
    assert total(faster(table, "port_bytes_per_s")) == total(table)


def test_groups_that_share_parameters_reduce_gradients_between_them() -> None:
    """One group of all replicas has nothing left to reduce; more groups each hold a larger part."""
    times = [
        float(step_times(RunTable.of([run(dp=64, zero_stage=3, zero_group=group)]),
                         replace(CONSTANTS, dp_hidden=0.0)).gradients[0])
        for group in (0, 64, 32, 8)
    ]  # fmt: skip
    assert times[:2] == [0.0, 0.0]
    assert 0.0 < times[2] < times[3]


def test_groups_reduce_gradients_beside_the_backward_pass() -> None:
    """As much shows as of gathering, while a pass is long enough; in turn all of it shows."""
    table = RunTable.of([run(dp=64, zero_stage=3, zero_group=8, micro_batch=32)])
    alone = times_in_turn(table, CONSTANTS).gradients[0]
    for shown in (0.1, 0.4):
        known = replace(CONSTANTS, dp_hidden=0.0, fetch_shown=shown)
        assert step_times(table, known).gradients[0] == pytest.approx(shown * alone)
    later = replace(CONSTANTS, dp_hidden=0.8, fetch_shown=0.4)
    assert step_times(table, later).gradients[0] == pytest.approx(0.2 * alone)


def test_gated_models_have_no_dropout_on_scores() -> None:
    plain = replace(run(GPT), model=replace(GPT, gated=False))
    gated = replace(run(GPT), model=replace(GPT, gated=True, ffn=GPT.ffn * 2 // 3))
    fused = [replace(each, attention=Attention.FLASH) for each in (plain, gated)]
    cores = [total(RunTable.of([one])) - total(RunTable.of([other]))
             for one, other in zip((plain, gated), fused, strict=True)]  # fmt: skip
    assert cores[1] < 0.9 * cores[0]


def test_experts_work_on_their_whole_buffer() -> None:
    padded = replace(run(ROUTED), model=replace(ROUTED, expert_capacity=2.0))
    assert total(RunTable.of([padded])) > 1.4 * total(RunTable.of([run(ROUTED)]))


def test_casts_to_8_bits_take_time_and_only_those() -> None:
    small = replace(run(machine="h100"), flags=frozenset({"casts"}))
    eight = replace(small, precision="fp8")
    bare = [replace(each, flags=frozenset()) for each in (small, eight)]
    assert total(RunTable.of([small])) == total(RunTable.of([bare[0]]))
    assert total(RunTable.of([eight])) > 1.01 * total(RunTable.of([bare[1]]))


@pytest.mark.parametrize(("model", "more"), [(LLAMA, 14.4 - 6.0), (GPT, 6.4 - 4.0)])
def test_an_activation_kernel_by_kernel_moves_more(model: TrainingModel, more: float) -> None:
    """With a gate 10 bytes forward and 26 backward instead of 6 and 9; bias apart without."""
    one = run(model, tp=2)
    split = replace(one, flags=frozenset({"split-activation"}))
    constants = StepConstants()
    fused, apart = (layer_times(RunTable.of([each]), constants)[0] for each in (one, split))
    moved = 2048 * more * model.ffn / 2
    expected = moved / (machine(one.machine).memory_bytes_per_s * constants.memory)
    assert apart.stream[0] - fused.stream[0] == pytest.approx(expected, rel=1e-9)
    assert apart.stream_backward[0] == pytest.approx(1.5 * apart.stream[0], rel=1e-9)


SPARSE = replace(ROUTED, experts=64, experts_per_token=4, expert_ffn=2048)
QUIET = replace(CONSTANTS, start_s=0.0, host_s=1e-9, host_tp_s=0.0, tp_hidden=0.0, ep_hidden=0.0)


def forward(model: TrainingModel, constants: StepConstants = QUIET, **change: Any) -> float:
    """Forward pass of a layer on four tensor parallel ranks."""
    split = change.pop("split", False)
    one = run(model, **{"tp": 4, "sequence_parallel": True, **change})
    one = replace(one, flags=frozenset({"split-experts"} if split else ()))
    return float(step_times(RunTable.of([one]), constants).layer_forward[0])


def test_the_whole_square_is_twice_what_lies_below_the_diagonal() -> None:
    fused = replace(run(), attention=Attention.FLASH)
    whole = replace(fused, flags=frozenset({"whole-square"}))
    (one, *_), (both, *_) = (layer_times(RunTable.of([each]), CONSTANTS) for each in (fused, whole))
    assert both.core == pytest.approx(2 * one.core, rel=1e-12)
    assert both.core_backward == pytest.approx(2 * one.core_backward, rel=1e-12)
    apart = replace(run(), flags=frozenset({"whole-square"}))
    assert total(RunTable.of([apart])) == total(RunTable.of([run()]))


@pytest.mark.parametrize("name", ["a100-80g", "h100", "ascend-910a"])
def test_states_on_the_host_come_and_go(name: str) -> None:
    """24 bytes of each parameter that a device updates, over its chip's link to the host; half of
    them with two shards.
    """
    swapped = frozenset({"swap-optimizer"})
    moved = []
    for stage in (0, 1):
        kept = run(machine=name, dp=2, zero_stage=stage)
        away = replace(kept, flags=swapped)
        times = [step_times(RunTable.of([each]), CONSTANTS).optimizer for each in (kept, away)]
        moved.append(float(times[1][0] - times[0][0]))
    held, _ = stage_parameters(RunTable.of([run()]), np.array([32.0]), np.array([2.0]))
    rate = machine(name).chip.host_bandwidth_bytes_per_s
    assert rate is not None
    assert moved[0] == pytest.approx(24.0 * float(held[0]) / (rate * CONSTANTS.swap), rel=1e-9)
    assert moved[1] == pytest.approx(moved[0] / 2, rel=1e-9)


def test_gradients_added_up_apart_move_their_bytes_in_every_micro_batch() -> None:
    """16 bits are read, the sum is read and written; weights that are frozen have none."""
    plain = run(global_batch=16, tp=2)
    apart = replace(plain, flags=plain.flags | {"sums-apart"})
    parameters = 32 * (4 * 4096**2 + 3 * 4096 * 11008) / 2
    moved_s = parameters / machine("a100-80g").memory_bytes_per_s / CONSTANTS.memory
    quick = replace(CONSTANTS, host_s=0.0)
    seconds = [
        float(step_times(RunTable.of([each]), quick).total[0])
        for each in (plain, apart, replace(apart, gradient_bytes=2.0))
    ]
    more_s = [seconds[0] + 16 * nbytes * moved_s for nbytes in (10.0, 6.0)]
    assert seconds[1:] == pytest.approx(more_s, rel=1e-3)
    frozen = [replace(each, flags=each.flags | {"frozen"}) for each in (plain, apart)]
    assert total(RunTable.of(frozen[:1])) == total(RunTable.of(frozen[1:]))
