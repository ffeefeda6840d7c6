"""Rows of a table of published runs: from text in columns to runs that can be priced.

The columns are those of `measured_training.csv`. Columns whose name begins with `measured_` are
never read here, so that a prediction cannot depend on them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

import data
from costmodel.training.machines import machine_of
from costmodel.training.notes import Notes, read_notes
from costmodel.training.records import (
    Attention,
    LayoutError,
    Recompute,
    TrainingLayout,
    TrainingModel,
    TrainingRun,
)
from costmodel.training.stacks import run_flags, stack_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COLUMNS", "REQUIRED", "ReadRow", "read_row"]

REQUIRED = ("id", "hardware", "model", "hidden", "layers", "heads", "seq_len", "global_batch")
"""Columns that a table must have; the others may be missing or empty."""

COLUMNS = (
    *REQUIRED, "source", "devices", "servers", "interconnect", "kv_heads", "ffn_hidden", "vocab",
    "params", "micro_batch", "tp", "pp", "vpp", "dp", "cp", "ep", "zero_stage",
    "sequence_parallel", "recompute", "dtype", "notes",
)  # fmt: skip
"""Columns that are read."""

_SIZES = ("hidden", "layers", "heads", "ffn_hidden")
"""Columns that the name of a public model may stand for."""

_LARGEST = 10**9
_PACKED = 2048
"""Mean length assumed for samples packed into one sequence: attention stays inside them."""
_LAYERS = 10**6
"""More than any model has: no layer looks further than its window."""


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row that can be priced, and what was assumed for it."""

    run: TrainingRun
    assumed: tuple[str, ...]
    """What the row does not state and a default stands in for; widens the interval."""


def read_row(row: Mapping[str, str]) -> ReadRow:
    """Read one row.

    Raises:
        LayoutError: a value is no number, a size is missing or the layout cannot be.
    """
    notes = read_notes(row.get("notes", ""))
    if notes.has("inconsistent"):
        raise LayoutError("the source calls its layout inconsistent with the number of devices")
    assumed: list[str] = []
    name = row.get("model", "").strip()
    profile = stack_of(row, notes)
    machine = machine_of(row.get("hardware", ""))
    model = _model(row, notes, name, assumed)
    layout = _layout(row, notes, model, profile, assumed)
    precision = _precision(row.get("dtype", ""), notes)
    machine.flops(precision)
    run = TrainingRun(
        name=row.get("id", ""),
        model=model,
        layout=layout,
        machine=machine.name,
        profile=profile["name"],
        port_bytes_per_s=_port(row.get("interconnect", ""), machine.server),
        precision=precision,
        attention=_attention(notes, profile),
        flags=run_flags(row, notes, profile, layout),
    )
    return ReadRow(run, tuple(assumed))


def _port(text: str, server: int) -> float:
    """Bytes per second of one device between servers, from `800 Gb/s inter-node per node`."""
    found = re.search(r"([0-9.]+) gb/s(?: [a-z-]+){0,2} per (node|server|gpu|npu)", text.lower())
    if not found or not 0 < float(found.group(1)) < 1e5:
        return 0.0
    devices = server if found.group(2) in {"node", "server"} else 1
    return float(found.group(1)) * 1e9 / 8 / devices


