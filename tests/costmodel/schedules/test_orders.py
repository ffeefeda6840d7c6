"""Pipeline schedules against their closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.schedules.orders import (
    SCHEDULES,
    Direction,
    ScheduleError,
    Shape,
    orders,
)
from costmodel.simulation.effects import Effects
from costmodel.training.table import RunTable
from tests.costmodel.simulation.steps import block, even_step, step_s
from tests.costmodel.training.runs import LLAMA, run

SIZES = st.tuples(st.integers(1, 9), st.integers(1, 24))
TIMES = st.tuples(st.floats(0.1, 3), st.floats(0.1, 3))


@given(SIZES, TIMES, st.sampled_from(["gpipe", "1f1b"]))
def test_gpipe_and_1f1b_idle_for_p_minus_1_micro_batches(
    sizes: tuple[int, int], times: tuple[float, float], schedule: str
) -> None:
    """Source: Narayanan et al., SC21, section 2.2.1."""
    (stages, micro_batches), (forward, backward) = sizes, times
    found = step_s(even_step(schedule, stages, micro_batches, block(forward, backward)))
    assert found == pytest.approx((micro_batches + stages - 1) * (forward + backward), rel=1e-12)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 5), TIMES)
def test_interleaving_divides_the_bubble_by_the_chunks(
    stages: int, rounds: int, chunks: int, times: tuple[float, float]
) -> None:
    """Source: Narayanan et al., SC21, section 2.2.2; micro-batches are a multiple of stages."""
    micro_batches, (forward, backward) = rounds * stages, times
    own = block(forward / chunks, backward / chunks)
    found = step_s(even_step("interleaved", stages, micro_batches, own, chunks=chunks))
    ideal = micro_batches * (forward + backward)
    bubble = (stages - 1) * (forward + backward) / chunks
    assert found == pytest.approx(ideal + bubble, rel=1e-12)


@given(st.integers(1, 8), st.integers(0, 12), st.floats(0.2, 2), st.floats(0, 1), st.floats(0, 1))
def test_zero_bubble_h1_fills_the_bubble_with_weight_gradients(
    stages: int, more: int, forward: float, share: float, of_weight: float
) -> None:
    """(p - 1)(f + b - w) where w is at most f and at most b. Source: Qi et al., table 2."""
    backward = forward * (1 + share)
    weight = forward * of_weight
    micro_batches = 2 * stages + more
    found = step_s(even_step("zb-h1", stages, micro_batches, block(forward, backward, weight)))
    bubble = (stages - 1) * (forward + backward - weight)
    assert found == pytest.approx(micro_batches * (forward + backward + weight) + bubble, rel=1e-9)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2"])
@given(st.integers(2, 8), st.integers(1, 24), st.floats(0.2, 2), st.floats(0, 1), st.floats(0, 1))
def test_gradients_of_few_micro_batches_fill_little(
    schedule: str, stages: int, micro_batches: int, forward: float, share: float, of_weight: float
) -> None:
    """What the estimate says is put off is what the order puts off, however few there are."""
    backward, weight = forward * (1 + share), forward * of_weight
    found = step_s(even_step(schedule, stages, micro_batches, block(forward, backward, weight)))
    planned = run(
        replace(LLAMA, layers=stages), pp=stages, global_batch=micro_batches, schedule=schedule
    )
    table = RunTable.of([planned])
    filled = float(table.pipelines.deferred_share[0]) - 1.0
    bubble = (stages - 1) * (forward + backward - filled * weight)
    assert found == pytest.approx(micro_batches * (forward + backward + weight) + bubble, rel=1e-9)


@given(st.integers(1, 8), st.integers(0, 12), st.floats(0.2, 2))
def test_zero_bubble_h2_has_none_where_all_passes_take_equally_long(
    stages: int, more: int, time_s: float
) -> None:
    """(p - 1)(f + b - 2 w) from step to step. Source: Qi et al., table 2."""
    micro_batches = 3 * stages + more
    own = block(time_s, time_s, time_s)
    assert step_s(even_step("zb-h2", stages, micro_batches, own)) == pytest.approx(
        3 * time_s * micro_batches, rel=1e-9
    )


@given(st.integers(1, 5), st.integers(0, 6), st.floats(0.2, 2))
def test_dual_pipe_has_its_published_bubble_where_all_passes_take_equally_long(
    half: int, more: int, time_s: float
) -> None:
    """(p / 2 - 1)(FB + B - 3 W), FB two passes that overlap and end together.

    Source: the table of github.com/deepseek-ai/DualPipe.
    """
    stages, micro_batches = 2 * half, 4 * half + 2 * more
    own = block(time_s, time_s, time_s)
    found = step_s(even_step("dualpipe", stages, micro_batches, own, chunks=2), Effects())
    bubble = (half - 1) * (3 + 2 - 3) * time_s
    assert found == pytest.approx(3 * time_s * micro_batches + bubble, rel=1e-9)


@given(SIZES, st.integers(1, 3), st.sampled_from(sorted(SCHEDULES)))
def test_every_pass_runs_once_and_backward_after_forward(
    sizes: tuple[int, int], chunks: int, name: str
) -> None:
    stages, micro_batches = sizes
    schedule = SCHEDULES[name]
    if schedule.bidirectional:
        stages, chunks, micro_batches = 2 * stages, 2, 4 * stages + 2 * (micro_batches // 2)
    elif name != "interleaved":
        chunks = 1
    else:
        micro_batches *= stages
    for order in orders(name, Shape(stages, chunks, micro_batches)):
        seen = Counter((p.direction, p.chunk, p.micro) for p in order)
        assert set(seen.values()) == {1}
        own = micro_batches // 2 if schedule.bidirectional else micro_batches
        assert len([p for p in order if p.direction is Direction.FORWARD]) == chunks * own
        weights = {p[1:3] for p in order if p.direction is Direction.WEIGHT}
        apart = {p[1:3] for p in order if p.direction is Direction.BACKWARD and not p.whole}
        assert weights == apart
        at = {(p.direction, p.chunk, p.micro): i for i, p in enumerate(order)}
        for (direction, chunk, micro), place in at.items():
            if direction is Direction.BACKWARD:
                assert at[Direction.FORWARD, chunk, micro] < place


@pytest.mark.parametrize(("name", "most"), [("1f1b", "p - i"), ("zb-h1", "p"), ("gpipe", "m")])
def test_a_stage_holds_no_more_micro_batches_than_published(name: str, most: str) -> None:
    stages, micro_batches = 5, 12
    for stage, order in enumerate(orders(name, Shape(stages, 1, micro_batches))):
        held = highest = 0
        for each in order:
            held += each.direction is Direction.FORWARD
            highest = max(highest, held)
            held -= each.direction is Direction.WEIGHT
            held -= each.direction is Direction.BACKWARD and each.whole
        assert highest == {"p - i": stages - stage, "p": stages, "m": micro_batches}[most]


@pytest.mark.parametrize(("stages", "chunks"), [(4, 2), (3, 4), (1, 3)])
def test_interleaving_holds_as_many_chunks_as_published(stages: int, chunks: int) -> None:
    """p v (1 + (p - 1) / (p v)) on the first stage, two fewer on each one behind it.

    Source: Korthikanti et al., arXiv 2205.05198, section 4.2.3.
    """
    for stage, order in enumerate(orders("interleaved", Shape(stages, chunks, 4 * stages))):
        held = highest = 0
        for each in order:
            held += 1 if each.direction is Direction.FORWARD else -1
            highest = max(highest, held)
        assert highest == stages * chunks + stages - 1 - 2 * stage


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("2f2b", Shape(2, 1, 4), "unknown schedule '2f2b'; known: gpipe"),
        ("1f1b", Shape(2, 2, 4), "1f1b has one chunk of layers on each stage, vpp is 2"),
        ("1f1b", Shape(2, 1, 0), "stages, chunks and micro-batches are 1 or more"),
        ("dualpipe", Shape(3, 2, 8), "even number of stages"),
        ("dualpipe", Shape(4, 2, 6), "not 4 stages and 6 micro-batches"),
        (
            "interleaved",
            Shape(8, 2, 28),
            "one for each stage; 28 is none",
        ),
    ],
)
def test_numbers_that_a_schedule_does_not_allow_are_named(
    name: str, shape: Shape, message: str
) -> None:
    with pytest.raises(ScheduleError, match=message):
        orders(name, shape)
