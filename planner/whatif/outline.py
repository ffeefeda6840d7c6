"""A plan in a few words, and whether two plans are the same."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

from ir.graph import OpGraph
from ir.ops import Engine, lookup
from ir.plan import Pipeline, Plan, PlannedOperator


def signature_of(plan: Plan) -> str:
    """Equal for plans that split everything alike, whatever it takes on their machines."""
    state = hashlib.sha256(repr((plan.mesh, plan.rank_order, plan.recomputed)).encode())
    for op in plan.operators:
        state.update(repr((op.name, op.split, op.stage)).encode())
    for tensor in plan.tensors:
        state.update(f"{tensor.name} {tensor.layout} {tensor.used}".encode())
    if plan.pipeline is not None:
        stages = [(stage.start, stage.end, *stage.mesh) for stage in plan.pipeline.stages]
        state.update(repr((plan.pipeline.micro_batches, stages)).encode())
    return state.hexdigest()[:12]


def outline_of(plan: Plan) -> str:
    """How products are split where most of their time goes, and what else was chosen."""
    data, model = _ways(plan)
    own = math.prod(size for _, size, _ in plan.mesh)
    words = [f"data {data}", f"tensor {model}"]
    if data * model < own:
        words.append(f"repeated {own // (data * model)}")
    if plan.pipeline is not None:
        words += _pipeline_words(plan.pipeline)
    if _shards_weights(plan):
        words.append("weights sharded")
    if plan.recomputed:
        words.append(f"{len(plan.recomputed)} tensors recomputed")
    return ", ".join(words)


def _pipeline_words(pipeline: Pipeline) -> Iterator[str]:
    chunks = f" of {pipeline.chunks} chunks" if pipeline.chunks > 1 else ""
    if pipeline.parts > 1:
        yield f"{pipeline.parts} stages{chunks}"
    yield f"{pipeline.micro_batches} micro-batches"


def tokens_of(graph: OpGraph) -> int:
    """Elements of the input that holds numbers of tokens; 0 without one."""
    inputs = [graph.tensors[name] for name in graph.inputs]
    found = next((t for t in inputs if len(t.dims) == 2 and t.dtype.startswith("int")), None)
    attends = any(op.kind in {"Attention", "Softmax"} for op in graph.ops)
    return found.elements if found is not None and attends else 0


def _ways(plan: Plan) -> tuple[int, int]:
    """Into how many parts the rows and the weights of products are cut, by most of their time."""
    weight_s: dict[str, float] = {}
    rows_s: dict[str, float] = {}
    total = 0.0
    for op, own in _products(plan):
        total += op.compute_s
        for axis in own:
            weight_s[axis] = weight_s.get(axis, 0.0) + op.compute_s
        for axis, factor in op.split:
            if factor >= 0 and axis not in own:
                rows_s[axis] = rows_s.get(axis, 0.0) + op.compute_s
    sizes = {name: size for name, size, _ in plan.mesh}
    data = math.prod(size for a, size in sizes.items() if 2 * rows_s.get(a, 0.0) > total)
    model = math.prod(size for a, size in sizes.items() if 2 * weight_s.get(a, 0.0) > total)
    return data, model


def _products(plan: Plan) -> Iterator[tuple[PlannedOperator, frozenset[str]]]:
    """Products with a weight, and the mesh axes that split it."""
    parameters = {tensor.name for tensor in plan.parameters}
    for op, planned in zip(plan.graph.ops, plan.operators, strict=True):
        if lookup(op.kind).engine is not Engine.MATRIX:
            continue
        for name, layout in zip(op.inputs, planned.inputs, strict=True):
            if name in parameters and layout is not None:
                yield planned, frozenset(a for dim in layout.dims for a in dim)
                break


def _shards_weights(plan: Plan) -> bool:
    """Whether most bytes of parameters rest in smaller pieces than they are used in."""
    gathered = total = 0
    for tensor in plan.parameters:
        elements = math.prod(tensor.dims)
        total += elements
        if tensor.used is not None and tensor.used != tensor.layout:
            gathered += elements
    return 2 * gathered > total
