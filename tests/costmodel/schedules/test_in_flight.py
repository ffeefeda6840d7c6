"""What is on the way in a device that visits several chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.schedules.in_flight import Counts, in_flight_counts, moments, most_of_each
from costmodel.schedules.orders import SCHEDULES, Direction, Shape
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import run
from costmodel.simulation.lowering import Lowered
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.step import Stage
from costmodel.training.memory import MemoryConstants, memory_use
from costmodel.training.table import RunTable
from planner.pipeline.space import Configuration
from tests.builders import mlp
from tests.costmodel.simulation.steps import block, even_step
from tests.costmodel.training.runs import run as small_run
from tests.executors.drawn_stages import drawn_stages


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    stages, chunks = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    return Shape(stages, chunks, stages * draw(st.integers(1, 7)))


def schedule_of(shape: Shape) -> str:
    return "1f1b" if shape.chunks == 1 else "interleaved"


def beside(shape: Shape, stage: int) -> Iterator[tuple[Direction, int, Counts]]:
    """Of every pass its chunk and what is on the way beside its micro-batch."""
    now = [0] * shape.chunks
    for item in SCHEDULES[schedule_of(shape)].order(shape, stage):
        forward = item.direction is Direction.FORWARD
        now[item.chunk] -= not forward
        yield item.direction, item.chunk, tuple(now)
        now[item.chunk] += forward


def bytes_of(counts: Sequence[int], each: Sequence[int]) -> int:
    return sum(n * own for n, own in zip(counts, each, strict=True))


@given(st.data(), shapes())
def test_no_pass_finds_more_on_the_way_than_some_moment(data: st.DataObject, shape: Shape) -> None:
    """Of every chunk, forward and backward, whatever bytes the chunks have, and no less."""
    stage = data.draw(st.integers(0, shape.stages - 1))
    each = data.draw(st.lists(st.integers(0, 99), min_size=shape.chunks, max_size=shape.chunks))
    every = moments(schedule_of(shape), shape, stage)
    passes = list(beside(shape, stage))
    for chunk, own in enumerate(every):
        most = max(bytes_of(counts, each) for counts in own)
        for way in (Direction.FORWARD, Direction.BACKWARD):
            found = [bytes_of(n, each) for d, c, n in passes if (d, c) == (way, chunk)]
            assert max(found) == most


@given(shapes())
def test_equal_chunks_keep_the_passes_ahead_and_one(shape: Shape) -> None:
    """Narayanan et al., SC 2021, section 2.2; the passes ahead are Megatron-LM's."""
    for stage in range(shape.stages):
        every = moments(schedule_of(shape), shape, stage)
        ahead = shape.stages - stage - 1
        if shape.chunks > 1:
            ahead = 2 * ahead + (shape.chunks - 1) * shape.stages
        wanted = min(ahead + 1, shape.micro_batches * shape.chunks)
        assert max(map(sum, in_flight_counts(every))) == wanted


@given(shapes())
def test_moments_are_few(shape: Shape) -> None:
    for stage in range(shape.stages):
        assert all(len(own) <= 3 for own in moments(schedule_of(shape), shape, stage))


@settings(max_examples=25)
@given(st.data(), shapes())
def test_the_simulation_of_a_layout_peaks_at_a_moment(data: st.DataObject, shape: Shape) -> None:
    """To the byte, with equal chunks and with others."""
    equal, bytes_each = data.draw(st.booleans()), st.integers(1, 1000)
    stages, wanted = [], []
    for stage in range(shape.stages):
        each = [data.draw(bytes_each)] * shape.chunks
        if not equal:
            each = [data.draw(bytes_each) for _ in each]
        own = tuple((block(1.0, 2.0, kept_bytes=float(nbytes)),) for nbytes in each)
        stages.append(Stage(f"stage {stage}", own, state_bytes=7.0))
        every = moments(schedule_of(shape), shape, stage)
        wanted.append(7.0 + max(bytes_of(counts, each) for counts in in_flight_counts(every)))
    step = even_step(schedule_of(shape), shape.stages, shape.micro_batches, block(1.0, 2.0),
                   chunks=shape.chunks)  # fmt: skip
    lowered = Lowered(replace(step, stages=tuple(stages)), Effects.none())
    assert [c.peak_bytes for c in lowered.memory(run(lowered.graph))] == wanted


@given(shapes())
def test_the_estimate_of_a_layout_keeps_as_many_in_its_first_and_last_stage(
    shape: Shape,
) -> None:
    bare = MemoryConstants(context_bytes=0.0)
    layers = shape.stages * shape.chunks
    made = small_run(pp=shape.stages, vpp=shape.chunks, global_batch=shape.micro_batches)
    model = replace(made.model, layers=layers, vocab=1)
    table = RunTable.of([replace(made, model=model)])
    one = RunTable.of([small_run(model)])
    each = memory_use(one, bare).activations[0] / layers
    for name, stage in (("first", 0), ("last", shape.stages - 1)):
        kept = max(map(sum, in_flight_counts(moments(schedule_of(shape), shape, stage))))
        assert memory_use(table, bare, (name,)).activations[0] == pytest.approx(kept * each)


@pytest.mark.parametrize(
    "shape",
    [Configuration(2, 4, 4, 2), Configuration(2, 2, 8, 3), Configuration(4, 4, 4, 2)],
    ids=str,
)
def test_the_simulation_of_a_plan_peaks_as_the_plan_says(shape: Configuration) -> None:
    """Of every part of the machine to the byte, though its pieces are unequal."""
    plan = drawn_stages(mlp(8, 4, 512, 1024), 8, shape, "generic", 3)
    stages = plan.pipeline.stages
    found = [curve.peak_bytes for curve in simulate_plan(plan, Effects()).memory]
    own = [max(s.peak_memory_bytes for s in stages[k :: shape.stages]) for k in range(shape.stages)]
    assert found == own
    assert max(found) == max(plan.memory_bytes) == plan.estimate.peak_memory_bytes
    order = Shape(shape.stages, shape.chunks, shape.micro_batches)
    for part in range(shape.stages):
        most = most_of_each(moments("interleaved", order, part))
        assert tuple(s.in_flight for s in stages[part :: shape.stages]) == most
