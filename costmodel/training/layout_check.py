"""Layouts that no software can run: what is wrong with them, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from costmodel.schedules.orders import schedule_faults
from costmodel.training.records import LayoutError, TrainingLayout, TrainingModel

__all__ = ["check_layout", "group_faults", "mixer_heads", "near_batches", "order_faults"]


def check_layout(model: TrainingModel, layout: TrainingLayout, idle: int = 0) -> None:
    """Raise `LayoutError` with the first fault of a layout.

    Args:
        model: its layers are those that compute.
        layout: of that model.
        idle: layers beside them that do nothing but fill stages.
    """
    faults = chain(
        _pipeline(model.layers + idle, layout),
        order_faults(layout),
        _batch(layout),
        _heads(model, layout),
        _experts(model, layout),
    )
    for what in faults:
        raise LayoutError(what)


def order_faults(layout: TrainingLayout) -> Iterator[str]:
    """Why the order of a layout cannot be, in sentences."""
    return schedule_faults(layout.order, layout.pp, layout.vpp, layout.micro_batches)


def near_batches(layout: TrainingLayout) -> tuple[int, ...]:
    """The global batches next to that of a layout which its replicas and its order can share out.

    >>> near_batches(TrainingLayout(100, 1, 4096, pp=4, vpp=2, dp=8))
    (96, 128)
    """
    paired = layout.schedule == "dualpipe"
    turns = 2 if paired else layout.pp if layout.vpp > 1 else 1
    unit = turns * layout.micro_batch * layout.dp
    least = unit * layout.pp if paired else unit
    if layout.global_batch < least:
        return (least,)
    low = layout.global_batch // unit * unit
    return (low,) if low == layout.global_batch else (low, low + unit)


def _pipeline(layers: int, layout: TrainingLayout) -> Iterator[str]:
    pp, vpp = layout.pp, layout.vpp
    chunks = f"{pp} stages of {vpp} chunks"
    if pp * vpp > layers + 2:  # embedding and head may have a chunk each
        yield f"{chunks if vpp > 1 else f'{pp} pipeline stages'} for {layers} layers"
    if vpp > 1 and pp == 1:
        yield f"vpp is {vpp}, but there is no pipeline: pp is 1"


def _batch(layout: TrainingLayout) -> Iterator[str]:
    batch, dp, micro = layout.global_batch, layout.dp, layout.micro_batch
    if batch < dp:
        yield f"a global batch of {batch} for {dp} data parallel replicas"
    if batch % (micro * dp):
        yield f"a global batch of {batch} is no multiple of micro_batch {micro} x dp {dp}"
    if layout.seq_len % layout.cp:
        yield f"context parallel {layout.cp} does not divide {layout.seq_len} tokens"


def _heads(model: TrainingModel, layout: TrainingLayout) -> Iterator[str]:
    heads, shared = model.heads, model.kv_heads
    if model.head_size < 1:
        yield f"hidden {model.hidden} is less than {heads} heads"
    for shared_out in (heads, mixer_heads(model)):
        if shared_out % layout.tp:
            yield f"tensor parallel {layout.tp} does not divide {shared_out} heads"
    if heads % shared:
        yield f"kv_heads {shared} does not divide {heads} heads"


def mixer_heads(model: TrainingModel) -> int:
    """Heads of a mixer without softmax, which tensor parallel ranks share out; 0 without one."""
    return model.mixer.heads if model.mixer else 0


def group_faults(model: TrainingModel) -> Iterator[str]:
    """Why routing cannot be limited to some groups of experts as a model has it, in sentences."""
    groups, best, experts = model.expert_groups, model.groups_per_token, model.experts
    if groups > 1 and experts % groups:
        yield f"{groups} groups do not divide {experts} experts"
    elif groups > 1 and not 1 <= best <= groups:
        yield f"a token visits {best} groups of experts, of {groups}"
    elif groups > 1 and best * (experts // groups) < model.experts_per_token:
        yield (
            f"{best} of {groups} groups have fewer than the {model.experts_per_token} experts of a "
            "token"
        )


def _experts(model: TrainingModel, layout: TrainingLayout) -> Iterator[str]:
    ep, experts = layout.ep, model.experts
    if experts and model.dense_layers + model.bare_layers >= model.layers:
        yield f"{model.dense_layers} of {model.layers} layers are dense: none for {experts} experts"
    ranks = layout.tp * layout.cp * layout.dp
    if model.experts_per_token > experts:
        yield f"{model.experts_per_token} experts for each token, of {experts}"
    yield from group_faults(model)
    if ep > 1 and not experts:
        yield f"ep is {ep}, but no experts are stated (notes: num-experts=8)"
    elif ep > 1 and experts % ep:
        yield f"expert parallel {ep} does not divide {experts} experts"
    if ranks % ep:
        yield f"expert parallel {ep} does not divide tp x cp x dp = {ranks}"
