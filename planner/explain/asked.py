"""What a plan was asked for, and of which model, read back from its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from costmodel.memory import Optimizer
from ir.batch import BatchError, with_batch
from ir.graph import Op, OpGraph
from ir.plan import Plan
from planner.request import SearchRequest

_SETTLED = {"batch", "global_batch", "dtype", "bind", "rules", "micro_batch", "pipeline"}
"""The plan's graph has them already."""

_ENDS = ("Loss", "Output")
"""Kinds of operators that stand behind the outputs of a model that is planned."""


def request_of(plan: Plan) -> SearchRequest:
    """The request that a plan answers, for its own graph: batch and types are settled there."""
    known = {each.name for each in fields(SearchRequest)} - _SETTLED
    record: dict[str, Any] = {
        name: _tuples(value) for name, value in plan.request.items() if name in known
    }
    record["optimizer"] = Optimizer(str(plan.request.get("optimizer")))
    return replace(SearchRequest(), **record)


def whole_request_of(plan: Plan) -> SearchRequest:
    """The same for a search of stages and micro-batches on `source_of` the plan."""
    record = plan.request
    return replace(
        request_of(plan),
        batch=None,
        global_batch=plan.batch,
        micro_batch=str(record.get("micro_batch", "auto")),
        pipeline=str(record.get("pipeline", "auto")),
    )


def source_of(plan: Plan) -> OpGraph:
    """The model of a plan as if it had just been imported: its ends and normal form are undone as
    far as a search makes them again.
    """
    graph = plan.graph
    ends = {op.name for op in graph.ops if op.kind in _ENDS and set(op.inputs) & set(graph.outputs)}
    tensors = {n for op in graph.ops if op.name in ends for n in op.outputs}
    opened = graph.with_ops(
        (leaf for op in graph.ops if op.name not in ends for leaf in leaves(op)),
        {name: tensor for name, tensor in graph.tensors.items() if name not in tensors},
    )
    try:
        return with_batch(replace(opened, batch=0), 1)
    except BatchError:
        return opened


def leaves(op: Op) -> Iterator[Op]:
    """The operators that a composite was made of; itself if it is none."""
    for part in op.parts:
        yield from leaves(part)
    if not op.parts:
        yield op


def _tuples(value: object) -> object:
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value
