"""The record of a run: its fields, and tables and files of them as rows of text.

A field is a column of a table, and a name in a record of YAML or JSON. Fields of settings that
notes may state as well go before the notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from costmodel.training.cells import cell, switch
from costmodel.training.notes import Notes
from costmodel.training.records import LayoutError
from topology.errors import ClusterError
from topology.reading import plain_values

__all__ = [
    "COLUMNS",
    "FIELDS",
    "REQUIRED",
    "SWITCHES",
    "RunField",
    "fields_in_notes",
    "record_rows",
    "switched",
]

_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class RunField:
    """One field of a run."""

    name: str
    kind: str
    """What it holds: `text`, `number`, `whole number`, `yes or no` or the words that it may be."""

    meaning: str
    unit: str = ""
    required: bool = False
    note: str = ""
    """Key of notes that says the same; empty where none does."""


def _whole(name: str, meaning: str, *, note: str = "", required: bool = False) -> RunField:
    return RunField(name, "whole number", meaning, required=required, note=note)


FIELDS = (
    RunField("id", "text", "name of the run", required=True),
    RunField("hardware", "text", "chip, board or cluster, such as NVIDIA H100 80GB", required=True),
    RunField("model", "text", "name of the model; a known one implies sizes", required=True),
    _whole("hidden", "width of the residual stream", required=True),
    _whole("layers", "transformer layers", required=True),
    _whole("heads", "query heads", required=True),
    _whole("seq_len", "tokens of a sequence", required=True),
    _whole("global_batch", "sequences of a step", required=True),
    RunField("source", "text", "publication and table or release; names the software if it can"),
    RunField("software", "text", "framework, such as torchtitan, Megatron-LM, MaxText, MindSpeed"),
    RunField("release", "text", "version or month of it, such as 1.2 or 25.09", note="release"),
    _whole("devices", "devices of the run"),
    RunField("servers", "number", "servers or slices that they are in; below 1 for a part"),
    RunField(
        "port_gbit_s", "number", "share of one device of the ports between servers, one direction",
        "Gbit/s",
    ),
    RunField(
        "link_gbyte_s", "number",
        "all links of one device inside its server, one direction; of a full mesh one of them",
        "GB/s",
    ),
    RunField("interconnect", "text", "links in words, where the two numbers are not known"),
    _whole("kv_heads", "key and value heads"),
    _whole("head_size", "width of a query head", note="kv-channels"),
    _whole("ffn_hidden", "inner width of a dense feed-forward block"),
    _whole("vocab", "rows of the embedding table"),
    RunField("params", "text", "stated parameters, such as 671B-A37B; compared with the sizes"),
    _whole("experts", "routed experts of a layer", note="num-experts"),
    _whole("experts_per_token", "routed experts that a token visits", note="moe-router-topk"),
    _whole("expert_ffn", "inner width of a routed expert", note="moe-intermediate-size"),
    _whole("shared_experts", "experts that every token visits", note="n-shared-experts"),
    _whole("dense_layers", "first layers without experts", note="first-k-dense-replace"),
    _whole("mtp_layers", "multi-token prediction (MTP) layers", note="mtp-num-layers"),
    _whole("window", "positions that a layer with a sliding window looks back; 0 for none"),
    _whole("window_every", "one layer in so many looks at the whole sequence"),
    _whole("micro_batch", "sequences of one forward pass of a replica"),
    _whole("tp", "tensor parallel"),
    _whole("pp", "pipeline stages"),
    _whole("vpp", "chunks of layers on each stage"),
    _whole("dp", "data parallel replicas"),
    _whole("cp", "context parallel"),
    _whole("ep", "expert parallel"),
    RunField("etp", "whole number", "tensor parallel ranks that split an expert", note="etp"),
    RunField(
        "schedule", "1F1B, interleaved, GPipe, ZB-H1, ZB-H2 or DualPipe", "order of the passes",
        note="schedule",
    ),
    RunField("stage_layers", "list", "layers of each stage: 5,6,6,5", note="num-layer-list"),
    RunField("zero_stage", "0 to 3", "what replicas share: optimizer, gradients, parameters"),
    _whole("zero_group", "ranks that share them; all replicas if empty", note="zero-group"),
    RunField("sequence_parallel", "yes or no", "whether tensor parallel ranks split norms"),
    RunField("recompute", "none, selective, full or block", "what is computed again"),
    _whole("recompute_layers", "layers of a chunk, with block", note="recompute-num-layers"),
    RunField("attention", "flash or unfused", "kernel of attention; flash2, cudnn, math"),
    RunField("dtype", "fp32, fp16, bf16, fp8, mxfp8 or nvfp4", "operands of the large products"),
    RunField("gradient_dtype", "fp32, fp16 or bf16", "in which gradients of micro-batches add up"),
    RunField("overlap_gradients", "yes or no", "whether gradients are reduced beside the passes"),
    RunField("overlap_tp", "yes or no", "whether products are fused with tensor parallel messages"),
    RunField("overlap_experts", "yes or no", "whether the exchange between experts is overlapped"),
    RunField("notes", "text", "what no field has, in parts between semicolons"),
    RunField("measured_step_time_s", "number", "measured step", "s"),
    RunField("measured_tokens_per_s_per_device", "number", "measured rate", "1/s"),
    RunField(
        "measured_tflops_per_device", "number", "measured rate, where what it counts is known",
        "TFLOP/s",
    ),
    RunField("measured_memory_gb", "number", "measured memory of the fullest device", "GiB"),
)  # fmt: skip
"""All fields that are read, in the order in which they are documented."""

REQUIRED = tuple(field.name for field in FIELDS if field.required)
"""Columns that a table must have; the others may be missing or empty."""

COLUMNS = tuple(field.name for field in FIELDS if not field.name.startswith("measured_"))
"""Columns that a prediction reads."""

_ATTENTION = {
    "true": r"flash|fused|cudnn|sdpa|xformers|memory.?efficient|splash|te\b|transformer.?engine",
    "false": r"unfused|math|eager|naive|separate",
}
"""What `use_flash_attention` is for words of column `attention`; the second list goes first."""

SWITCHES = {
    "overlap_gradients": "overlap", "overlap_tp": "fused-tp", "overlap_experts": "ep-overlap",
}  # fmt: skip
"""Flags of a run that a field says, whatever notes say."""

_EXPOSED = "exposed-gradients"


def fields_in_notes(row: Mapping[str, str], notes: Notes) -> Notes:
    """Notes of a row with what its fields state in their place.

    Raises:
        LayoutError: a field holds a word that it cannot.
    """
    stated = {
        field.note: cell(row, field.name).lower().strip("[]() ").replace(" ", "")
        for field in FIELDS
        if field.note and cell(row, field.name)
    }
    attention = cell(row, "attention").lower()
    if attention:
        stated["use_flash_attention"] = _attention(attention)
    text = "; ".join([*(f"{key}={value}" for key, value in stated.items()), notes.text])
    return replace(notes, values={**notes.values, **stated}, text=text)


def switched(row: Mapping[str, str], flags: frozenset[str]) -> frozenset[str]:
    """Flags of a run with what its fields state in their place."""
    for name, flag in SWITCHES.items():
        on = switch(row, name)
        if on is not None:
            flags = flags | {flag} if on else flags - {flag}
    return flags | {_EXPOSED} if switch(row, "overlap_gradients") is False else flags


def _attention(text: str) -> str:
    for answer in ("false", "true"):
        if re.search(_ATTENTION[answer], text):
            return answer
    raise LayoutError(f"attention is {text[:_MOST_SHOWN]!r}, neither flash nor unfused")


def record_rows(text: str, where: str) -> list[dict[str, str]]:
    """Rows of a file of records: `runs:` with a list, or the fields of one run.

    Args:
        text: YAML or JSON.
        where: name of the file for errors.

    Raises:
        ClusterError: it is none, or a run is no mapping of fields.
    """
    found = plain_values(text, where)
    runs = found.get("runs", [found])
    if not isinstance(runs, Sequence) or isinstance(runs, str):
        raise ClusterError("runs is no list", where, "write each run as `- id: ...`")
    return [_row(run, f"{where}, run {number}") for number, run in enumerate(runs, 1)]


def _row(run: object, where: str) -> dict[str, str]:
    fix = f"fields: {', '.join(field.name for field in FIELDS)}"
    if not isinstance(run, Mapping):
        raise ClusterError("a run is no mapping of fields to values", where, fix)
    known = {field.name for field in FIELDS}
    unknown = sorted(str(name) for name in run if name not in known)
    if unknown:
        raise ClusterError(f"unknown field {unknown[0][:_MOST_SHOWN]!r}", where, fix)
    return {str(name): _cell(value) for name, value in run.items()}


def _cell(value: Any) -> str:
    """A value as a cell of a table has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(_cell, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)
