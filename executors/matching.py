"""Whether a model is the one that was planned, and which of its tensors is which of the plan's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from executors.syncs import late_syncs, without_syncs
from ir.canonical import canonical_digest, correspondence
from ir.graph import Op, OpGraph, Role
from ir.normalise import add_ends, main_dtype, normalise, use_stored_statistics, with_dtype
from ir.plan import Plan
from ir.plan_enums import Cause
from ir.plan_stages import once_in_step, stage_plan

_MOST_LISTED = 6


class MismatchError(ValueError):
    """A model that is not the plan's; the message lists where they differ and how to mend it."""


@dataclass(frozen=True, slots=True)
class Match:
    """A plan whose graph computes what a model computes."""

    plan: Plan
    """In the element type of the model."""
    names: Mapping[str, str]
    """For every tensor of the plan's graph that no operator makes, the model's name of it: of a
    parameter that is stored in another form, that of the file.
    """
    notes: tuple[str, ...] = ()


def one_stage(plan: Plan, stage: int = 0) -> Plan:
    """What a stage of a plan does with a batch, or with each micro-batch, but for gradients that
    are reduced apart (`executors.syncs`).
    """
    syncs = late_syncs(plan, stage)
    if plan.pipeline.is_single:
        return without_syncs(plan, syncs)
    once = once_in_step(plan, stage)
    sync = (replace(c, stage=0) for c in once if c.cause == Cause.GRADIENT_SYNC)
    own = stage_plan(plan, stage)
    remade = tuple(dict.fromkeys((*own.recomputed, *_inside_blocks(plan, stage))))
    whole = replace(own, collectives=(*own.collectives, *sync), recomputed=remade)
    return without_syncs(whole, syncs)


def _inside_blocks(plan: Plan, stage: int) -> Iterator[str]:
    """Tensors of blocks that are computed again as a whole; what leaves a block is kept."""
    ops = plan.graph.ops
    for start, end in plan.pipeline.stages[stage].blocks:
        outside = {n for op in (*ops[:start], *ops[end:]) for n in op.inputs}
        yield from (n for op in ops[start:end] for n in op.outputs if n and n not in outside)


def matched(plan: Plan, graph: OpGraph) -> Match:
    """Match a model to a plan, by the canonical hash of both graphs and then tensor by tensor.

    Args:
        plan: the plan.
        graph: the model as it is imported, at the sizes of a batch of the plan.

    Raises:
        MismatchError: the model computes something else.
    """
    dtype = main_dtype(graph)
    notes: tuple[str, ...] = ()
    if main_dtype(plan.graph) != dtype:
        notes = (f"planned for {main_dtype(plan.graph)}, the model runs in {dtype}",)
        plan = replace(plan, graph=with_dtype(plan.graph, dtype))
    found = _as_planned(graph, plan)
    if canonical_digest(found) != canonical_digest(plan.graph):
        raise MismatchError(_report(plan.graph, found))
    pairs = correspondence(plan.graph, found)
    given = (n for n, t in plan.graph.tensors.items() if t.role is not Role.ACTIVATION)
    return Match(plan, {n: _in_file(found, pairs.get(n, n)) for n in given}, notes)


def whole_match(plan: Plan) -> Match:
    """A plan and its own graph, where the model has no code."""
    given = (n for n, t in plan.graph.tensors.items() if t.role is not Role.ACTIVATION)
    return Match(plan, {n: _in_file(plan.graph, n) for n in given})


def _in_file(graph: OpGraph, name: str) -> str:
    tensor = graph.tensors.get(name)
    is_filed = tensor is not None and tensor.role is Role.PARAMETER and tensor.source
    return tensor.source if tensor is not None and is_filed else name


def _as_planned(graph: OpGraph, plan: Plan) -> OpGraph:
    """A model in the form in which a search plans it."""
    training = bool(plan.request.get("training", True))
    if not training:
        graph = use_stored_statistics(graph)
    fused = bool(plan.request.get("fused_attention", True))
    return add_ends(normalise(graph, fused_attention=fused), training=training)


def _report(planned: OpGraph, found: OpGraph) -> str:
    """What only one of two graphs has, and how to mend it."""
    lines = ["the model is not the one that was planned"]
    lines += _lists("parameter", _parameters(planned), _parameters(found))
    lines += _lists("operator", _operators(planned), _operators(found))
    if len(lines) == 1:
        lines.append("  at:  the same operators, connected in another way")
    lines.append(
        "  fix: plan this model again, from torch.export.save of it with the same example inputs"
    )
    return "\n".join(lines)


def _parameters(graph: OpGraph) -> Counter[str]:
    return Counter(
        f"{t.source or t.name} {'x'.join(map(str, sorted(t.dims)))}" for t in graph.parameters
    )


def _operators(graph: OpGraph) -> Counter[str]:
    return Counter(_text(op, graph) for op in graph.ops)


def _text(op: Op, graph: OpGraph) -> str:
    dims = next((graph.tensors[n].dims for n in (*op.outputs, *op.inputs) if n), ())
    where = f" in {op.scope}" if op.scope else ""
    return f"{op.kind} {'x'.join(map(str, dims)) or 'scalar'}{where}"


def _lists(noun: str, planned: Counter[str], found: Counter[str]) -> Iterable[str]:
    for who, only in (("the plan", planned - found), ("the model", found - planned)):
        if only:
            shown = ", ".join(list(only.elements())[:_MOST_LISTED])
            more = only.total() - _MOST_LISTED
            yield f"  at:  only {who} has {noun} {shown}" + (
                f" and {more} more" if more > 0 else ""
            )
