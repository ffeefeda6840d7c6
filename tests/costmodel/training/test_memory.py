"""Memory of the fullest device: ZeRO's states, 1F1B's micro-batches, recomputation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.training.memory import MemoryConstants, logit_bytes, memory_use
from costmodel.training.records import Attention, Recompute
from costmodel.training.rows import read_row
from costmodel.training.sizes import model_parameters
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import GPT, LLAMA, ROUTED, run
from tests.costmodel.training.test_rows import ROW

pytestmark = pytest.mark.fast

BARE = MemoryConstants(context_bytes=0.0)


def test_parameters_of_published_models() -> None:
    """Within half a percent of 6.74 billion and 46.7 billion."""
    assert model_parameters(RunTable.of([run(LLAMA)]))[0] == pytest.approx(6.74e9, rel=0.005)
    assert model_parameters(RunTable.of([run(ROUTED)]))[0] == pytest.approx(46.7e9, rel=0.005)


@pytest.mark.parametrize(
    ("stage", "nbytes"),
    [(0, 2 + 4 + 12), (1, 2 + 4 + 12 / 8), (2, 2 + (4 + 12) / 8), (3, (4 + 4 + 8) / 8)],
)
def test_states_follow_the_zero_stage(stage: int, nbytes: float) -> None:
    """Rajbhandari et al., sections 3 and 5; gradients in 32 bits, sharded masters at stage 3."""
    table = RunTable.of([run(LLAMA, dp=8, zero_stage=stage)])
    use = memory_use(table, BARE)
    states = use.parameters + use.gradients + use.optimizer
    assert states[0] == pytest.approx(nbytes * model_parameters(table)[0], rel=1e-9)


@pytest.mark.parametrize("replicas", [1, 8, 128, 1024, 4096])
@pytest.mark.parametrize(
    ("gradient_bytes", "whole", "shared"), [(2.0, 4.0, 12.0), (4.0, 6.0, 12.0)]
)
def test_shards_of_the_optimizer_are_those_of_megatron_at_any_number_of_replicas(
    gradient_bytes: float, whole: float, shared: float, replicas: int
) -> None:
    """Megatron-LM's documentation of its distributed optimizer: 6 + 12 / d bytes of a parameter
    with gradients in 32 bits; with 16 bits 4 + 12 / d, as no copy of them is kept for the update.
    """
    table = RunTable.of([run(LLAMA, dp=replicas, zero_stage=1, global_batch=replicas)])
    use = memory_use(table, replace(BARE, gradient_bytes=gradient_bytes))
    states = use.parameters + use.gradients + use.optimizer
    expected = whole + shared / replicas
    assert states[0] == pytest.approx(expected * model_parameters(table)[0], rel=1e-9)


def test_tensor_parallelism_cuts_states() -> None:
    whole, cut = (memory_use(RunTable.of([run(tp=tp)]), BARE).optimizer[0] for tp in (1, 4))
    assert cut == pytest.approx(whole / 4, rel=1e-9)


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages() -> None:
    wide = replace(LLAMA, layers=32, vocab=1)
    one = memory_use(RunTable.of([run(wide)]), BARE).activations[0]
    piped = memory_use(RunTable.of([run(wide, pp=8)]), BARE, ("first",)).activations[0]
    assert piped == pytest.approx(one, rel=1e-9)
    last = memory_use(RunTable.of([run(wide, pp=8)]), BARE, ("last",)).activations[0]
    assert last == pytest.approx(one / 8, rel=1e-9)


def test_interleaving_holds_more() -> None:
    """Korthikanti et al., 4.2.3: 1 + (p - 1) / (p v) of what 1F1B holds on the first stage."""
    plain, interleaved = (
        memory_use(RunTable.of([run(pp=8, vpp=vpp)]), BARE, ("first",)).activations[0]
        for vpp in (1, 4)
    )
    assert interleaved / plain == pytest.approx(1 + 7 / (8 * 4), rel=1e-9)


def test_no_more_micro_batches_are_held_than_there_are() -> None:
    few = memory_use(RunTable.of([run(pp=8, global_batch=2)]), BARE, ("first",)).activations[0]
    many = memory_use(RunTable.of([run(pp=8)]), BARE, ("first",)).activations[0]
    assert few == pytest.approx(many / 4, rel=1e-9)


def test_full_recomputation_keeps_the_inputs_of_layers() -> None:
    use = memory_use(RunTable.of([run(GPT, recompute="full")]), BARE)
    assert use.activations[0] == pytest.approx(24 * 2 * 2048 * 2048, rel=1e-9)


@pytest.mark.parametrize("policy", list(Recompute))
def test_inputs_that_wait_on_the_host_leave_one_layer_at_work(policy: Recompute) -> None:
    whole, chosen = (
        replace(run(LLAMA, recompute=each), attention=Attention.FLASH)
        for each in (Recompute.FULL, policy)
    )
    full = memory_use(RunTable.of([whole]), BARE)
    away = memory_use(RunTable.of([replace(chosen, flags=frozenset({"offloads"}))]), BARE)
    assert away.activations[0] == 0
    assert away.buffers[0] == full.buffers[0]


@pytest.mark.parametrize(
    ("recompute", "waits"),
    [
        ("custom", True),
        ("", True),
        ("qkv_proj_offloaded", True),
        ("full", False),
        ("minimal", False),
    ],
)
def test_whose_inputs_wait_on_the_host(recompute: str, waits: bool) -> None:
    row = ROW | {"source": "MaxText", "hardware": "TPU v6e", "recompute": recompute}
    assert ("offloads" in read_row(row).run.flags) is waits
    assert "offloads" not in read_row(ROW | {"recompute": ""}).run.flags


def test_what_recomputation_begins_at_may_be_more_than_the_input_or_on_the_host() -> None:
    layout = replace(run(LLAMA).layout, recompute=Recompute.FULL)
    flags = [frozenset[str](), frozenset({"keeps-attention"}), frozenset({"offloads"})]
    runs = [replace(run(LLAMA), layout=layout, flags=each) for each in flags]
    plain, attention, none = memory_use(RunTable.of(runs), BARE).activations
    # Queries, keys, values and the result are four times the input.
    kept = plain - none
    assert attention - none == pytest.approx(5.0 * kept)
    assert kept == pytest.approx(32 * 2.0 * 2048 * 4096)


def test_logits_weigh_on_the_last_stage() -> None:
    large = replace(GPT, vocab=500_000)
    use = memory_use(RunTable.of([run(large, pp=4, micro_batch=8, recompute="full")]), BARE)
    assert use.logits[0] > 0


def test_experts_are_shared_out() -> None:
    whole, cut = (
        memory_use(RunTable.of([run(ROUTED, dp=8, ep=ep)]), BARE).parameters[0] for ep in (1, 8)
    )
    assert cut < whole / 4


def test_states_on_the_host_take_no_memory() -> None:
    moved = replace(run(), flags=frozenset({"swap-optimizer"}))
    assert memory_use(RunTable.of([moved]), BARE).optimizer[0] == 0


def test_states_kept_on_the_host_are_made_on_the_device() -> None:
    """The peak is that of the step without them, or that of the start with them."""
    swapped = replace(run(dp=8), flags=frozenset({"swap-optimizer"}))
    use = memory_use(RunTable.of([swapped]), BARE)
    whole = memory_use(RunTable.of([run(dp=8)]), BARE)
    assert use.optimizer[0] == 0
    start = whole.parameters + whole.gradients + whole.optimizer
    assert use.total[0] == pytest.approx(float(start[0]), rel=1e-9)
    busy = replace(swapped, layout=replace(swapped.layout, micro_batch=64))
    kept = memory_use(RunTable.of([busy]), BARE)
    parts = kept.parameters + kept.gradients + kept.activations + kept.logits + kept.buffers
    assert kept.total[0] == pytest.approx(float(parts[0]), rel=1e-9)


@pytest.mark.parametrize("tp", [1, 4])
def test_selection_by_operator_keeps_every_other_product(tp: int) -> None:
    """Input, queries, values, attention's result, first product of the feed-forward layer."""
    policy = replace(BARE, products_kept=1.0)
    compiled = run(tp=tp, recompute="selective", sequence_parallel=True)
    eager = replace(compiled, flags=frozenset({"uncompiled"}))
    width = 4096 + 4096 + 4096 + 4096 + 11008
    for each, more in ((compiled, 0), (eager, 4096)):
        kept = memory_use(RunTable.of([each]), policy).activations[0]
        assert kept == pytest.approx(32 * 2048 * 2 * (width + more) / tp, rel=1e-9)


def test_without_the_policy_selection_keeps_a_share() -> None:
    kept, whole = (
        memory_use(RunTable.of([run(recompute="selective")]), constants).activations[0]
        for constants in (replace(BARE, selective_kept=0.25), BARE)
    )
    assert kept == pytest.approx(whole / 4, rel=1e-9)


def test_a_compiled_loss_keeps_logits_in_16_bits_alone() -> None:
    """12 bytes each of a loss kernel by kernel, 4 more where the vocabulary is split."""
    torch = replace(BARE, logit_bytes=12.0, split_logit_bytes=4.0, fused_logit_bytes=4.0)
    for tp, each in ((1, 12.0), (2, 16.0)):
        plain = RunTable.of([run(tp=tp)])
        fused = RunTable.of([replace(run(tp=tp), flags=frozenset({"fused-loss"}))])
        assert logit_bytes(plain, torch)[0] == each
        assert logit_bytes(fused, torch)[0] == 4.0
        assert memory_use(fused, torch).total[0] < memory_use(plain, torch).total[0]
