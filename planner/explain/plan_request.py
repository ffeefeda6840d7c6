"""What a plan was asked for, and of which model, read back from its record; what that leaves to the
nodes of its problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from costmodel.plan_overlap import has_overlap
from ir.batch import BatchError, with_batch
from ir.factor_roles import batch_places
from ir.graph import OpGraph
from ir.normalise.ends import ENDS
from ir.plan import Plan
from planner.constraints.degrees import followed
from planner.constraints.pinning import pinned_candidates
from planner.constraints.pins import BY_BATCH, Pin, pin_text, pins_of, rest_of
from planner.constraints.stage_pins import marked_places
from planner.constraints.token_cuts import RuledOut, left_by, ruled_out
from planner.explain.restricted_problem import Hold
from planner.lowering.liveness import Origin
from planner.lowering.lowered import Lowered
from planner.lowering.parameters import lies_alike
from planner.repricing.other_size import leaves
from planner.request import Cuts, SearchRequest, recorded_request


def request_of(plan: Plan) -> SearchRequest:
    """The request that a plan answers, for its own graph: batch and types are settled there.

    Raises:
        RequestError: the plan's record of it is none.
    """
    usual = SearchRequest()
    return replace(
        recorded_request(plan.request),
        batch=None,
        global_batch=None,
        dtype=None,
        bind=(),
        rules=(),
        micro_batch=usual.micro_batch,
        pipeline=usual.pipeline,
        overlap="auto" if has_overlap(plan) else "none",
    )


def whole_request_of(plan: Plan) -> SearchRequest:
    """The same for a search of stages and micro-batches on `source_of` the plan."""
    asked = recorded_request(plan.request)
    return replace(
        request_of(plan),
        global_batch=plan.batch,
        micro_batch=asked.micro_batch,
        pipeline=asked.pipeline,
    )


def source_of(plan: Plan) -> OpGraph:
    """The model of a plan as if it had just been imported: its ends and normal form are undone as
    far as a search makes them again.
    """
    graph = plan.graph
    ends = {op.name for op in graph.ops if op.kind in ENDS and set(op.inputs) & set(graph.outputs)}
    tensors = {n for op in graph.ops if op.name in ends for n in op.outputs}
    opened = graph.with_ops(
        (leaf for op in graph.ops if op.name not in ends for leaf in leaves(op)),
        {name: tensor for name, tensor in graph.tensors.items() if name not in tensors},
    )
    try:
        return with_batch(replace(opened, batch=0), 1)
    except BatchError:
        return opened


def holds_of(
    plan: Plan, request: SearchRequest, lowered: Lowered, choice: Sequence[int]
) -> Iterator[Hold]:
    """All that one part of the machine of a plan is held to.

    Args:
        plan: of one stage or several.
        request: what was asked.
        lowered: the problem of the part.
        choice: the plan's there.
    """
    yield from pin_holds(plan.graph, lowered, request.pins)
    yield from _tied_holds(plan, lowered, choice)
    yield from _degree_holds(plan.graph, lowered, request)
    yield from _ruling_holds(plan.graph, lowered, request)
    rest = rest_of(plan.graph, request, lowered.setting.cluster.devices)
    yield from _pinned(lowered, BY_BATCH, rest)


def pin_holds(graph: OpGraph, lowered: Lowered, pins: Sequence[tuple[str, Cuts]]) -> Iterator[Hold]:
    """What each pin leaves to the operators of a part that it names."""
    for pin in pins:
        yield from _pinned(lowered, pin_text(*pin), pins_of(graph, [pin]))


def _pinned(lowered: Lowered, text: str, pins: Sequence[Pin]) -> Iterator[Hold]:
    allowed = pinned_candidates(lowered, pins)
    if allowed:
        yield Hold(text, allowed)


def _tied_holds(plan: Plan, lowered: Lowered, choice: Sequence[int]) -> Iterator[Hold]:
    """What stages of other parts leave to a parameter that they hold too."""
    numbers = {node.origin: number for number, node in enumerate(lowered.nodes)}
    for each in plan.pipeline.shared if lies_alike(lowered) else ():
        origins = (Origin(stage, each.tensor) for stage in each.stages)
        held = [numbers[origin] for origin in origins if origin in numbers]
        if len(held) < len(each.stages):
            places = " and ".join(map(str, each.stages))
            text = f"one layout of {each.tensor} in stages {places}"
            yield Hold(text, {number: np.array([choice[number]]) for number in held})


def _degree_holds(graph: OpGraph, lowered: Lowered, request: SearchRequest) -> Iterator[Hold]:
    """What each degree leaves to the nodes that it concerns."""
    every = (("", request.degrees), *request.scoped_degrees)
    parts = [(scope, degrees) for scope, degrees in every if degrees]
    where = marked_places(lowered, batch_places(graph)) if parts else {}
    for scope, degrees in parts:
        for each in followed(lowered, degrees, scope, where):
            yield Hold(each.text + (f" of {scope}" if scope else ""), each.allowed)


def _ruling_holds(graph: OpGraph, lowered: Lowered, request: SearchRequest) -> Iterator[Hold]:
    """What `--sequence-parallel`, `--context-parallel` and the like leave to operators."""
    asked = ruled_out(request, graph)
    none = RuledOut(tokens=asked.tokens)
    parts = {
        f"--sequence-parallel {asked.sequence_parallel}": replace(
            none, sequence_parallel=asked.sequence_parallel
        ),
        "--fully-use-devices": replace(none, fully_use_devices=asked.fully_use_devices),
        f"--context-parallel {request.context_parallel}": replace(
            none, context_parts=asked.context_parts
        ),
        f"--solver {request.solver}": replace(none, as_generated=asked.as_generated),
    }
    for text, own in parts.items():
        allowed = left_by(lowered, own)
        if allowed:
            yield Hold(text, allowed)
