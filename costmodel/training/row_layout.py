"""The layout that a row of a table of runs states, the order of its passes by the names that
frameworks use, and what stands in for what it leaves out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from costmodel.training.cells import degree, number, recompute_words, size, switch, zero_stage
from costmodel.training.layout_check import check_layout
from costmodel.training.records import LayoutError, Recompute, TrainingLayout, TrainingModel
from costmodel.training.stacks import stated_expert_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.training.notes import Notes

__all__ = ["interleaved", "row_layout", "stated_order"]


def row_layout(
    row: Mapping[str, str],
    notes: Notes,
    model: TrainingModel,
    profile: dict[str, Any],
    remarks: tuple[list[str], list[str]],
) -> TrainingLayout:
    """The layout of a row.

    Args:
        row: its cells by column.
        notes: its notes.
        model: its model.
        profile: the software stack, an entry of `training_profiles.yaml`.
        remarks: what is assumed and what is not read, in sentences; both grow.

    Raises:
        LayoutError: a cell is no degree, or the layout cannot be.
    """
    assumed, unread = remarks
    tp, pp, cp = (degree(row, name) or 1 for name in ("tp", "pp", "cp"))
    dp = _replicas(row, tp * pp * cp, assumed)
    if (devices := number(row, "devices")) and tp * pp * cp * dp != devices:
        raise LayoutError(f"tp {tp} x pp {pp} x cp {cp} x dp {dp} are not {devices} devices")
    micro = _micro_batch(row, profile, (tp * cp, pp, dp), assumed)
    chunks = degree(row, "vpp")
    if chunks is None and pp > 1 and interleaved(notes):
        steps = size(row, "global_batch") // (micro * dp)
        chunks = _usual_chunks(pp, steps, model.layers, assumed)
    vpp = chunks or 1
    recompute, share = _recompute(
        row, notes, (model.layers, pp * vpp), profile.get("recompute", "none"), remarks
    )
    parallel = switch(row, "sequence_parallel")
    layout = TrainingLayout(
        global_batch=size(row, "global_batch"),
        micro_batch=micro,
        seq_len=size(row, "seq_len"),
        tp=tp,
        pp=pp,
        vpp=vpp,
        dp=dp,
        cp=cp,
        ep=degree(row, "ep") or 1,
        etp=_expert_parts(row, notes, tp, unread),
        zero_stage=_zero_stage(row, profile, assumed),
        zero_group=_zero_group(notes, dp * cp, unread),
        sequence_parallel=tp > 1 and profile["sequence_parallel"] if parallel is None else parallel,
        recompute=recompute,
        recompute_share=share,
        stage_layers=_stage_layers(notes, model.layers, pp, unread),
        schedule=stated_order(notes, unread) if pp > 1 else "",
    )
    check_layout(model, layout, _idle_layers(row, notes))
    return layout


def _usual_chunks(pp: int, micro_batches: int, layers: int, assumed: list[str]) -> int:
    """Chunks of layers on each stage where an order is interleaved but nobody says how often: two,
    the fewest that there can be, and one where two cannot be.
    """
    assumed.append("vpp")
    return 2 if micro_batches % pp == 0 and 2 * pp <= layers else 1


def _idle_layers(row: Mapping[str, str], notes: Notes) -> int:
    """Layers that do nothing and only fill stages."""
    idle = notes.numbers("noop-layers")
    if len(set(idle)) < len(idle) or any(not 0 <= n < size(row, "layers") for n in idle):
        shown = ",".join(map(str, idle))[:40]
        raise LayoutError(f"noop-layers={shown} are not layers of {size(row, 'layers')}")
    return len(idle)


def _micro_batch(
    row: Mapping[str, str],
    profile: dict[str, Any],
    degrees: tuple[int, int, int],
    assumed: list[str],
) -> int:
    """Sequences of a replica that go together; `degrees` are tp x cp, pp and dp."""
    ranks, pp, dp = degrees
    batch, micro = size(row, "global_batch"), number(row, "micro_batch")
    if micro is None:
        assumed.append("micro_batch")
        return _usual_micro_batch(max(batch // dp, 1), pp, profile["micro_batch"])
    per_device = "per_device_batch" in profile and batch % (micro * ranks * dp) == 0
    return micro * ranks if per_device else micro


def _usual_micro_batch(sequences: int, pp: int, usual: str) -> int:
    """Of so many sequences of a replica, what software takes at a time unless told: one, all of
    them where there is no pipeline, or as many as make one micro-batch for each stage.
    """
    if usual == "stages" and sequences % pp == 0:
        return sequences // pp
    return sequences if usual == "all" and pp == 1 else 1


def _zero_stage(row: Mapping[str, str], profile: dict[str, Any], assumed: list[str]) -> int:
    """The stage of ZeRO as stated, or what the stack does unless told."""
    stated = zero_stage(row)
    if stated is None and "unstated_zero" in profile:
        assumed.append("zero_stage")
        stated = int(profile["unstated_zero"])
    return max(stated, int(profile.get("zero", 1))) if stated else 0


def _zero_group(notes: Notes, replicas: int, unread: list[str]) -> int:
    """Ranks that share states; 0 for all of them."""
    group = int(notes.number("zero-group") or 0)
    if group and replicas % group:
        unread.append(f"a sharding group of {group} does not divide {replicas} replicas")
        return 0
    return group


def _replicas(row: Mapping[str, str], ranks: int, assumed: list[str]) -> int:
    """Data parallel replicas of so many devices: as stated, or all that the devices make."""
    stated, devices = degree(row, "dp"), number(row, "devices")
    if stated is not None:
        return stated
    if devices is None:
        raise LayoutError("neither 'dp' nor 'devices' is given")
    assumed.append("dp")
    return max(devices // ranks, 1)


def _expert_parts(row: Mapping[str, str], notes: Notes, tp: int, unread: list[str]) -> int:
    """Tensor parallel ranks that split the width of an expert; 0 if the row does not say."""
    stated = stated_expert_parts(row, notes)
    if stated and tp % stated:
        unread.append(f"experts over {stated} tensor parallel ranks, which do not divide tp {tp}")
        return 0
    return stated


def _stage_layers(notes: Notes, layers: int, pp: int, unread: list[str]) -> tuple[int, ...]:
    """Layers of each stage where a row lists them, or what each has beyond an equal share."""
    listed, more = notes.numbers("num-layer-list"), notes.numbers("offset")
    if not listed and any(more):
        chunks = len(notes.lists("offset"))
        if len(more) == pp and sum(more) == layers % (pp * chunks):
            listed = tuple(layers // (pp * chunks) * chunks + extra for extra in more)
        else:
            unread.append(
                f"offset={','.join(map(str, more))[:40]} does not make {pp} stages of {layers} "
                "layers; they are taken as equal"
            )
    if not listed:
        return ()
    if len(listed) != pp:
        raise LayoutError(f"num-layer-list is of {len(listed)} stages, the pipeline of {pp}")
    if min(listed) < 0:
        raise LayoutError("a stage of num-layer-list has fewer than 0 layers")
    if sum(listed) not in {layers, layers + len(notes.numbers("noop-layers"))}:
        raise LayoutError(f"num-layer-list has {sum(listed)} layers, the model {layers}")
    return listed


_PER_STAGE = (("recompute", Recompute.FULL), ("select_recompute", Recompute.SELECTIVE))
"""Notes of MindFormers that list how many layers of each stage are recomputed, and what of them."""


def _recompute(
    row: Mapping[str, str],
    notes: Notes,
    split: tuple[int, int],
    usual: str,
    remarks: tuple[list[str], list[str]],
) -> tuple[Recompute, float]:
    """The policy and the share of layers that it holds for.

    Megatron counts `recompute-num-layers` in each chunk of layers; `split` are the layers and the
    chunks of the model.
    """
    layers, chunks = split
    for key, policy in _PER_STAGE:
        listed = notes.numbers(key)
        if len(listed) > 1 and any(listed):
            if min(listed) < 0 or sum(listed) > layers:
                shown = ",".join(map(str, listed))[:40]
                remarks[1].append(f"{key}={shown} are not parts of {layers} layers")
                continue
            return policy, sum(listed) / layers
    found = recompute_words(row)
    blocks = notes.number("recompute-num-layers")
    if found is None:
        remarks[0].append("recompute")
        return Recompute(usual), 1.0
    policy, some = found
    if policy is Recompute.FULL and (some or notes.values.get("recompute-method") == "block"):
        if blocks:
            return policy, min(blocks * chunks / layers, 1.0)
        if some:
            raise LayoutError(
                "recompute is block, but of how many layers is not stated (notes: "
                "recompute-num-layers=2)"
            )
    return policy, 1.0


_KEYS = (
    "schedule", "pipeline-schedule", "pipeline_schedule", "pipeline_parallel_schedule",
    "schedules-method", "pipeline_scheduler",
)  # fmt: skip
"""Of plain notes, torchtitan, MindSpeed and MindSpore."""

_END = r"(?![a-z0-9]|[-_][a-z])"
_NAMES = (
    (r"\bdual-?pipe" + _END, "dualpipe"),
    (r"\bzb-?h1" + _END, "zb-h1"),
    (r"\bzb-?h2" + _END, "zb-h2"),
    (r"\bgpipe" + _END, "gpipe"),
    (r"\b(?:interleaved[-_ ]?)?1f1b" + _END + r"|\binterleaved" + _END, ""),
)
_OTHERS = r"\b(?:dual-?pipe-?v|zb-?v|zbvzerobubble|zero_bubble_v)\b"
"""Orders that have no formula here."""


_INTERLEAVED = r"(?<!non[- ])(?<!not )\binterleaved(?:[-_ ]?1f1b)?" + _END


def interleaved(notes: Notes) -> bool:
    """Whether notes say that stages have several chunks of layers in turn."""
    return notes.has(_INTERLEAVED)


def stated_order(notes: Notes, unread: list[str]) -> str:
    """Name of the order, empty for 1F1B or an interleaved one; `unread` grows by one not known."""
    values = [notes.values[key] for key in _KEYS if key in notes.values]
    for pattern, name in _NAMES:
        if any(re.search(pattern, text) for text in values or [notes.text]):
            return name
    other = re.search(_OTHERS, notes.text)
    if values or other:
        what = values[0] if values else other and other.group()
        unread.append(f"a schedule {what!s:.40} is not known; it is taken as 1F1B")
    return ""
