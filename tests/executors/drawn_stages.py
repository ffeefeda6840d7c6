"""Plans with stages of every shape: cuts at random, the optimum under prices that mean nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from ir.graph import OpGraph
from ir.plan import Plan
from planner.lowering.pieces import Cut, Pieces, Span, cuts_of, pieces_of
from planner.pipeline.configuration import parts_alike
from planner.pipeline.networks import Micro
from planner.pipeline.prices import piece_times
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.solved import Group, Solved
from planner.pipeline.space import Configuration, in_flight, moments_of_pieces
from planner.pipeline.stage_plan import bound_of, drafted, plan_of, space_of
from planner.request import SearchRequest
from planner.solvers import Budget, solver_by_name
from tests.executors.drawn_plans import priced_at_random
from topology.catalogue import named_cluster


def drawn_stages(
    graph: OpGraph, devices: int, shape: Configuration, target: str, seed: int, zero: str = "auto"
) -> Plan:
    """A valid plan that depends on the seed; stages share the parameters named `tied`."""
    request = SearchRequest(
        global_batch=shape.micro_batch * shape.micro_batches, micro_batch=str(shape.micro_batch),
        pipeline=str(shape.stages), target=target, zero=zero,
        stage_meshes="any" if shape.sizes else "equal",
    )  # fmt: skip
    task = PipelineSearch(graph, named_cluster("atlas-800t-a2", devices), request)
    micro = task.true_micro(shape.micro_batch)
    tied = sum(t.name.startswith("tied") for t in micro.graph.parameters)
    cuts = _some_cuts(micro, shape.pieces - 1, np.random.default_rng(seed), tied)
    spans = tuple(itertools.pairwise((0, *(c.position for c in cuts), len(micro.graph.ops))))
    groups: list[Group] = []
    shared: list[str] = []
    times = np.zeros(shape.pieces)
    for parts in parts_alike(shape):
        numbers = [k for s in parts for k in range(s, shape.pieces, shape.stages)]
        pieces = pieces_of(
            micro.liveness, {c.position: c for c in cuts}, [Span(*spans[k]) for k in numbers],
            numbers, moments_of_pieces(shape, numbers),
        )  # fmt: skip
        group = _drawn_group(task, shape, pieces, numbers, seed)
        groups.append(group)
        shared += pieces.shared
        times += piece_times(group.lowered, group.choice, shape.pieces)
    solved = Solved(
        shape, micro.graph, spans, cuts, task.cluster, tuple(groups), tuple(times.tolist()), True,
        shared=tuple(shared),
    )  # fmt: skip
    sent = [0.0, *(sum(solved.sends_s(piece)) for piece in range(1, shape.pieces))]
    solved = replace(solved, times_s=tuple((times + sent).tolist()))
    draft = drafted(solved)
    bound = bound_of(draft.step_s, 0.0, "drawn", truncated=False)
    return plan_of(draft, request, (), space_of([group.lowered for group in groups]), bound)


def _drawn_group(
    task: PipelineSearch, shape: Configuration, pieces: Pieces, numbers: Sequence[int], seed: int
) -> Group:
    """The optimum of some pieces on parts of one size, under prices that mean nothing."""
    flight = in_flight(shape)
    micro = task.true_micro(shape.micro_batch)
    machine = task.stage_machine(shape, shape.devices_of(numbers[0] % shape.stages))
    setting = task.setting(micro, *machine, shape.micro_batches)
    lowered = task.lowered(pieces, replace(setting, in_flight=tuple(flight[k] for k in numbers)))
    problem = priced_at_random(replace(lowered.problem, overlap=None), np.random.default_rng(seed))
    found = solver_by_name("dynamic_programming").solve(problem, Budget())
    assert found.choice is not None
    assert found.cost_s < UNREACHABLE_S
    return Group(lowered, found.choice)


def _some_cuts(micro: Micro, count: int, draw: np.random.Generator, tied: int) -> tuple[Cut, ...]:
    """Places with so many parameters that are read on both sides."""
    graph, position = micro.graph, micro.liveness.position
    spans = [
        (min(places), max(places))
        for name, readers in graph.consumers().items()
        if graph.tensors[name].role.value == "parameter"
        for places in [[position[op.name] for op in readers]]
    ]
    free = [
        cut
        for cut in cuts_of(micro.liveness, 3)
        if sum(first < cut.position <= last for first, last in spans) <= tied
    ]
    chosen = draw.choice(len(free), size=count, replace=False)
    return tuple(free[i] for i in sorted(chosen.tolist()))
