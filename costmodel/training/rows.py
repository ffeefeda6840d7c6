"""Rows of a table of published runs: from text in columns to runs that can be priced.

The columns are those of `measured_training.csv`. Columns whose name begins with `measured_` are
never read here, so that a prediction cannot depend on them. Whether the sizes of a run make the
model, and the ranks, that its name and its row say is remarked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import data
from costmodel.training.cells import cell, needed, number, size
from costmodel.training.machines import machine_of
from costmodel.training.notes import SETTINGS, SIZES, Notes, kinds_of_layers, read_notes
from costmodel.training.records import LayoutError, TrainingModel, TrainingRun
from costmodel.training.row_layout import row_layout
from costmodel.training.row_links import row_links
from costmodel.training.run_schema import fields_in_notes, switched
from costmodel.training.sizes import expert_parts, model_parameters, wanted_expert_parts
from costmodel.training.stacks import (
    names_stack,
    row_attention,
    run_flags,
    stack_of,
    trained_mtp_layers,
)
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.training.records import TrainingRun

__all__ = [
    "ReadRow",
    "expert_remarks",
    "read_row",
    "says_experts",
    "size_remarks",
]

_SIZES = ("hidden", "layers", "heads", "ffn_hidden")
"""Columns that the name of a public model may stand for; heads of keys too, of as many heads."""

_LATENT = ("query_rank", "kv_rank", "rotary", "value")
"""Sizes of latent attention, which has as many heads of keys as of queries."""

_OWN_KINDS = ("mixer", "mixer-layers")
"""Notes that say of their own which layers have what in the place of attention."""

_PACKED = 2048
"""Mean length assumed for samples packed into one sequence: attention stays inside them."""
_UNNAMED_SOFTWARE = 9
_LAYERS = 10**6
"""More than any model has: no layer looks further than its window."""


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row that can be priced, and what was assumed for it."""

    run: TrainingRun
    assumed: tuple[str, ...]
    """What the row does not state and a default stands in for; widens the interval."""

    links: tuple[str, ...] = ()
    """What was understood of its links, in sentences."""

    unread: tuple[str, ...] = ()
    """What notes state but nobody can follow, in sentences; widens the interval as well."""

    @property
    def guesses(self) -> int:
        """How many inputs were guessed; software that nobody names is as many as ten, so that the
        interval is at least as wide as where constants are another stack's.
        """
        software = _UNNAMED_SOFTWARE if "software" in self.assumed else 0
        return len(self.assumed) + len(self.unread) + software


def read_row(row: Mapping[str, str]) -> ReadRow:
    """Read one row.

    Raises:
        LayoutError: a value is no number, a size is missing or the layout cannot be.
    """
    notes = fields_in_notes(row, read_notes(row.get("notes", "")))
    if notes.has("inconsistent"):
        raise LayoutError("the source calls its layout inconsistent with the number of devices")
    for what in notes.strange(SIZES):
        raise LayoutError(f"{what} (notes)")
    assumed: list[str] = [] if names_stack(row, notes) else ["software"]
    name = row.get("model", "").strip()
    profile = stack_of(row, notes)
    machine = machine_of(row.get("hardware", ""))
    model = _model(row, notes, name, assumed)
    model = replace(model, further=trained_mtp_layers(row, notes, profile["name"]))
    unread = list(notes.strange(SETTINGS))
    layout = row_layout(row, notes, model, profile, (assumed, unread))
    precision = _precision(cell(row, "dtype"), notes)
    machine.flops(precision)
    links = row_links(row, machine, layout.devices)
    run = TrainingRun(
        name=row.get("id", ""),
        model=model,
        layout=layout,
        machine=machine.name,
        profile=profile["name"],
        port_bytes_per_s=links.port_bytes_per_s,
        link_bytes_per_s=links.link_bytes_per_s,
        server=links.server,
        precision=precision,
        attention=row_attention(row, notes, profile),
        gradient_bytes=_gradient_bytes(cell(row, "gradient_dtype")),
        flags=switched(row, run_flags(row, notes, profile, layout)),
    )
    assumed += links.assumed
    unread += (*links.unread, *size_remarks(cell(row, "params"), run), *expert_remarks(run))
    return ReadRow(run, tuple(assumed), links.read, tuple(unread))


