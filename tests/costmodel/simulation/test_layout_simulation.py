"""Simulated steps of conventional layouts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, product

import pytest

from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.layout_step import LayoutConstants, Options, layout_step
from costmodel.simulation.result import SimulationError
from costmodel.simulation.step import Block, Step
from costmodel.simulation.task_graph import Span
from costmodel.simulation.variation import Distribution, Variation
from costmodel.training import machines as machine_module
from costmodel.training.constants import StepConstants
from costmodel.training.machines import machine
from costmodel.training.memory import MemoryConstants
from costmodel.training.records import Attention, Recompute, TrainingRun
from costmodel.training.sizes import model_parameters
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from tests.costmodel.simulation.runs import DENSE, LARGE, LLAMA, ROUTED, faster, small_run

CONSTANTS = LayoutConstants(StepConstants())
STEP = StepConstants(
    tp_hidden=0.0, fused_hidden=0.0, dp_hidden=0.0, pp_shown=1.0, ep_hidden=0.0, cp_hidden=0.0
)
SHOWN = LayoutConstants(STEP)
"""With nothing hidden, as the estimate sees a step in which nothing overlaps."""
LAYOUTS = (
    small_run(dp=8),
    small_run(dp=4, tp=8, sequence_parallel=True, zero_stage=1),
    small_run(dp=2, tp=2, cp=4, recompute=Recompute.FULL),
    small_run(ROUTED, dp=16, ep=8, zero_stage=2, recompute=Recompute.SELECTIVE),
    small_run(dp=4, machine="ascend-910b", recompute=Recompute.FULL, recompute_share=0.5),
)
PIPELINES = (
    small_run(pp=4, dp=2),
    small_run(pp=4, vpp=2, dp=2, tp=2, zero_stage=1),
    small_run(ROUTED, pp=2, dp=8, ep=4, zero_stage=1, recompute=Recompute.FULL),
    small_run(pp=8, dp=2, machine="ascend-910b", micro_batches=16),
)
SHARDED = (
    small_run(dp=16, zero_stage=3),
    small_run(dp=32, zero_stage=3, zero_group=8),
    small_run(dp=4, tp=4, zero_stage=3),
    small_run(dp=4, pp=2, zero_stage=3),
)


def ordered(run: TrainingRun, schedule: str) -> TrainingRun:
    """The run with another order of passes."""
    return replace(run, layout=replace(run.layout, schedule=schedule))


def name_of(value: object) -> str | None:
    """A run in few words."""
    if not isinstance(value, TrainingRun):
        return None
    own = value.layout
    degrees = {"tp": own.tp, "pp": own.pp, "vpp": own.vpp, "dp": own.dp, "cp": own.cp, "ep": own.ep,
               "zero": own.zero_stage + 1}  # fmt: skip
    parts = [f"{k}{n - (k == 'zero')}" for k, n in degrees.items() if n > 1]
    return "-".join((value.model.name, value.machine, *parts))


def step_s(run: TrainingRun, effects: Effects | None = None, schedule: str = "") -> float:
    return simulate_layout(ordered(run, schedule), effects or Effects(), constants=SHOWN).step_s


@pytest.mark.parametrize("run", PIPELINES, ids=name_of)
def test_a_pass_through_all_stages_takes_what_the_estimate_says(run: TrainingRun) -> None:
    """Layers, embedding, head and what the host does, once for every micro-batch."""
    step = layout_step(run, SHOWN)
    found = sum(
        part.seconds * block.count
        for stage in step.stages
        for chunk in stage.chunks
        for block in chunk
        for parts in (block.forward, block.again, block.backward, block.weight)
        for part in parts
    )
    times = step_times(RunTable.of([run]), STEP)
    layers = run.model.layers * float(times.layer_forward[0] + times.layer_backward[0])
    rest = found - layers - run.layout.pp * STEP.host_micro_s
    assert rest > 0
    one = replace(run, layout=replace(run.layout, pp=1, vpp=1, dp=run.layout.dp * run.layout.pp))
    alone = step_times(RunTable.of([one]), STEP)
    whole = float(alone.steady[0]) / one.layout.micro_batches
    assert found == pytest.approx(whole + (run.layout.pp - 1) * STEP.host_micro_s, rel=1e-9)


@pytest.mark.parametrize("run", [*LAYOUTS, *PIPELINES, *SHARDED], ids=name_of)
@pytest.mark.parametrize("mode", [Contention.NONE, Contention.QUEUE])
def test_a_better_machine_never_slows_a_layout(
    run: TrainingRun, mode: Contention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little better and much; `test_layout_law` draws layouts and what lies between."""
    old, as_it_is = machine(run.machine), step_s(run, Effects(contention=mode))
    for field in ("link_bytes_per_s", "port_bytes_per_s", "peak_flops", "memory_bytes_per_s"):
        times = [as_it_is]
        for factor in (1.05, 4.0):
            known = {run.machine: faster(old, field, factor)}
            monkeypatch.setattr(machine_module, "machines", lambda known=known: known)
            times.append(step_s(run, Effects(contention=mode)))
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(times)), field
        assert times[-1] < times[0] or field not in {"peak_flops", "memory_bytes_per_s"}


