"""What the order of passes makes of a pipeline: closed forms against simulated passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.schedules.closed_form import Elsewhere
from costmodel.schedules.orders import SCHEDULES, Direction, ScheduleError, Shape, orders
from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.layout_step import LayoutConstants, layout_step
from costmodel.simulation.result import SimulationError
from costmodel.simulation.step import Block
from costmodel.simulation.task_graph import Activity, Span
from costmodel.training.constants import StepConstants
from costmodel.training.layout_check import near_batches, order_faults
from costmodel.training.memory import MemoryConstants, memory_use
from costmodel.training.records import TrainingRun
from costmodel.training.step import step_times, times_in_turn
from costmodel.training.table import RunTable
from tests.costmodel.simulation.runs import DENSE, ROUTED, small_run
from tests.costmodel.simulation.steps import even_step, step_s

CONSTANTS = StepConstants(dp_hidden=0.9, pp_shown=0.1)
MANY = replace(ROUTED, layers=16, dense_layers=0, expert_groups=4, groups_per_token=2)


def ordered(order: str, pp: int = 4, micro_batches: int = 24, zero_stage: int = 1) -> TrainingRun:
    """A run with experts on four servers."""
    made = small_run(
        MANY, pp=pp, dp=32, ep=16, zero_stage=zero_stage, micro_batches=micro_batches,
        schedule=order,
    )  # fmt: skip
    return replace(made, flags=frozenset({"sends-once"}))


@given(
    st.sampled_from(["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe"]), st.integers(1, 4),
    st.integers(0, 4), st.floats(0.2, 2), st.floats(0, 1),
)  # fmt: skip
def test_where_all_passes_take_equally_long_it_is_what_is_simulated(
    order: str, half: int, more: int, time_s: float, sent: float
) -> None:
    """Of DualPipe with what is sent in both passes, hidden where they run in pairs."""
    stages, micro_batches = 2 * half, 6 * half + 2 * more
    both = order == "dualpipe"
    moved = (Span(Activity("experts", "all_to_all"), sent * time_s),) if both else ()
    computing = Span(Activity("compute forward"), time_s)
    own = Block("", 1.0, (computing, *moved), (computing, *moved), (computing,))
    found = step_s(
        even_step(order, stages, micro_batches, own, chunks=1 + both),
        Effects() if both else Effects.none(),
    )
    table = RunTable.of([small_run(pp=stages, micro_batches=micro_batches, schedule=order)])
    one = (3 + 2 * len(moved) * sent) * time_s
    passes = (one, one - (1 + len(moved) * sent) * time_s, time_s, 3 * time_s)
    closed = table.pipelines.steady_s(np.array([one]), np.array([3 * time_s]))
    others = Elsewhere(*(np.array([(stages - 1) * each]) for each in passes))
    closed = closed + table.pipelines.idle_s(others)
    assert found == pytest.approx(float(closed[0]), rel=1e-9)


@given(
    st.sampled_from(["", *SCHEDULES, "2f2b"]), st.integers(1, 9), st.sampled_from([1, 2]),
    st.integers(1, 24),
)  # fmt: skip
def test_what_cannot_be_is_named_as_the_simulation_does(
    order: str, pp: int, vpp: int, micro_batches: int
) -> None:
    run = small_run(pp=pp, vpp=vpp, micro_batches=micro_batches, schedule=order)
    told, both = bool(list(order_faults(run.layout))), order == "dualpipe"
    try:
        orders(order or "interleaved", Shape(pp, 2 if both else vpp, micro_batches))
    except ScheduleError:
        assert told
    else:
        assert told is (both and vpp > 1)


@pytest.mark.parametrize("order", ["1f1b", "gpipe", "zb-h1", "zb-h2", "dualpipe"])
@pytest.mark.parametrize("pp", [2, 4, 8])
def test_the_estimate_is_near_the_simulation(order: str, pp: int) -> None:
    """Passes are not equally long, which the closed forms of ZB and DualPipe take them to be."""
    found = simulate_layout(ordered(order, pp), Effects(), constants=LayoutConstants(CONSTANTS))
    assert found.estimate_s == pytest.approx(found.step_s, rel=0.04)


def test_every_order_idles_less_than_the_one_before() -> None:
    table = RunTable.of([ordered(order) for order in ("1f1b", "zb-h1", "zb-h2")])
    idle = step_times(table, CONSTANTS).bubble
    assert idle[0] > idle[1] > idle[2] > 0
    gpipe = RunTable.of([ordered("gpipe"), ordered("")])
    assert (
        step_times(gpipe, CONSTANTS).total.tolist() == [step_times(table, CONSTANTS).total[0]] * 2
    )


@pytest.mark.fast
def test_pairs_hide_what_experts_exchange() -> None:
    """But for the passes that run alone; nothing where nothing overlaps."""
    shown = {}
    for order in ("1f1b", "dualpipe"):
        run = ordered(order, micro_batches=96)
        run = replace(run, model=replace(run.model, vocab=0))
        free = replace(run, port_bytes_per_s=1e15)
        shown[order] = [
            float(times(RunTable.of([run]), CONSTANTS).steady[0])
            - float(times(RunTable.of([free]), CONSTANTS).steady[0])
            for times in (step_times, times_in_turn)
        ]
    assert shown["dualpipe"][0] == pytest.approx((4 + 1) / 96 * shown["1f1b"][0], rel=1e-6)
    assert shown["dualpipe"][1] == pytest.approx(shown["1f1b"][1], rel=1e-9)


@pytest.mark.parametrize("zero_stage", [0, 1, 3])
def test_a_pipeline_in_two_directions_has_each_stage_twice(zero_stage: int) -> None:
    """States that replicas share are shared by twice as many."""
    plain, both = (
        memory_use(
            RunTable.of([ordered(order, zero_stage=zero_stage)]), MemoryConstants(), ("middle",)
        )
        for order in ("1f1b", "dualpipe")
    )
    for stage, name in ((3, "parameters"), (2, "gradients"), (1, "optimizer")):
        copies = 2.0 if zero_stage < stage else 1.0
        wanted = copies * float(getattr(plain, name)[0])
        assert float(getattr(both, name)[0]) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("order", ["1f1b", "zb-h1", "dualpipe"])
@pytest.mark.parametrize("zero_stage", [0, 1, 3])
def test_states_are_those_of_the_simulation(order: str, zero_stage: int) -> None:
    run, kept = ordered(order, zero_stage=zero_stage), MemoryConstants(context_bytes=0.0)
    table = RunTable.of([run])
    stages = layout_step(run, LayoutConstants(CONSTANTS, kept)).stages
    for place, number in (("first", 0), ("middle", 1), ("last", 3)):
        use = memory_use(table, kept, (place,))
        states = use.parameters + use.gradients + use.optimizer
        assert stages[number].state_bytes == pytest.approx(float(states[0]), rel=1e-9)


@pytest.mark.parametrize("order", ["1f1b", "gpipe", "zb-h1", "zb-h2", "dualpipe"])
@pytest.mark.parametrize("pp", [2, 4, 8])
def test_as_many_micro_batches_are_kept_as_the_order_holds(order: str, pp: int) -> None:
    """Of the fullest stage; those of two stages are half as much each."""
    both, micro_batches = order == "dualpipe", 3 * pp
    highest = 0
    for passes in orders(order, Shape(pp, 1 + both, micro_batches)):
        held = 0
        for each in passes:
            held += each.direction is Direction.FORWARD
            highest = max(highest, held)
            held -= each.direction is Direction.WEIGHT
            held -= each.direction is Direction.BACKWARD and each.whole
    run = small_run(replace(DENSE, vocab=1), pp=pp, micro_batches=micro_batches, schedule=order)
    one = small_run(replace(DENSE, vocab=1), pp=pp, micro_batches=1, schedule="1f1b")
    kept = [
        float(memory_use(RunTable.of([each]), MemoryConstants(), ("first",)).activations[0])
        for each in (run, one)
    ]
    assert kept[0] == pytest.approx(highest * kept[1], rel=1e-9)


@given(
    st.sampled_from([("1f1b", 1), ("interleaved", 2), ("", 3), ("dualpipe", 1)]),
    st.sampled_from([2, 4, 6]), st.integers(1, 3), st.integers(1, 3), st.integers(1, 200),
)  # fmt: skip
def test_batches_that_are_named_go_and_are_the_nearest(
    order: tuple[str, int], pp: int, dp: int, micro: int, batch: int
) -> None:
    made = small_run(pp=pp, vpp=order[1], dp=dp, schedule=order[0]).layout

    def goes(number: int) -> bool:
        layout = replace(made, global_batch=number, micro_batch=micro)
        return number % (micro * dp) == 0 and not any(order_faults(layout))

    found = near_batches(replace(made, global_batch=batch, micro_batch=micro))
    below = [number for number in range(1, batch + 1) if goes(number)]
    above = next(number for number in range(batch, 3000) if goes(number))
    assert found == tuple(sorted({*below[-1:], above})) or found == (batch,)
    assert (found == (batch,)) == goes(batch)


@pytest.mark.parametrize(
    ("batch", "near", "order"),
    [
        (2, "a multiple of micro-batch times replicas, such as 4", (1, 1, "")),
        (33, "a multiple of micro-batch times replicas, such as 32 or 36", (1, 1, "")),
        (36, "32 or 40, or choose another schedule=", (4, 1, "dualpipe")),
        (8, "32, or choose another schedule=", (4, 1, "dualpipe")),
        (20, "16 or 32, or choose another schedule=", (4, 2, "")),
    ],
)
def test_a_batch_that_cannot_be_is_refused_with_those_that_can(
    batch: int, near: str, order: tuple[int, int, str]
) -> None:
    run = small_run(dp=4, pp=order[0], vpp=order[1], schedule=order[2])
    uneven = replace(run, layout=replace(run.layout, global_batch=batch))
    with pytest.raises(SimulationError, match=f"fix: make the batch {near}"):
        simulate_layout(uneven, Effects())