def _family(name: str) -> dict[str, Any]:
    text = name.lower()
    models: list[dict[str, Any]] = data.calibration("training_models")["models"]
    return next(m for m in models if re.search(m["match"], text))


def _model(row: Mapping[str, str], notes: Notes, name: str, assumed: list[str]) -> TrainingModel:
    family = _family(name)
    row = {**row, **{name: cell(row, name) or str(family.get(name, "")) for name in _SIZES}}
    hidden, heads = size(row, "hidden"), size(row, "heads")
    kv_heads = family.get("kv_heads") if heads == family.get("heads") else None
    gated = bool(family["gated"])
    ffn = number(row, "ffn_hidden")
    if ffn is None:
        assumed.append("ffn_hidden")
        ffn = 256 * math.ceil(8 * hidden / 3 / 256) if gated else 4 * hidden
    vocab = number(row, "vocab") or needed("vocab", notes.number("vocab"))
    if vocab is None:
        assumed.append("vocab")
        vocab = family.get("vocab", 32000)
    stated = needed("kv-channels", notes.number("kv-channels"))
    keys = number(row, "kv_heads") or kv_heads or heads
    latent = {key: family.get(key, 0) if keys == heads else 0 for key in _LATENT}
    usual = None if family.get("kv_rank") and not latent["kv_rank"] else family.get("head")
    head = stated or usual or hidden // heads
    layers = max(size(row, "layers") - len(notes.numbers("noop-layers")), 1)
    return TrainingModel(
        name=name,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=keys,
        head_size=head,
        ffn=ffn,
        vocab=vocab,
        gated=gated,
        tied=bool(family.get("tied", False)),
        **(
            _experts(notes, family, ffn, name, assumed)
            | kinds_of_layers(_kinds(notes, family, layers), layers)
        ),
        value_size=latent["value"],
        query_rank=latent["query_rank"],
        kv_rank=latent["kv_rank"],
        rotary_size=latent["rotary"],
        **_window(row, family, packed=notes.has("packed")),
        activation_kernels=family.get("activation_kernels", 1),
        expert_biases=family.get("expert_biases", False),
        causal=family.get("causal", True),
    )


def _window(row: Mapping[str, str], family: dict[str, Any], *, packed: bool) -> dict[str, Any]:
    """How far local layers look back, and which layers look at everything."""
    stated = cell(row, "window").lower()
    window = 0 if stated in {"0", "none", "no"} else number(row, "window")
    if window is None:
        window = family.get("window", 0) or (_PACKED if packed else 0)
    return {
        "window": window,
        "global_every": number(row, "window_every") or family.get("every", _LAYERS),
    }


def _kinds(notes: Notes, family: dict[str, Any], layers: int) -> Notes:
    """Notes of a row, and those that its model's name stands for where they say nothing.

    Raises:
        LayoutError: the name stands for a pattern of another number of layers.
    """
    usual = dict(read_notes(family.get("notes", "")).values)
    if any(key in notes.values for key in _OWN_KINDS):
        return notes
    pattern = usual.get("layer-pattern", "")
    if len(pattern) == 1:
        pattern = usual["layer-pattern"] = pattern * layers
    if pattern and "layer-pattern" not in notes.values and len(pattern) != layers:
        raise LayoutError(
            f"layers are {layers}, of the model of this name {len(pattern)}, of several kinds; "
            "which of them are meant is for layer-pattern in 'notes' to say"
        )
    return replace(notes, values=usual | notes.values)


