"""Stages and recomputation of a plan as arguments of Megatron-LM, which takes whole layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from exporters.sharding import counted
from exporters.stages import cut_scopes, layer_counts, layer_of
from ir.graph import Role
from ir.plan import Pipeline, Plan

__all__ = ["recomputation", "stages"]

Texts: TypeAlias = tuple[str, ...]
_FULL = "--recompute-granularity full"


def stages(plan: Plan) -> tuple[Texts, Texts]:
    """Arguments that say which layers a stage has, and what is lost."""
    pipeline = plan.pipeline
    first = f"--pipeline-model-parallel-size {pipeline.parts}"
    if len(pipeline.stages) == 1:
        return (first,), ()
    counts = layer_counts(plan)
    return (first, *_division(counts, pipeline.chunks)), tuple(
        _stage_losses(plan, pipeline, counts)
    )


def _division(counts: Sequence[int], chunks: int) -> Iterator[str]:
    """How many layers each stage has; Megatron alone divides them equally."""
    if len(set(counts)) == 1:
        if chunks > 1:
            yield f"--num-virtual-stages-per-pipeline-rank {chunks}"
    elif chunks == 1 and len(set(counts[1:-1])) <= 1 and all(counts):
        yield f"--decoder-first-pipeline-num-layers {counts[0]}"
        yield f"--decoder-last-pipeline-num-layers {counts[-1]}"
    else:  # no `*`: the shell would look for files
        layout = "|".join("t" * count for count in counts)
        yield f"--pipeline-model-parallel-layout E{layout}L"


def _stage_losses(plan: Plan, pipeline: Pipeline, counts: Sequence[int]) -> Iterator[str]:
    if not any(counts):
        yield "the plan's layers have no numbers; Megatron gives every stage as many"
    inside = cut_scopes(plan)
    if inside:
        yield f"the plan cuts inside {counted(inside, 'layers')}; Megatron cuts between layers"
    ends = {0, len(pipeline.stages) - 1}
    parameters = {n for n, t in plan.graph.tensors.items() if t.role is Role.PARAMETER}
    between = [
        op.scope or op.name
        for op, node in zip(plan.operators, plan.graph.ops, strict=True)
        if any(counts) and not layer_of(op.scope) and op.stage not in ends
        if parameters & set(node.inputs)
    ]
    if between:
        names = counted(list(dict.fromkeys(between)), "parts")
        yield f"the plan has {names} between the ends; Megatron has all but layers at the ends"


def recomputation(plan: Plan) -> tuple[Texts, Texts]:
    """Arguments that say which layers the backward pass computes again, and what is lost.

    Megatron takes all layers, or equally many of every stage.
    """
    again = _layers_again(plan)
    layers = dict.fromkeys(layer_of(op.scope) for op in plan.operators)
    layers.pop("", None)
    kept = [layer for layer in layers if layer not in again]
    stage = {layer_of(op.scope): op.stage for op in reversed(plan.operators)}
    numbers = [sum(stage[layer] == s for layer in again) for s in range(len(layer_counts(plan)))]
    if not again:
        return (), tuple(_single_losses(plan, ()))
    if kept and len(set(numbers)) == 1:
        arguments: Texts = (_FULL, "--recompute-method block")
        return (*arguments, f"--recompute-num-layers {numbers[0]}"), tuple(
            _single_losses(plan, again)
        )
    arguments = (_FULL, "--recompute-method uniform", "--recompute-num-layers 1")
    what = f"the plan keeps {counted(kept, 'layers')}; Megatron computes them again too"
    return arguments, (*((what,) if kept else ()), *_single_losses(plan, again))


def _layers_again(plan: Plan) -> tuple[str, ...]:
    """Numbered layers all of whose operators lie in blocks that are computed again."""
    inside: set[int] = set()
    for stage in plan.pipeline.stages:
        for start, end in stage.blocks:
            inside.update(range(start, end))
    whole: dict[str, bool] = {}
    for index, op in enumerate(plan.operators):
        layer = layer_of(op.scope)
        whole[layer] = whole.get(layer, True) and index in inside
    return tuple(layer for layer, fully in whole.items() if layer and fully)


def _single_losses(plan: Plan, again: Sequence[str]) -> Iterator[str]:
    """Tensors outside of these layers that are computed again."""
    scopes = {n: op.scope for op in plan.graph.ops for n in op.outputs}
    layers = set(again)
    single = [name for name in plan.recomputed if layer_of(scopes.get(name, "")) not in layers]
    if single:
        yield (
            f"the backward pass computes {counted(single, 'tensors')} again; Megatron keeps them "
            "unless --recompute-modules names their parts"
        )