def _number(row: Mapping[str, str], column: str) -> int | None:
    """The whole number in a column, `None` if the column is empty or missing."""
    text = row.get(column, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise LayoutError(f"column {column!r} is {text[:40]!r}, which is no number") from error
    if not math.isfinite(value) or value < 0 or value > _LARGEST or value != int(value):
        raise LayoutError(f"column {column!r} is {text[:40]!r}, not a whole number from 0 to 1e9")
    return int(value)


def _size(row: Mapping[str, str], column: str) -> int:
    value = _number(row, column)
    if not value:
        raise LayoutError(f"column {column!r} is empty or 0")
    return value


def _degree(row: Mapping[str, str], column: str, default: int = 1) -> int:
    value = _number(row, column)
    return value or default


@cache
def _names() -> dict[str, Any]:
    file: dict[str, Any] = yaml.safe_load(data.read_text("calibration", "training_models.yaml"))
    return file


def _family(name: str) -> dict[str, Any]:
    text = name.lower()
    found: dict[str, Any] = next(m for m in _names()["models"] if re.search(m["match"], text))
    return found


def _model(row: Mapping[str, str], notes: Notes, name: str, assumed: list[str]) -> TrainingModel:
    family = _family(name)
    row = {**row, **{name: row.get(name) or str(family.get(name, "")) for name in _SIZES}}
    hidden, heads = _size(row, "hidden"), _size(row, "heads")
    gated = bool(family["gated"])
    ffn = _number(row, "ffn_hidden")
    if not ffn:
        assumed.append("ffn_hidden")
        ffn = 256 * math.ceil(8 * hidden / 3 / 256) if gated else 4 * hidden
    vocab = _number(row, "vocab") or int(notes.number("vocab") or 0)
    if not vocab:
        assumed.append("vocab")
        vocab = family.get("vocab", 32000)
    stated = notes.number("kv-channels")
    head = int(stated or family.get("head") or hidden // heads)
    latent = {key: family.get(key, 0) for key in ("query_rank", "kv_rank", "rotary", "value")}
    return TrainingModel(
        name=name,
        hidden=hidden,
        layers=max(_size(row, "layers") - len(notes.numbers("noop-layers")), 1),
        heads=heads,
        kv_heads=_number(row, "kv_heads") or heads,
        head_size=head,
        ffn=ffn,
        vocab=vocab,
        gated=gated,
        tied=bool(family.get("tied", False)),
        **_experts(notes, family, ffn),
        value_size=latent["value"],
        query_rank=latent["query_rank"],
        kv_rank=latent["kv_rank"],
        rotary_size=latent["rotary"],
        window=family.get("window", 0) or (_PACKED if notes.has("packed") else 0),
        global_every=family.get("every", _LAYERS),
        activation_kernels=family.get("activation_kernels", 1),
        causal=family.get("causal", True),
    )


def _experts(notes: Notes, family: dict[str, Any], ffn: int) -> dict[str, Any]:
    """Sizes of routed layers: from the notes, else from what the name implies."""
    count = int(notes.number("num-experts") or family.get("experts", 0))
    if not count:
        return {}
    width = int(notes.number("moe-intermediate-size") or family.get("expert_ffn") or ffn)
    shared = notes.number("n-shared-experts")
    shared = family.get("shared", 0) if shared is None else shared
    dense = notes.number("first-k-dense-replace")
    dense = family.get("dense", 0) if dense is None else dense
    return {
        "experts": count,
        "experts_per_token": int(notes.number("moe-router-topk") or family.get("top", 2)),
        "expert_ffn": width,
        "shared_ffn": int(family.get("shared_ffn") or shared * width),
        "dense_layers": max(int(dense), 0),
        "expert_capacity": max(notes.number("moe-capacity") or 1.0, 1.0),
    }


def _layout(
    row: Mapping[str, str],
    notes: Notes,
    model: TrainingModel,
    profile: dict[str, Any],
    assumed: list[str],
) -> TrainingLayout:
    tp, pp = _degree(row, "tp"), _degree(row, "pp")
    cp, devices = _degree(row, "cp"), _number(row, "devices")
    dp = _number(row, "dp")
    if not dp:
        if not devices:
            raise LayoutError("neither 'dp' nor 'devices' is given")
        dp = max(devices // (tp * pp * cp), 1)
        assumed.append("dp")
    if devices and tp * pp * cp * dp != devices:
        raise LayoutError(f"tp {tp} x pp {pp} x cp {cp} x dp {dp} are not {devices} devices")
    batch = _size(row, "global_batch")
    micro = _number(row, "micro_batch") or 0
    if not micro:
        assumed.append("micro_batch")
        whole = profile["micro_batch"] == "all" and pp == 1
        micro = max(batch // dp, 1) if whole else 1
    vpp = _degree(row, "vpp")
    recompute, share = _recompute(
        row, notes, pp * vpp / model.layers, profile.get("recompute", "none"), assumed
    )
    listed = notes.numbers("num-layer-list")
    _check_layout(model, batch, tp, pp, dp, listed)
    return TrainingLayout(
        global_batch=batch,
        micro_batch=micro,
        seq_len=_size(row, "seq_len"),
        tp=tp,
        pp=pp,
        vpp=vpp,
        dp=dp,
        cp=cp,
        ep=_degree(row, "ep"),
        zero_stage=_zero_stage(row, profile),
        zero_group=int(notes.number("zero-group") or 0),
        sequence_parallel=_sequence_parallel(row, profile, tp),
        recompute=recompute,
        recompute_share=share,
        stage_layers=listed if len(listed) == pp else (),
    )


def _check_layout(
    model: TrainingModel,
    batch: int,
    tp: int,
    pp: int,
    dp: int,
    listed: tuple[int, ...],
) -> None:
    if pp > model.layers + 2:
        raise LayoutError(f"{pp} pipeline stages for {model.layers} layers")
    if tp > model.heads * 4:
        raise LayoutError(f"tensor parallel {tp} for {model.heads} heads")
    if batch < dp:
        raise LayoutError(f"a global batch of {batch} for {dp} data parallel replicas")
    if listed and min(listed) < 0:
        raise LayoutError("a stage of num-layer-list has fewer than 0 layers")


def _zero_stage(row: Mapping[str, str], profile: dict[str, Any]) -> int:
    stated = _number(row, "zero_stage") or 0
    if stated > 3:
        raise LayoutError(f"zero_stage is {stated}; known: 0 to 3")
    return max(stated, int(profile.get("zero", 1))) if stated else 0


def _sequence_parallel(row: Mapping[str, str], profile: dict[str, Any], tp: int) -> bool:
    text = row.get("sequence_parallel", "").strip().lower()
    if text:
        return text in {"yes", "true", "1"}
    return bool(profile["sequence_parallel"]) and tp > 1


def _recompute(
    row: Mapping[str, str], notes: Notes, per_chunk: float, usual: str, assumed: list[str]
) -> tuple[Recompute, float]:
    """The policy and the share of layers that it holds for.

    Megatron counts `recompute-num-layers` in each chunk of layers; `per_chunk` is the share of one
    such layer.
    """
    text = row.get("recompute", "").strip().lower()
    blocks = notes.number("recompute-num-layers")
    if not text:
        assumed.append("recompute")
        return Recompute(usual), 1.0
    if text in {"full", "yes", "true"}:
        if notes.values.get("recompute-method") == "block" and blocks:
            return Recompute.FULL, min(blocks * per_chunk, 1.0)
        return Recompute.FULL, 1.0
    if text in {"none", "no", "false"}:
        return Recompute.NONE, 1.0
    if text in {"selective", "custom", "minimal", "qkv_proj_offloaded"}:
        return Recompute.SELECTIVE, 1.0
    raise LayoutError(f"recompute is {text[:40]!r}; known: none, selective, full")


_PRECISIONS = (
    (r"nvfp4|fp4", "fp4"),
    (r"mxfp8|fp8-mx", "mxfp8"),
    (r"fp8|float8", "fp8"),
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|float16|half", "fp16"),
    (r"fp32|float32", "fp32"),
)


def _precision(text: str, notes: Notes) -> str:
    for pattern, name in _PRECISIONS:
        if re.search(pattern, text.lower()):
            return name
    if text.strip():
        raise LayoutError(f"dtype is {text[:40]!r}; known: fp32, fp16, bf16, fp8, mxfp8, nvfp4")
    return "fp8" if notes.has("float8") else "bf16"


def _attention(notes: Notes, profile: dict[str, Any]) -> Attention:
    if notes.values.get("use_flash_attention") == "false":
        return Attention.UNFUSED
    if notes.values.get("use_flash_attention") == "true" or notes.has("use-flash-attn"):
        return Attention.FLASH
    return Attention(profile["attention"])
