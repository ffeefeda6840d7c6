"""The law of conventional layouts: where nothing overlaps, simulation equals estimate."""

from __future__ import annotations

import itertools
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.layout_estimate import in_turn_s
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.layout_stages import places_of, stage_layers
from costmodel.simulation.layout_step import LayoutConstants, layout_step
from costmodel.training import machines as machine_module
from costmodel.training.constants import StepConstants
from costmodel.training.links import Links
from costmodel.training.machines import machine
from costmodel.training.records import (
    Attention,
    Recompute,
    TrainingLayout,
    TrainingModel,
    TrainingRun,
)
from costmodel.training.step import step_times, times_in_turn
from costmodel.training.table import RunTable
from tests.costmodel.simulation.runs import (
    DELTA,
    DENSE,
    LARGE,
    ROUTED,
    STATES,
    faster,
    small_run,
)
from tests.costmodel.simulation.steps import step_s

PLAIN = StepConstants()
CONSTANTS = (PLAIN, replace(PLAIN, step_s=0.01, old_release=1.2, host_tp_s=1e-4, fetch_shown=0.3,
                            dp_hidden=0.5, bubble=0.9))  # fmt: skip
MODELS = tuple(
    replace(model, layers=8)
    for model in (
        DENSE,
        replace(DENSE, name="tied", gated=False, tied=True),
        replace(DENSE, name="latent", kv_rank=512, query_rank=1536, rotary_size=64, head_size=192),
        ROUTED,
        replace(ROUTED, name="grouped", expert_groups=4, groups_per_token=1),
        STATES,
        DELTA,
    )
)
MODELS_WITH_FURTHER = (
    *MODELS,
    *(replace(model, further=1, name=f"{model.name} predicting") for model in MODELS),
    replace(ROUTED, name="predicting two", layers=12, further=2),
)
"""Of 12 layers, two of the head and two predicting ones all chunks of 2 or 4 stages are equal."""
FLAGS = ("fused-tp", "overlap", "early-stop", "old-release", "gather-once", "ep-overlap", "frozen",
         "split-experts", "scatter-stages", "sends-once")  # fmt: skip
STAGES = {
    1: ((), (), ("1f1b",)),
    2: ((), (1, 7), ("1f1b", "gpipe", "zb-h1", "zb-h2", "dualpipe")),
    3: ((), (2, 5, 1), ("1f1b", "gpipe", "zb-h1", "zb-h2")),
    4: ((), (1, 3, 3, 1), ("1f1b", "gpipe", "zb-h1", "zb-h2", "dualpipe")),
}
"""By number of stages: uneven splits, and schedules with one chunk on each."""


@st.composite
def layouts(draw: st.DrawFn) -> TrainingRun:
    """Any layout with a schedule that it allows."""
    model, pp = draw(st.sampled_from(MODELS_WITH_FURTHER)), draw(st.sampled_from(list(STAGES)))
    vpp = draw(st.sampled_from((1, 2))) if pp > 1 else 1
    schedule = "" if vpp > 1 else draw(st.sampled_from(STAGES[pp][2]))
    dp, cp = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2)))
    zero = draw(st.sampled_from((0, 1, 2, 3)))
    turns = draw(st.sampled_from((1, 2, 5)))
    micro_batches = 2 * pp if schedule == "dualpipe" else turns * (pp if vpp > 1 else 1)
    layout = TrainingLayout(
        2 * dp * micro_batches,
        2,
        1024,
        tp=draw(st.sampled_from((1, 2, 8))),
        pp=pp,
        vpp=vpp,
        dp=dp,
        cp=cp,
        ep=dp if model.experts else 1,
        zero_stage=zero,
        zero_group=draw(st.sampled_from((0, dp))) if zero == 3 else 0,
        sequence_parallel=draw(st.booleans()),
        recompute=draw(st.sampled_from(list(Recompute))),
        recompute_share=draw(st.sampled_from((1.0, 0.5))),
        stage_layers=_listed(draw, model, schedule, STAGES[pp][1]),
        schedule=schedule,
    )
    chip, profile = draw(
        st.sampled_from((("h100", "fsdp"), ("a100-80g", "megatron"), ("ascend-910b", "mindspeed")))
    )
    flags = draw(st.frozensets(st.sampled_from(FLAGS)))
    attention = draw(st.sampled_from(list(Attention)))
    return TrainingRun("row", model, layout, chip, profile, attention=attention, flags=flags)


def _listed(
    draw: st.DrawFn, model: TrainingModel, schedule: str, uneven: tuple[int, ...]
) -> tuple[int, ...]:
    """Layers of stages. Opposite ones are as full as each other where micro-batches enter at both
    ends: the estimate takes the fullest stage for both.
    """
    if model.layers != 8:
        return (4,) * 3 if len(uneven) == 3 else ()
    if model.further and schedule == "dualpipe":
        return uneven
    return draw(st.sampled_from(((), uneven)))