@pytest.mark.parametrize(
    ("run", "field"),
    [(small_run(tp=8), "link_bytes_per_s"), (small_run(pp=4, tp=8), "port_bytes_per_s"),
     (small_run(dp=16, zero_stage=3), "link_bytes_per_s"),
     (small_run(dp=32, zero_stage=3, zero_group=8), "port_bytes_per_s"),
     (small_run(pp=4, tp=4), "port_bytes_per_s"),
     (small_run(dp=64, micro_batches=1), "port_bytes_per_s")],
    ids=name_of,
)  # fmt: skip
def test_a_faster_link_on_the_critical_path_speeds_a_layout_up(
    run: TrainingRun, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = step_s(run)
    old = machine(run.machine)
    known = {run.machine: faster(old, field, 2.0)}
    monkeypatch.setattr(machine_module, "machines", lambda: known)
    assert step_s(run) < before


@pytest.mark.fast
@pytest.mark.parametrize("run", [*LAYOUTS, *PIPELINES, *SHARDED], ids=name_of)
def test_overlap_only_helps_and_contention_only_hurts(run: TrainingRun) -> None:
    free = step_s(run, Effects(contention=Contention.NONE))
    assert free <= step_s(run, Effects.none()) * (1 + 1e-12)
    for mode in (Contention.QUEUE, Contention.FAIR):
        assert step_s(run, Effects(contention=mode)) >= free * (1 - 1e-12)


def test_schedules_rank_as_published() -> None:
    run = small_run(pp=4, dp=1, micro_batches=16)
    times = {name: step_s(run, schedule=name) for name in ("gpipe", "1f1b", "zb-h1")}
    assert times["zb-h1"] < times["1f1b"] <= times["gpipe"] * (1 + 1e-9)
    assert step_s(small_run(pp=4, vpp=2, dp=1, micro_batches=16)) < times["1f1b"]
    both = small_run(pp=4, vpp=2, dp=1, micro_batches=16)
    assert step_s(replace(both, layout=replace(both.layout, vpp=1)), schedule="1f1b") > 0


BARE = LayoutConstants(
    StepConstants(), MemoryConstants(gradient_bytes=2.0, context_bytes=0.0, logit_bytes=0.0)
)
"""Memory as papers count it: 16 bits of weights and gradients, nothing for the runtime."""


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_states_are_those_of_zero(ranks: int) -> None:
    """16 n; 4 n + 12 n / d; 2 n + 14 n / d. Stage 3 keeps the parameters in 32 bits alone, which
    are the master copy: 14 n / d instead of 16 n / d.

    Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, figure 1, K = 12.
    """
    n = float(model_parameters(RunTable.of([small_run()]))[0])
    wanted = [16 * n, 4 * n + 12 * n / ranks, 2 * n + 14 * n / ranks, 14 * n / ranks]
    for stage, nbytes in enumerate(wanted):
        step = layout_step(small_run(dp=ranks, zero_stage=stage), BARE)
        assert step.stages[0].state_bytes == pytest.approx(nbytes, rel=1e-12)


def layers_of(step: Step) -> Block:
    """The layers of the first stage."""
    return next(b for b in step.stages[0].chunks[0] if b.name == "layers")


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_activations_are_those_of_korthikanti(tp: int) -> None:
    """s b h (34 / t + 5 a s / (h t)) less the two masks of dropout, which nothing here has.

    Source: Korthikanti et al., arXiv 2205.05198, table 2, with sequence parallelism.
    """
    model = replace(DENSE, kv_heads=16, ffn=4 * 2048, gated=False)
    for attention, scores in ((Attention.FLASH, 0.0), (Attention.UNFUSED, 5 * 16 * 2048 / 2048)):
        run = replace(small_run(model, tp=tp, sequence_parallel=tp > 1), attention=attention)
        kept = layers_of(layout_step(run, BARE)).kept_bytes
        assert kept == pytest.approx(2048 * 2048 * (32 + scores) / tp, rel=1e-12)
        full = replace(run, layout=replace(run.layout, recompute=Recompute.FULL))
        assert layers_of(layout_step(full, BARE)).kept_bytes == pytest.approx(
            2 * 2048 * 2048 / tp, rel=1e-12
        )


def test_stages_hold_as_many_micro_batches_as_1f1b_says() -> None:
    """Source: Narayanan et al., arXiv 2006.09503."""
    run = small_run(pp=4, dp=1)
    found = simulate_layout(run, Effects(), constants=BARE)
    step = layout_step(run, BARE)
    for number, (stage, curve) in enumerate(zip(step.stages, found.memory, strict=True)):
        blocks = [b for chunk in stage.chunks for b in chunk]
        kept = sum(b.kept_bytes * b.count for b in blocks) * (4 - number)
        working = max(b.working_bytes for b in blocks)
        assert curve.peak_bytes == pytest.approx(stage.state_bytes + kept + working)


def test_sequence_parallelism_and_recomputation_save_activations() -> None:
    plain = small_run(tp=4)
    smaller = [
        plain,
        small_run(tp=4, sequence_parallel=True),
        small_run(tp=4, sequence_parallel=True, recompute=Recompute.FULL),
    ]
    peaks = [simulate_layout(r, Effects(), constants=CONSTANTS).peak_memory_bytes for r in smaller]
    assert peaks == sorted(peaks, reverse=True)


def test_uneven_experts_slow_routed_models_alone() -> None:
    routed, dense = small_run(ROUTED, dp=16, ep=8), small_run(dp=16)
    for run, changed in ((routed, True), (dense, False)):
        even, uneven = (
            simulate_layout(run, Effects(), Options(f), constants=SHOWN).step_s for f in (1.0, 1.5)
        )
        assert (uneven > even) == changed


def seconds_of(parts: Iterable[Span]) -> dict[str, float]:
    """By cause."""
    out: dict[str, float] = {}
    for activity, seconds in parts:
        out[activity.cause] = out.get(activity.cause, 0.0) + seconds
    return out


def passes_of(step: Step) -> dict[str, float]:
    """What the passes of a layer take, by cause."""
    own = layers_of(step)
    return seconds_of((*own.forward, *own.again, *own.backward, *own.weight))


SENDING = (
    *LAYOUTS[1:4],
    small_run(ROUTED, dp=16, ep=8, tp=2, recompute=Recompute.FULL),
    replace(small_run(ROUTED, dp=16, ep=8), flags=frozenset({"ep-overlap"})),
    replace(small_run(tp=4), flags=frozenset({"fused-tp"})),
)


@pytest.mark.parametrize("run", SENDING, ids=name_of)
def test_what_a_layer_computes_does_not_depend_on_its_links(
    run: TrainingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = passes_of(layout_step(run, CONSTANTS))
    old = machine(run.machine)
    instant = replace(old, link_bytes_per_s=1e30, port_bytes_per_s=1e30)
    monkeypatch.setattr(machine_module, "machines", lambda: {run.machine: instant})
    silent = LayoutConstants(replace(CONSTANTS.step, start_s=0.0))
    after = passes_of(layout_step(run, silent))
    for cause in ("compute forward", "compute backward", "recompute"):
        # What is computed again hides beside a host that is waited for.
        near = 5e-3 if cause == "recompute" else 1e-9
        assert before.get(cause, 0.0) == pytest.approx(after.get(cause, 0.0), rel=near)
    moved = ("tensor parallel", "experts", "context parallel")
    sent = [(before.get(cause, 0.0), after.get(cause, 0.0)) for cause in moved]
    assert all(quicker <= slower for slower, quicker in sent)
    assert any(quicker < 0.6 * slower for slower, quicker in sent)


@pytest.mark.parametrize("run", SENDING, ids=name_of)
def test_what_is_seen_and_what_is_hidden_are_all_that_is_sent(run: TrainingRun) -> None:
    """On a host that is never waited for, whose time would hide some."""
    step = replace(STEP, host_s=0.0, host_tp_s=0.0)
    shares = {"tp_hidden": 0.25, "ep_hidden": 0.5, "cp_hidden": 0.75, "fused_hidden": 0.9}
    hiding = replace(step, **shares)
    layers = layers_of(layout_step(run, LayoutConstants(hiding)))
    whole = passes_of(layout_step(run, LayoutConstants(step)))
    seen = passes_of(layout_step(run, LayoutConstants(hiding)))
    hidden = seconds_of((*layers.hidden_forward, *layers.hidden_backward))
    for cause in whole:
        both = seen.get(cause, 0.0) + hidden.get(cause, 0.0)
        assert both == pytest.approx(whole[cause], rel=1e-9)
    # Only what runs beside computation can be hidden.
    assert ("experts" in hidden) == ("ep-overlap" in run.flags)


def test_the_exchange_between_experts_hides_in_the_pairs_of_dualpipe() -> None:
    """Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1."""
    run = small_run(ROUTED, pp=4, dp=8, ep=8, zero_stage=1, micro_batches=32)
    found = {}
    for schedule in ("1f1b", "dualpipe"):
        account = simulate_layout(ordered(run, schedule), Effects(), constants=SHOWN).account
        (found[schedule],) = (c for c in account.communication if c.kind == "all_to_all")
    assert found["1f1b"].exposed_s == pytest.approx(found["1f1b"].total_s)
    assert found["dualpipe"].total_s == pytest.approx(found["1f1b"].total_s)
    assert found["dualpipe"].exposed_s < 0.3 * found["dualpipe"].total_s


def test_the_busiest_expert_rank_exchanges_so_much_more() -> None:
    run = small_run(ROUTED, dp=16, ep=8)
    even, uneven = (passes_of(layout_step(run, SHOWN, Options(f))) for f in (1.0, 1.5))
    assert uneven["experts"] == pytest.approx(1.5 * even["experts"])
    assert 1.0 < uneven["compute forward"] / even["compute forward"] < 1.5


@pytest.mark.parametrize("dp", [8, 64])
def test_sharded_parameters_travel_beside_computation(dp: int) -> None:
    """Nearly all of it hides. The estimate, which is fitted to such runs, says so too; it leaves
    out the first gather and the last reduction, those of the vocabulary.
    """
    run = replace(small_run(LLAMA, dp=dp, zero_stage=3, micro_batches=1), profile="fsdp")
    run = replace(run, layout=replace(run.layout, seq_len=4096))
    found = simulate_layout(run, Effects())
    assert found.estimate_s < found.step_s < 1.04 * found.estimate_s
    assert found.account.exposed_s < 0.1 * sum(c.total_s for c in found.account.communication)


@pytest.mark.parametrize("hidden", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("zero", [0, 1, 2])
@pytest.mark.parametrize("overlap", [False, True])
def test_as_much_of_the_gradients_hides_as_the_software_hides(
    zero: int, hidden: float, overlap: bool
) -> None:
    """A run that says that it overlaps hides four fifths at least, whatever the stack does."""
    run = small_run(LLAMA, dp=64, zero_stage=zero, micro_batches=2)
    run = replace(run, flags=frozenset(["overlap"] if overlap else []),
                  layout=replace(run.layout, seq_len=8192))  # fmt: skip
    constants = LayoutConstants(replace(CONSTANTS.step, dp_hidden=hidden))
    found = simulate_layout(run, Effects(), constants=constants)
    assert found.step_s == pytest.approx(found.estimate_s, rel=0.02)
    sums = [(c.exposed_s, c.total_s) for c in found.account.communication]
    seen = sum(s for s, _ in sums) / sum(t for _, t in sums)
    wanted = 1 - max(hidden, 0.8 * overlap)
    # Nothing is left to hide the vocabulary behind, first and last.
    assert wanted * (1 - 1e-9) <= seen < wanted + 0.15


@pytest.mark.parametrize("run", [LAYOUTS[0], PIPELINES[0], SHARDED[0]], ids=name_of)
def test_unequal_devices_take_longer(run: TrainingRun) -> None:
    variation = Variation(Distribution("lognormal", 0.05), samples=5)
    found = simulate_layout(run, Effects(), variation=variation)
    assert found.varied_s is not None
    assert found.varied_s.mean() > found.step_s
    equal = simulate_layout(run, Effects(), variation=Variation())
    assert equal.varied_s is None


def test_all_of_16384_devices_are_simulated_as_one_per_stage() -> None:
    layout = small_run(LARGE, tp=8, pp=16, dp=128, zero_stage=1, micro_batches=16)
    found = simulate_layout(layout, Effects(), constants=CONSTANTS)
    assert found.load.devices == 16384
    assert [d.copies for d in found.account.devices] == [1024] * 16
    assert len(found.timeline.graph) < 5000


@pytest.mark.parametrize(
    ("run", "schedule"),
    [(small_run(pp=3), "dualpipe"), (small_run(pp=2, vpp=2), "zb-h1")],
    ids=name_of,
)
def test_a_layout_that_a_schedule_does_not_allow_is_refused(
    run: TrainingRun, schedule: str
) -> None:
    with pytest.raises(SimulationError, match="fix: choose another schedule= in --layout"):
        simulate_layout(ordered(run, schedule), Effects())


@pytest.mark.fast
def test_too_many_passes_are_refused() -> None:
    with pytest.raises(SimulationError, match="larger micro-batches"):
        simulate_layout(small_run(pp=2, micro_batches=10**6), Effects(), constants=CONSTANTS)


@pytest.mark.parametrize(("pp", "schedule"), list(product((2, 4), ("dualpipe",))))
def test_a_bidirectional_pipeline_holds_both_ends_on_each_device(pp: int, schedule: str) -> None:
    run = ordered(small_run(pp=pp, micro_batches=16), schedule)
    bare = replace(CONSTANTS, memory=replace(CONSTANTS.memory, context_bytes=0.0))
    step, one = layout_step(run, bare), layout_step(ordered(run, "1f1b"), bare)
    total = sum(s.state_bytes for s in one.stages)
    assert sum(s.state_bytes for s in step.stages) == pytest.approx(2 * total)
    assert simulate_layout(run, Effects()).step_s > 0


@pytest.mark.parametrize(("parallel", "kind"), [(False, "all_reduce"), (True, "all_gather")])
def test_what_tensor_parallel_ranks_send_is_named(parallel: bool, kind: str) -> None:
    """Source: Korthikanti et al., arXiv 2205.05198, section 4.2.2."""
    found = simulate_layout(small_run(tp=4, sequence_parallel=parallel), Effects())
    kinds = {c.kind for c in found.account.communication if c.cause == "tensor parallel"}
    assert kinds == {kind}
