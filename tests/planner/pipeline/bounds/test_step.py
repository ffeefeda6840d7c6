"""No step takes less than its bounds say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from costmodel.schedules.least_step import Work, even_step_s, solved_rounds, step_weights
from costmodel.schedules.orders import SCHEDULES, Direction
from costmodel.schedules.orders import Shape as ScheduleShape
from costmodel.simulation.step_in_order import in_order_s
from ir.plan import Pipeline, PipelineStage
from planner.pipeline.bounds.step import (
    Least,
    cut_step_s,
    given_step_s,
    least_step_s,
)
from planner.pipeline.configuration import _ConfigurationLayouts
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.prices import extrapolated
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration
from planner.pipeline.stage_plan import drafted
from planner.request import InfeasibleError, SearchRequest
from planner.solvers import Budget, solver_by_name
from tests.builders import mlp
from tests.executors.drawn_plans import priced_at_random
from tests.executors.drawn_stages import drawn_stages
from topology.catalogue import named_cluster

Wait = tuple[int, int, int]
"""One task does not end before another one and a weight: numbers of both and of the weight."""


def waits(shape: Configuration) -> Iterator[Wait]:
    """Of all passes; weights are the forward passes of all pieces, then the backward ones."""
    name = "1f1b" if shape.chunks == 1 else "interleaved"
    pieces, times = shape.pieces, shape.micro_batches

    def number(direction: Direction, piece: int, micro: int) -> int:
        back = direction is Direction.BACKWARD
        return (back * pieces + piece) * times + micro

    drawn = ScheduleShape(shape.stages, shape.chunks, times)
    for part in range(shape.stages):
        before = -1
        for direction, chunk, micro, *_ in SCHEDULES[name].order(drawn, part):
            piece, back = chunk * shape.stages + part, direction is Direction.BACKWARD
            own, weight = number(direction, piece, micro), back * pieces + piece
            yield own, before, weight
            if not back and piece:
                yield own, number(direction, piece - 1, micro), weight
            elif back and piece < pieces - 1:
                yield own, number(direction, piece + 1, micro), weight
            elif back:
                yield own, number(Direction.FORWARD, piece, micro), weight
            before = own


def least_of_all_shares(shape: Configuration) -> float:
    """Of a micro-batch of one second, the shortest step over all ways to share it out."""
    weights, tasks = 2 * shape.pieces, 2 * shape.pieces * shape.micro_batches
    rows = []
    for own, before, weight in waits(shape):
        row = np.zeros(weights + tasks + 1)
        row[weight], row[weights + own] = 1.0, -1.0
        if before >= 0:
            row[weights + before] = 1.0
        rows.append(row)
    for task in range(tasks):
        row = np.zeros(weights + tasks + 1)
        row[weights + task], row[-1] = 1.0, -1.0
        rows.append(row)
    whole = np.zeros((1, weights + tasks + 1))
    whole[0, :weights] = 1.0
    goal = np.zeros(weights + tasks + 1)
    goal[-1] = 1.0
    found = linprog(goal, np.array(rows), np.zeros(len(rows)), whole, [1.0], method="highs")
    assert found.fun is not None
    return float(found.fun)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_stages_in_a_row_cannot_share_the_work_better(stages: int) -> None:
    for times in range(1, 2 * stages + 1):
        shape = Configuration(stages, 1, times)
        assert even_step_s(Work(0.0, 1.0), shape) == pytest.approx(least_of_all_shares(shape))


@pytest.mark.parametrize(
    "shape",
    [
        Configuration(2, 1, 2, 2),
        Configuration(2, 1, 6, 3),
        Configuration(3, 1, 6, 2),
        Configuration(4, 1, 4, 2),
    ],
    ids=str,
)
def test_chunks_leave_at_least_half_of_the_idle_time(shape: Configuration) -> None:
    found, least = least_of_all_shares(shape), even_step_s(Work(0.0, 1.0), shape)
    busy = shape.micro_batches / shape.stages
    idle = (shape.stages - 1) / shape.chunks / shape.stages
    assert busy + idle / 2 <= least + 1e-9
    assert least <= found + 1e-9
    assert found < busy + idle
    closely = even_step_s(Work(0.0, 1.0), shape, closely=True)
    assert closely == pytest.approx(found, rel=1e-5)
    assert closely <= found


@pytest.mark.parametrize("chunks", [1, 2])
def test_the_mean_end_of_all_stages_is_no_later_than_the_last(chunks: int) -> None:
    """What the linear programme finds falls, ever faster, as the mean end counts more."""
    every = [solved_rounds(4, chunks, 4, share / 4) for share in range(5)]
    falls = [a - b for a, b in itertools.pairwise(every)]
    assert falls[0] > 0
    assert all(b >= a - 1e-5 for a, b in itertools.pairwise(falls))
    assert every[-1] == pytest.approx(1.0, rel=1e-5)


def test_a_step_of_many_passes_has_the_closed_form_alone() -> None:
    shape = Configuration(16, 1, 64, 4)
    work = Work(2.0, 1.0)
    assert list(step_weights(work, shape, closely=True)) == list(step_weights(work, shape))
    few = replace(shape, micro_batches=16, chunks=2)
    assert len(list(step_weights(Work(9.0, 1.0), few, closely=True))) == 3
    assert len(list(step_weights(Work(1.0, 1.0), few, closely=True))) == 2


SECONDS = st.floats(0.0, 2.0)
SHAPES = st.sampled_from(
    [
        Configuration(2, 1, 5),
        Configuration(3, 1, 2),
        Configuration(4, 1, 16),
        Configuration(4, 1, 3),
        Configuration(2, 1, 4, 2),
        Configuration(3, 1, 6, 3),
        Configuration(1, 1, 4),
    ]
)


@settings(max_examples=200)
@given(data=st.data(), shape=SHAPES)
def test_no_step_in_its_order_is_shorter(data: st.DataObject, shape: Configuration) -> None:
    stages, pieces = [], []
    for number in range(shape.pieces):
        there, back, sync, update = (data.draw(SECONDS) for _ in range(4))
        once = sync + update
        stages.append(PipelineStage(number, number + 1, there, back, once, 0.0, 1,
                                    sync_s=sync, update_s=update))  # fmt: skip
        steady = there + back
        shared = steady + once / shape.micro_batches
        pieces.append(Least(shared, steady, steady + once, update))
    name = "1f1b" if shape.chunks == 1 else "interleaved"
    pipeline = Pipeline(name, shape.micro_batches, 1, tuple(stages), chunks=shape.chunks)
    found = in_order_s(pipeline)
    work = Work(*(math.fsum(piece[kind] for piece in pieces) for kind in (0, 1, 3)))
    for closely in (False, True):
        least_s = given_step_s(pieces, shape, closely=closely)
        assert even_step_s(work, shape, closely=closely) <= least_s + 1e-9
        assert least_s <= found * (1 + 1e-9) + 1e-12


@settings(max_examples=60)
@given(data=st.data(), stages=st.integers(1, 4), times=st.integers(1, 8))
def test_the_least_of_all_cuts_is_no_more_than_that_of_any(
    data: st.DataObject, stages: int, times: int
) -> None:
    count = data.draw(st.integers(stages, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(np.ones((count, count + 1)), 1) > 0
    steady, once = (np.where(upper, rng.random((count, count + 1)), np.inf) for _ in range(2))
    own = Least(steady + once / times, steady, steady + once, once / 2)
    least, shape = [own] * stages, Configuration(stages, 1, times)
    every = [
        cut_step_s(least, (*inner, count), shape)
        for inner in itertools.combinations(range(1, count), stages - 1)
    ]
    found = least_step_s(least, shape)
    assert found <= min(every) * (1 + 1e-9)
    closely = [
        given_step_s([Least(*(t[span] for t in own)) for span in spans], shape, closely=True)
        for spans in _cuts(count, stages)
    ]
    assert least_step_s(least, shape, closely=True) <= min(closely) * (1 + 1e-9)
    assert found >= min(max(times * max(own.shared_s[i, j] for i, j in spans), 0.0)
                        for spans in _cuts(count, stages)) * (1 - 1e-9)  # fmt: skip


def _cuts(count: int, stages: int) -> Iterator[list[tuple[int, int]]]:
    for inner in itertools.combinations(range(1, count), stages - 1):
        yield list(itertools.pairwise((0, *inner, count)))


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize(
    "shape",
    [
        Configuration(2, 4, 4),
        Configuration(4, 4, 4),
        Configuration(4, 8, 2),
        Configuration(2, 16, 1),
        Configuration(2, 4, 4, 2),
    ],
    ids=str,
)
def test_no_drawn_plan_is_shorter_than_the_bound_of_its_shape(
    shape: Configuration, target: str
) -> None:
    graph, cluster = mlp(6, 4, 512, 1024), named_cluster("atlas-800t-a2", 8)
    for zero in ("0", "1", "2", "3"):
        request = SearchRequest(
            global_batch=16, pipeline=str(shape.stages), micro_batch=str(shape.micro_batch),
            interleave=str(shape.chunks), zero=zero, target=target,
        )  # fmt: skip
        try:
            bound_s = search_pipeline(graph, cluster, request).bound.bound_s
        except InfeasibleError:
            continue
        for seed in range(6):
            drawn = drawn_stages(graph, 8, shape, target, seed, zero)
            assert bound_s <= drawn.estimate.step_time_s * (1 + 1e-9)


@pytest.mark.parametrize("zero", ["0", "1", "2", "3"])
@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize(
    "shape",
    [
        Configuration(2, 4, 4),
        Configuration(4, 8, 2),
        Configuration(2, 16, 1),
        Configuration(2, 4, 4, 2),
    ],
    ids=str,
)
def test_without_what_happens_once_a_problem_costs_what_a_micro_batch_takes(
    shape: Configuration, target: str, zero: str
) -> None:
    """And with all of it, as much as a step of one micro-batch would."""
    request = SearchRequest(
        global_batch=16, pipeline=str(shape.stages), micro_batch=str(shape.micro_batch),
        interleave=str(shape.chunks), zero=zero, target=target, overlap="none",
    )  # fmt: skip
    graph, cluster = mlp(6, 4, 512, 1024), named_cluster("atlas-800t-a2", 8)
    task = PipelineSearch(graph, cluster, request)
    micro, counts = task.true_micro(shape.micro_batch), (0,) * shape.pieces
    ends = tuple(micro.segments.count * (k + 1) // shape.pieces for k in range(shape.pieces))
    whole = _ConfigurationLayouts(task, shape, ends, 0.0, tuple(range(shape.stages)))
    shared = whole._lowered(counts, recompute=False)
    numbers = [k for s in range(shape.stages) for k in range(s, shape.pieces, shape.stages)]
    template = task.setting(micro, *task.stage_machine(shape), shape.micro_batches)
    setting = replace(template, in_flight=shared.setting.in_flight, steady=True)
    steady = task.lowered(whole._pieces(counts, numbers), setting)
    all_once = extrapolated(steady.problem, shared.problem, shape.micro_batches)
    for seed in range(3):
        drawn = priced_at_random(shared.problem, np.random.default_rng(seed))
        found = solver_by_name("dynamic_programming").solve(drawn, Budget())
        assert found.choice is not None
        draft = drafted(whole._solved(shared, found, counts))
        sends = sum(sum(draft.solved.sends_s(piece)) for piece in range(1, shape.pieces))
        steady_s = sum(s.forward_s + s.backward_s for s in draft.pipeline.stages) - sends
        once_s = sum(s.once_s for s in draft.pipeline.stages)
        assert steady.problem.cost_s(found.choice) == pytest.approx(steady_s)
        assert all_once.cost_s(found.choice) == pytest.approx(steady_s + once_s)