@settings(max_examples=45)
@given(layouts(), st.sampled_from(CONSTANTS), st.sampled_from(list(Contention)))
def test_where_nothing_overlaps_simulation_equals_the_estimate(
    run: TrainingRun, constants: StepConstants, mode: Contention
) -> None:
    effects = Effects(overlap=False, contention=mode)
    found = simulate_layout(run, effects, constants=LayoutConstants(constants))
    assert found.step_s == pytest.approx(found.estimate_s, rel=1e-9)
    assert found.estimate_means == "without overlap"
    if run.layout.pp == 1:
        assert found.estimate_s == float(times_in_turn(RunTable.of([run]), constants).total[0])


@pytest.mark.parametrize(
    ("vpp", "schedule"), [(1, "1f1b"), (1, "gpipe"), (2, "interleaved"), (4, "interleaved")]
)
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_with_equal_stages_and_no_messages_it_is_the_closed_form(
    vpp: int, schedule: str, zero: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing at the ends, messages that take no time, micro-batches a multiple of the stages.

    Source: Narayanan et al., SC21, section 2.2.
    """
    monkeypatch.setattr(Links, "send_s", lambda _, nbytes, __: 0.0 * nbytes)
    model = replace(DENSE, vocab=0)
    run = small_run(model, pp=4, vpp=vpp, dp=8, zero_stage=zero, schedule=schedule)
    constants = replace(PLAIN, memory=1e18, step_s=0.5)
    closed = times_in_turn(RunTable.of([run]), constants)
    assert zero == 3 or closed.gradients[0] > 0
    found = in_turn_s(run, constants)
    assert found == pytest.approx(float(closed.total[0]), rel=1e-9)


@given(layouts(), st.sampled_from(CONSTANTS))
def test_nothing_is_faster_in_turn(run: TrainingRun, c: StepConstants) -> None:
    table = RunTable.of([run])
    beside = step_times(table, replace(c, bubble=1.0, fetch_shown=0.0)).total[0]
    assert times_in_turn(table, c).total[0] >= beside * (1 - 1e-12)


@settings(max_examples=30)
@given(
    layouts(),
    st.sampled_from(CONSTANTS),
    st.sampled_from(("link_bytes_per_s", "port_bytes_per_s", "peak_flops", "memory_bytes_per_s")),
    st.sampled_from((1.05, 1.5, 4.0)),
    st.sampled_from((0.05, 0.3, 1.0)),
    st.sampled_from((Contention.QUEUE, Contention.NONE)), st.sampled_from((0, 1, 5)), st.booleans(),
)  # fmt: skip
def test_a_better_machine_never_slows_any_layout(
    run: TrainingRun, c: StepConstants, rate: str, factor: float, port: float, mode: Contention,
    prefetch: int, overlap: bool,
) -> None:  # fmt: skip
    """With every setting of `planner simulate` that has the law; also where ports are slow."""
    found = faster(machine(run.machine), "port_bytes_per_s", port)
    times = []
    for more in (1.0, factor):
        better = faster(found, rate, more)
        with patch.object(machine_module, "machines", lambda better=better: {run.machine: better}):
            step = layout_step(run, LayoutConstants(c))
        times.append(step_s(step, Effects(overlap, mode, prefetch=prefetch)))
    assert times[1] <= times[0] * (1 + 1e-12)


GRID = [
    small_run(
        replace(model, layers=3 * pp), "h800", pp=pp, dp=4, cp=cp, ep=4 if model.experts else 1,
        zero_stage=zero, schedule=schedule, recompute=recompute, micro_batches=2 * pp,
    )
    for model in (LARGE, *MODELS_WITH_FURTHER[:8])
    for pp, cp, schedule in itertools.product((2, 8), (1, 2), STAGES[4][2])
    for zero, recompute in itertools.product((1, 3), (Recompute.NONE, Recompute.SELECTIVE))
    if model.mixer is None
]  # fmt: skip


@pytest.mark.parametrize("host_s", [0.0, 3e-5, 3e-4])
@pytest.mark.parametrize("port", [0.02, 0.1, 1.0])
@pytest.mark.parametrize(
    "rate", ["link_bytes_per_s", "port_bytes_per_s", "peak_flops", "memory_bytes_per_s"]
)
def test_a_better_machine_never_slows_the_estimate_of_a_bubble(
    host_s: float, port: float, rate: str
) -> None:
    """What gradients of weights fill shrinks no faster than the passes: where what is gathered is
    as long as a pass, where the host is, and where neither is.
    """
    constants, times = replace(PLAIN, host_s=host_s, fetch_shown=0.0), []
    for more in (1.0, 1.5, 4.0):
        better = faster(faster(machine("h800"), "port_bytes_per_s", port), rate, more)
        with patch.object(machine_module, "machines", lambda better=better: {"h800": better}):
            times.append(step_times(RunTable.of(GRID), constants).total)
    for slower, quicker in itertools.pairwise(times):
        worse = quicker > slower * (1 + 1e-12)
        assert not [run for run, found in zip(GRID, worse, strict=True) if found]


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 30), st.booleans())
def test_every_layer_is_somewhere(pp: int, vpp: int, more: int, bidirectional: bool) -> None:
    vpp = vpp if pp > 1 and not bidirectional else 1
    run = small_run(replace(DENSE, layers=pp * vpp + more), pp=pp, vpp=vpp)
    assert sum(stage_layers(run)) == run.model.layers
    chunks = [chunk for own in places_of(run, bidirectional=bidirectional) for chunk in own]
    both = 1 + bidirectional
    assert sum(chunk.layers for chunk in chunks) == pytest.approx(run.model.layers * both)
    assert [sum(chunk[end] for chunk in chunks) for end in (1, 2)] == [both, both]


@pytest.mark.parametrize(
    ("schedule", "vpp"), [("1f1b", 1), ("", 2), ("gpipe", 1), ("zb-h1", 1), ("dualpipe", 1)]
)
@pytest.mark.parametrize(("layers", "further"), [(8, 1), (12, 2), (13, 1)])
@pytest.mark.parametrize("zero", [1, 3])
def test_what_predicts_further_tokens_keeps_the_law(
    schedule: str, vpp: int, layers: int, further: int, zero: int
) -> None:
    model = replace(ROUTED, layers=layers, further=further)
    run = small_run(model, pp=4, vpp=vpp, dp=2, ep=2, zero_stage=zero, schedule=schedule)
    found = simulate_layout(run, Effects(overlap=False), constants=LayoutConstants(CONSTANTS[1]))
    assert found.step_s == pytest.approx(found.estimate_s, rel=1e-9)
    without = replace(run, model=replace(model, further=0),
                      layout=replace(run.layout, stage_layers=_stages_of(run)))  # fmt: skip
    assert found.step_s >= in_turn_s(without, CONSTANTS[1]) * (1 - 1e-12)
    chunks = [chunk for own in places_of(run) for chunk in own]
    assert [c.predicting for c in chunks] == [0.0] * (len(chunks) - 1) + [float(further)]


def _stages_of(run: TrainingRun) -> tuple[int, ...]:
    return tuple(round(n) for n in stage_layers(run))


def test_chunks_are_equal_with_the_head_and_what_predicts_further_tokens() -> None:
    """DeepSeek-V3 on 16 chunks of four: one layer, one that predicts, and the head as two."""
    run = small_run(replace(DENSE, layers=61, further=1), pp=4, vpp=4)
    chunks = [chunk.layers for own in places_of(run) for chunk in own]
    assert chunks == [4.0] * 15 + [1.0]


def test_ends_that_stand_for_a_layer_each_make_all_chunks_equally_long() -> None:
    """126 layers and both ends are 64 chunks of two."""
    run = small_run(LARGE, pp=8, vpp=8)
    chunks = [chunk for own in places_of(run) for chunk in own]
    assert all(chunk.layers + chunk.embedding + chunk.head == 2 for chunk in chunks)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
@pytest.mark.parametrize("pp", [1, 2])
@pytest.mark.parametrize("flags", [(), ("old-release",), ("gather-once",), ("frozen",)], ids=str)
def test_sharded_parameters_keep_the_law(
    model: TrainingModel, pp: int, flags: tuple[str, ...]
) -> None:
    run = small_run(model, pp=pp, dp=4, zero_stage=3, micro_batches=2)
    run = replace(run, flags=frozenset(flags))
    found = simulate_layout(run, Effects(overlap=False), constants=LayoutConstants(CONSTANTS[1]))
    assert found.step_s == pytest.approx(found.estimate_s, rel=1e-9)


@pytest.mark.parametrize("pp", [1, 2])
@pytest.mark.parametrize("group", [1, 2])
def test_groups_that_share_parameters_keep_the_law(pp: int, group: int) -> None:
    """What the groups exchange is of no single stage, and counts in full."""
    run = small_run(pp=pp, dp=2, cp=2, zero_stage=3, zero_group=group, micro_batches=2)
    found = simulate_layout(run, Effects(overlap=False), constants=LayoutConstants(CONSTANTS[1]))
    assert times_in_turn(RunTable.of([run]), CONSTANTS[1]).gradients[0] > 0
    assert found.step_s == pytest.approx(found.estimate_s, rel=1e-9)
