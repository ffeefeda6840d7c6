"""Soft pins and few changes of an older plan in a search of stages: the best of all that there is.

What is best is found another way: with hard pins for every set of pins that may be kept, for every
number of stages, size of micro-batch and choice of cuts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.schedules.closed_form import pipeline_time_s
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner.candidates.operators import splits_in
from planner.constraints.soft import SoftConstraints
from planner.explain import why_not
from planner.explain.plan_request import source_of, whole_request_of
from planner.lowering.liveness import analyse
from planner.lowering.pieces import cuts_of
from planner.pipeline.bounds.network import NetworkBounds
from planner.pipeline.bounds.order import ConfigurationSearch
from planner.pipeline.configuration import solved
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.segments import segments_of, told_apart
from planner.pipeline.soft_trade_off import Way, best_ways
from planner.pipeline.space import Configuration
from planner.pipeline.stage_cuts import cut_near, cut_sequence, is_near
from planner.pipeline.stage_plan import drafted
from planner.request import RequestError, SearchRequest
from planner.requests.search_request import kept_close
from planner.requests.sources import Document
from planner.search import search
from tests.builders import mlp
from tests.planner.pipeline.test_pipeline_search import WIDE, machine
from topology.cluster import Cluster

PINS = (("op_matmul_0", ((1, 2), (2, 1))), ("op_matmul_2", ((2, 1), (1, 1))))
PIPELINE: dict[str, Any] = {"pipeline": "2", "micro_batch": "512"}


def all_cuts(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> Iterator[float]:
    """Steps of every shape, each with all its cuts."""
    try:
        task = PipelineSearch(graph, cluster, request)
        shapes = task.shapes()
    except RequestError:
        return
    for shape in shapes:
        if shape == Configuration(1, task.batch, 1):
            plain = replace(request, batch=task.batch, global_batch=None)
            yield search(graph, cluster, plain).estimate.step_time_s
        count = task.true_micro(shape.micro_batch).segments.count
        for inner in itertools.combinations(range(1, count), shape.pieces - 1):
            found = solved(task, shape, (*inner, count))
            if found.fits:
                yield drafted(found).step_s


def least_bound_s(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> float:
    """What no shape takes and pays less than, as the search of shapes says."""
    task = PipelineSearch(graph, cluster, request)
    priced, left_s = ConfigurationSearch(
        task, task.shapes(), NetworkBounds(task), lambda _: None
    ).run()
    return min(left_s, *(item.bound_s for item in priced))


def worth_s(plan: Plan, request: SearchRequest) -> float:
    return plan.estimate.step_time_s + SoftConstraints.of(plan.graph, request).paid_s(plan)


@pytest.mark.parametrize(
    ("memory", "batch", "asked"),
    [
        (None, 2**12, {**PIPELINE, "interleave": "1", "target": "generic"}),
        (None, 2**12, {**PIPELINE, "interleave": "2"}),
        (0.7e9, 8, {"pipeline": "2", "micro_batch": "2", "interleave": "1"}),
        (None, 8, {"micro_batch": "8"}),
    ],
)
def test_soft_pins_are_kept_as_trying_every_set_of_them_says(
    memory: float | None, batch: int, asked: dict[str, Any]
) -> None:
    graph, cluster = mlp(3, width=WIDE, hidden=WIDE), machine(4, memory)
    base = SearchRequest(global_batch=batch, **asked)
    steps = {
        kept: min(all_cuts(graph, cluster, replace(base, pins=kept)), default=math.inf)
        for size in range(3)
        for kept in itertools.combinations(PINS, size)
    }
    dearest = max(filter(math.isfinite, steps.values())) - steps[()]
    assert dearest > 0
    for shares in ((0.3, 0.2), (2.0, 2.0), (0.05, 0.9)):
        soft = tuple((*pin, dearest * share) for pin, share in zip(PINS, shares, strict=True))
        prices = {(name, cuts): weight for name, cuts, weight in soft}
        best = min(s + sum(prices[p] for p in PINS if p not in kept) for kept, s in steps.items())
        request = replace(base, soft_pins=soft)
        plan = search_pipeline(graph, cluster, request)
        assert worth_s(plan, request) == pytest.approx(best, rel=1e-9)
        paid = worth_s(plan, request) - plan.estimate.step_time_s
        assert plan.bound.bound_s + paid <= best * (1 + 1e-9)
        assert least_bound_s(graph, cluster, request) <= best * (1 + 1e-9)
        assert "of 2 soft pins are kept" in plan.notes[0]
        spent = plan.estimate.time_by_cause.values()
        assert sum(spent) == pytest.approx(plan.estimate.step_time_s)


def test_the_bound_of_an_even_pipeline_has_what_soft_pins_are_charged() -> None:
    graph, cluster = mlp(3, width=WIDE, hidden=WIDE), machine(4)
    base = SearchRequest(global_batch=2**12, pipeline="off", micro_batch="512")
    free = search_pipeline(graph, cluster, base)
    request = replace(base, soft_pins=((*PINS[0], 1e-6), (*PINS[1], 1e-6)))
    plan = search_pipeline(graph, cluster, request)
    assert plan.notes[0].startswith("0 of 2 soft pins")
    assert worth_s(plan, request) == pytest.approx(free.estimate.step_time_s + 2e-6, rel=1e-9)
    assert plan.bound.bound_s == pytest.approx(plan.estimate.step_time_s, rel=1e-9)
    assert least_bound_s(graph, cluster, request) == pytest.approx(worth_s(plan, request), rel=1e-9)
    assert worth_s(plan, request) == pytest.approx(plan.bound.bound_s + 2e-6, rel=1e-9)


def parts_of(plan: Plan) -> dict[str, int]:
    parts = plan.pipeline.parts
    return {op.name: op.stage % parts for op in plan.operators}


def close(request: SearchRequest, old: Plan, most: int) -> SearchRequest:
    return kept_close(request, Document("old.json", plan_to_json(old)), most)


def changed(plan: Plan, old: Plan) -> int:
    before, after = dict(splits_in(old)), dict(splits_in(plan))
    here, there = parts_of(plan), parts_of(old)
    return sum(before[n] != after[n] or here[n] != there[n] for n in before)


def least_changed_s(
    graph: OpGraph, cluster: Cluster, request: SearchRequest, old: Plan, most: int
) -> float:
    """The least step over all cuts and all sets of operators that are left free."""
    best, task, there = math.inf, PipelineSearch(graph, cluster, request), parts_of(old)
    operands = {op.name: len(op.inputs) for op in old.graph.ops}
    pins = {name: (name, cuts[: operands[name]]) for name, cuts in splits_in(old)}
    for shape in task.shapes():
        micro = task.true_micro(shape.micro_batch)
        positions, count = micro.segments.positions, micro.segments.count
        for inner in itertools.combinations(range(1, count), shape.pieces - 1):
            spans = enumerate(itertools.pairwise((0, *inner, count)))
            here = {
                op.name: piece % shape.stages
                for piece, (start, end) in spans
                for op in micro.graph.ops[positions[start] : positions[end]]
            }
            stay = [name for name in there if here[name] == there[name]]
            for free in itertools.combinations(stay, max(most - len(there) + len(stay), 0)):
                held = tuple(pins[name] for name in stay if name not in free)
                own = PipelineSearch(graph, cluster, replace(request, pins=held))
                if len(there) - len(stay) > most or not can_be(own, shape):
                    continue
                found = solved(own, shape, (*inner, count))
                best = min(best, drafted(found).step_s) if found.fits else best
    return best


def can_be(task: PipelineSearch, shape: Configuration) -> bool:
    try:
        return shape in task.shapes()
    except RequestError:
        return False


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ({"pipeline": "2"}, {"target": "generic", "interleave": "1", "micro_batch": "1024"}),
        ({"pipeline": "2", "micro_batch": "1024"}, {"micro_batch": "512", "interleave": "1"}),
    ],
)
@pytest.mark.parametrize(("overlap", "above"), [("none", 1e-9), ("auto", 0.05)])
def test_few_changes_are_made_as_trying_every_set_of_them_says(
    before: dict[str, Any], asked: dict[str, Any], overlap: str, above: float
) -> None:
    """Without overlap the answer is exact; with it the bound is, and the answer is near."""
    graph, cluster = mlp(2, width=WIDE, hidden=WIDE), machine(4)
    base = SearchRequest(global_batch=2**12, overlap=overlap, **asked)
    old = search_pipeline(graph, cluster, replace(base, degrees=(("tp", 2),), **before))
    times = []
    for most in range(4):
        plan = search_pipeline(graph, cluster, close(base, old, most))
        best = least_changed_s(graph, cluster, base, old, most)
        assert best * (1 - 1e-9) <= plan.estimate.step_time_s <= best * (1 + above)
        assert least_bound_s(graph, cluster, close(base, old, most)) <= best * (1 + 1e-9)
        count = changed(plan, old)
        assert count <= most
        assert plan.notes[0].startswith(f"{count} operators are split otherwise than in the older")
        assert plan.notes[0].endswith(f", {most} may be")
        times.append(plan.estimate.step_time_s)
    assert times == sorted(times, reverse=True)
    best = search_pipeline(graph, cluster, base).estimate.step_time_s
    assert times[-1] > best * (1 + 1e-9)
    found = search_pipeline(graph, cluster, close(base, old, 99)).estimate.step_time_s
    assert found == pytest.approx(best, rel=1e-9)


def test_a_plan_that_keeps_close_survives_its_file_and_can_be_kept_again() -> None:
    graph, cluster = mlp(3, width=WIDE, hidden=WIDE), machine(4)
    request = SearchRequest(global_batch=2**12, pipeline="2")
    old = search_pipeline(graph, cluster, replace(request, degrees=(("tp", 2),)))
    assert set(parts_of(old).values()) == {0, 1}
    asked = close(request, old, 2)
    assert dict(asked.close_parts) == {name: part for name, part in parts_of(old).items() if part}
    plan = search_pipeline(graph, cluster, asked)
    assert plan_from_json(plan_to_json(plan)) == plan
    again = search_pipeline(graph, cluster, close(request, plan, 0))
    assert changed(again, plan) == 0
    assert again.estimate.step_time_s <= plan.estimate.step_time_s * (1 + 1e-9)


def test_stages_that_move_more_than_may_move_are_refused() -> None:
    """Two chunks alternate between the parts of the machine, the old stages did not."""
    graph, cluster = mlp(3, width=WIDE, hidden=WIDE), machine(2)
    request = SearchRequest(global_batch=64, pipeline="2", micro_batch="16", interleave="1")
    old = search_pipeline(graph, cluster, request)
    chunks = replace(request, interleave="2")
    with pytest.raises(RequestError, match="no plan with at most 0 changes"):
        search_pipeline(graph, cluster, close(chunks, old, 0))
    plan = search_pipeline(graph, cluster, close(chunks, old, 4))
    assert 0 < changed(plan, old) <= 4


def test_a_large_network_keeps_a_soft_pin_where_its_price_is_high() -> None:
    """One layer of 44 is pinned: it is no copy of the others any more."""
    graph, cluster = mlp(44, width=1024, hidden=1024), machine(8)
    base = SearchRequest(global_batch=2**12, pipeline="4", micro_batch="256")
    pin = ("op_matmul_40", ((1, 1), (1, 2)))
    free = search_pipeline(graph, cluster, base)
    held = search_pipeline(graph, cluster, replace(base, pins=(pin,)))
    assert free.estimate.step_time_s < held.estimate.step_time_s
    for weight, kept in ((1e-6, 0), (1e-2, 1)):
        request = replace(base, soft_pins=((*pin, weight),))
        plan = search_pipeline(graph, cluster, request)
        assert plan.notes[0].startswith(f"{kept} of 1 soft pins")
        wanted = held if kept else free
        assert plan.estimate.step_time_s <= wanted.estimate.step_time_s * (1 + 1e-9)
        if not kept:
            assert plan.bound.bound_s == pytest.approx(free.bound.bound_s - weight, rel=1e-9)
    assert held.bound.bound_s <= held.estimate.step_time_s


@pytest.mark.parametrize(
    ("cost", "target", "memory"),
    [
        ("communication", "generic", None),
        ("communication", "generic", 0.9e9),
        ("mindspore", "mindspore", None),
    ],
)
def test_layouts_of_another_cost_are_the_least_and_all_else_the_fastest(
    cost: str, target: str, memory: float | None
) -> None:
    graph, cluster = mlp(3, width=WIDE, hidden=WIDE), machine(4, memory)
    request = SearchRequest(
        global_batch=2**10, cost=cost, target=target, pipeline="2", micro_batch="256",
        interleave="1",
    )  # fmt: skip
    plan = search_pipeline(graph, cluster, request)
    best = min(all_cuts(graph, cluster, request))
    assert plan.estimate.step_time_s == pytest.approx(best, rel=1e-9)
    fastest = search_pipeline(graph, cluster, replace(request, cost="time"))
    assert plan.bound.bound_s <= fastest.estimate.step_time_s < best * (1 - 1e-3)
    assert plan.objective is not None
    assert plan.objective.cost == cost
    assert plan.objective.value == pytest.approx(plan.objective.bound, rel=1e-9)
    assert plan.notes[0].startswith(f"layouts inside every stage are those of --cost {cost}: ")
    assert plan_from_json(plan_to_json(plan)) == plan


def test_the_cost_of_memory_needs_less_of_it_than_the_fastest_plan() -> None:
    graph, cluster = mlp(2, width=WIDE, hidden=WIDE), machine(4)
    request = SearchRequest(
        global_batch=2**12, pipeline="2", micro_batch="512", interleave="1", recompute="none"
    )
    fast = search_pipeline(graph, cluster, request)
    small = search_pipeline(graph, cluster, replace(request, cost="memory"))
    assert small.objective is not None
    assert small.objective.value == small.estimate.peak_memory_bytes
    assert small.estimate.peak_memory_bytes < fast.estimate.peak_memory_bytes
    assert small.objective.bound <= small.objective.value


def test_the_file_of_a_plan_has_all_that_its_search_was_asked_for() -> None:
    graph, cluster = mlp(3, width=WIDE, hidden=WIDE), machine(4)
    base = SearchRequest(global_batch=2**12, pipeline="2", micro_batch="512", interleave="1")
    old = search_pipeline(graph, cluster, replace(base, degrees=(("tp", 2),)))
    asked = replace(close(base, old, 2), soft_pins=((*PINS[0], 1e-3),))
    plan = plan_from_json(plan_to_json(search_pipeline(graph, cluster, asked)))
    assert search_pipeline(source_of(plan), cluster, whole_request_of(plan)) == plan


def test_why_not_with_a_price_makes_the_whole_search_again() -> None:
    graph, cluster = mlp(3, width=WIDE, hidden=WIDE), machine(4)
    request = SearchRequest(global_batch=2**12, pipeline="2", micro_batch="512", interleave="1")
    plan = search_pipeline(graph, cluster, request)
    for weight in (1e-9, 1.0):
        name, cuts = PINS[0]
        asked = f"{name}={cuts}@{weight}".replace(" ", "")
        wanted = search_pipeline(graph, cluster, replace(request, soft_pins=((*PINS[0], weight),)))
        found = why_not(plan, asked)
        assert found.restricted_s == pytest.approx(wanted.estimate.step_time_s)


def test_wishes_in_seconds_go_with_no_other_cost() -> None:
    request = SearchRequest(global_batch=8, cost="mindspore", soft_pins=((*PINS[0], 0.1),))
    with pytest.raises(RequestError, match="weighed in seconds"):
        search_pipeline(mlp(2), machine(2), request)


TIMES = st.floats(0.1, 10.0)
WAYS = st.lists(
    st.builds(Way, TIMES, st.floats(0.0, 5.0), st.integers(0, 3), st.just(())),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(WAYS, min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 2),
    st.none() | st.integers(0, 5),
)
def test_ways_of_all_parts_are_best_together(
    ways: list[list[Way]], times: int, chunks: int, most: int | None
) -> None:
    shape = Configuration(len(ways), 1, times, chunks)

    def worth(mix: Sequence[Way]) -> float:
        step_s = pipeline_time_s([way.time_s for way in mix], times, chunks)
        return step_s + sum(way.paid_s for way in mix)

    mixes = [
        mix
        for mix in itertools.product(*ways)
        if most is None or sum(way.changes for way in mix) <= most
    ]
    found = best_ways(ways, shape, most)
    assert (found is None) == (not mixes)
    if found is not None:
        assert found[1] in mixes
        assert found[0] == pytest.approx(worth(found[1]))
        assert found[0] == pytest.approx(min(map(worth, mixes)))


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 6), st.integers(2, 3), st.integers(0, 6), st.randoms(use_true_random=False))
def test_cuts_near_the_old_ones_move_no_more_than_may_move(
    count: int, pieces: int, most: int, random: Any
) -> None:
    behind = np.triu(np.ones((count, count + 1), dtype=bool), 1)
    tables, moved = [], []
    for _ in range(pieces):
        each = np.array([[random.uniform(1, 9) for _ in range(count + 1)] for _ in range(count)])
        moves = np.array([random.randint(0, 2) for _ in range(count)])
        before = np.concatenate([[0], np.cumsum(moves)])
        tables.append(np.where(behind, each, np.inf))
        moved.append(np.where(behind, before[None, :] - before[:-1, None], np.inf))
    every = [(*inner, count) for inner in itertools.combinations(range(1, count), pieces - 1)]
    near = [ends for ends in every if is_near(moved, ends, most)]
    found = cut_near(lambda own: cut_sequence(own, 4), tables, moved, most)
    assert (found is None) == (not near)
    if found is not None:
        assert found[1] in near


@pytest.mark.parametrize(("layer", "apart"), [(2, True), (20, False), (37, True)])
def test_marks_tell_layers_apart_unless_that_breaks_up_what_repeats(
    layer: int, apart: bool
) -> None:
    liveness = analyse(mlp(40), training=True)
    cuts = cuts_of(liveness, 1)
    plain = segments_of(liveness, cuts)
    marks = {liveness.graph.ops[2 * layer].name: "marked"}
    found, told = told_apart(liveness, cuts, marks, always=False)
    assert told == apart
    assert (found == plain) == (not apart)
    everywhere = {op.name: op.kind for op in liveness.graph.ops}
    assert told_apart(liveness, cuts, everywhere, always=False) == (plain, True)
    small, told = told_apart(liveness, cuts, marks, always=True)
    assert told
    assert small.kinds != plain.kinds