def _experts(
    notes: Notes, family: dict[str, Any], ffn: int, name: str, assumed: list[str]
) -> dict[str, Any]:
    """Sizes of routed layers: from the notes, else from what the name implies."""
    stated = notes.number("num-experts")
    if stated is None and "experts" not in family and says_experts(name):
        assumed.append("experts")
    count = int(family.get("experts", 0) if stated is None else stated)
    if stated and (count != stated or count < 0):
        raise LayoutError(f"num-experts in 'notes' is {stated:g}, not a whole number from 0")
    if not count:
        return {}
    width = notes.number("moe-intermediate-size")
    width = needed("moe-intermediate-size", width) or family.get("expert_ffn") or ffn
    top = needed("moe-router-topk", notes.number("moe-router-topk"))
    shared = notes.number("n-shared-experts")
    usual = family.get("shared_ffn") or family.get("shared", 0) * width
    dense = notes.number("first-k-dense-replace")
    dense = family.get("dense", 0) if dense is None else dense
    capacity = notes.number("moe-capacity")
    for key, value, least in (
        ("n-shared-experts", 0 if shared is None else shared, 0),
        ("first-k-dense-replace", dense, -1),
        ("capacity_factor", 1.0 if capacity is None else capacity, 0.01),
    ):  # fmt: skip
        if value < least:
            raise LayoutError(f"{key} in 'notes' is {value:g}, which is too small")
    return {
        "experts": count,
        "experts_per_token": top or family.get("top", 2),
        **_groups(notes, family, count),
        "expert_ffn": width,
        "shared_ffn": int(usual if shared is None else shared * width),
        "dense_layers": max(int(dense), 0),
        "expert_capacity": max(capacity or 1.0, 1.0),
    }


def _groups(notes: Notes, family: dict[str, Any], count: int) -> dict[str, int]:
    """Groups that limit routing: what notes say, else the name, if it has as many experts."""
    stated = notes.number("moe-router-num-groups", "n-group", "n_group")
    best = notes.number("moe-router-group-topk", "topk-group", "topk_group")
    usual = family.get("groups", (0, 0)) if count == family.get("experts") else (0, 0)
    if stated is None and best is None:
        return {"expert_groups": usual[0], "groups_per_token": usual[1]}
    if stated is None or best is None:
        given = "moe-router-group-topk" if stated is None else "moe-router-num-groups"
        raise LayoutError(f"{given} in 'notes' needs both: groups, and how many a token visits")
    return {"expert_groups": int(stated), "groups_per_token": int(best)}


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


def _gradient_bytes(text: str) -> float:
    """Bytes of a gradient that micro-batches add up; 0 where the row does not say."""
    for pattern, nbytes in ((r"fp32|float32|^32", 4.0), (r"[bf]+16|float16|^16", 2.0)):
        if re.search(pattern, text.lower()):
            return nbytes
    if text:
        raise LayoutError(f"gradient_dtype is {text[:40]!r}; known: fp32, fp16, bf16")
    return 0.0


_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}
_APART = 1.5
"""Factor from which on counts do not mean the same model: tables that share parameters with the
head, or count without them, differ by less."""

_EXPERTS = r"moe(?![a-z])|[0-9]x[0-9.]+b(?![a-z])|[0-9]b[-_ ]a[0-9.]+b(?![a-z])"
"""Of names such as `OLMoE`, `Mixtral-8x7B` and `Qwen3-30B-A3B`."""


def says_experts(name: str) -> bool:
    """Whether a model's name says that it has routed experts."""
    return re.search(_EXPERTS, name.lower()) is not None


def size_remarks(params: str, run: TrainingRun) -> Iterator[str]:
    """A sentence if the stated number of parameters, such as `671B-A37B`, is far from the run's."""
    found = re.match(r"([0-9]+(?:\.[0-9]+)?) ?([mbt])(?![a-z])", params.strip().lower())
    if not found or not float(found.group(1)):
        return
    stated = float(found.group(1)) * _UNITS[found.group(2)]
    count = float(model_parameters(RunTable.of([run]))[0])
    if not stated / _APART <= count <= stated * _APART:
        yield f"the sizes make {count / 1e9:.3g}B parameters, column 'params' says {params[:40]}"


def expert_remarks(run: TrainingRun) -> Iterator[str]:
    """A sentence if experts cannot be split as the layout says or its software does of itself."""
    layout, table = run.layout, RunTable.of([run])
    parts, wanted = int(expert_parts(table)[0]), int(wanted_expert_parts(table)[0])
    if run.model.experts and parts != wanted:
        devices = layout.tp * layout.cp * layout.dp
        yield (
            f"experts over etp={wanted} x ep={layout.ep} ranks are more than the {devices} devices "
            f"of a stage; they are priced with etp={parts}"
        )
