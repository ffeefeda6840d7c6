"""A plan in a few words, and whether two plans are the same."""

from __future__ import annotations

import hashlib

from ir.plan import Plan
from ir.plan_degrees import degrees_of


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
    """The degrees of most of the plan, and what else was chosen."""
    words = [str(degrees_of(plan))]
    if plan.pipeline is not None:
        words.append(f"{plan.pipeline.micro_batches} micro-batches")
    if plan.recomputed:
        words.append(f"{len(plan.recomputed)} tensors recomputed")
    return ", ".join(words)
