"""Plans of other tools: Megatron's degrees, Galvatron's layers, placements of DTensor.

Formats: Megatron-LM's arguments (`megatron/training/arguments.py`) as text, as a JSON object, or as
`tp=8,dp=2`; Galvatron's `galvatron_config_*.json` (`pp_deg`, `tp_sizes_enc`, `dp_types_enc`, ...);
DTensor's placements as `{parameter: ["Shard(0)", "Replicate()"]}`, perhaps under `placements` with
`mesh` beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from importers.errors import ModelError

MOST_BYTES = 64 * 2**20
_DEGREES = re.compile(
    r"\s*(?:[a-z][a-z0-9]*\s*(?:=\s*\d+)?\s*,\s*)*[a-z][a-z0-9]*\s*(?:=\s*\d+)?\s*"
)
_ARGUMENT = re.compile(r"--([a-z][a-z0-9-]*)(?:[ =]+([^\s\\-][^\s\\]*))?")
_PLACEMENT = re.compile(r"(?:S|Shard)\((?:dim=)?(\d{1,2})\)|R|Replicate(?:\(\))?")
_MEGATRON = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "data_parallel_size": "dp",
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "zero3": "zero3",
}
_CHUNKS = "num_virtual_stages_per_pipeline_rank"
_CONTEXT, _EXCHANGE = "context_parallel_size", "cp_comm_type"
_EXCHANGES = ("p2p", "allgather", "all_gather", "a2a")
"""How parts of the context meet for attention: round a ring (Megatron-LM's own default), gathered,
or by heads in place of tokens."""
_LAYOUT = "pipeline_model_parallel_layout"
_ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
_STRATEGY = "data_parallel_sharding_strategy"
_STRATEGIES = ("no_shard", "optim", "optim_grads", "optim_grads_params")
"""By the stage of ZeRO."""
_MEGATRON_LEFT = {"expert_model_parallel_size": "expert parallelism"}


@dataclass(frozen=True, slots=True)
class ForeignPlan:
    """What another tool's plan says, in terms that any model has."""

    form: str
    """`Megatron`, `Galvatron` or `DTensor`."""
    degrees: tuple[tuple[str, int], ...] = ()
    """Of the whole model: `tp`, `dp`, `pp`, `zero3`."""
    layers: tuple[tuple[tuple[str, int], ...], ...] = ()
    """Degrees of each layer."""
    placements: tuple[tuple[str, tuple[int | None, ...]], ...] = ()
    """Of each parameter: for every mesh dimension the dimension that it splits, or None."""
    mesh: tuple[int, ...] = ()
    """Sizes of the mesh dimensions; empty if the file does not say."""
    left_out: tuple[str, ...] = ()
    """What it says that is not taken over."""
    global_batch: int = 0
    """Samples of a step; 0 if it does not say."""
    micro_batch: int = 0
    """Samples of a micro-batch on each replica; 0 if it does not say."""
    micro_batches: int = 0
    """Of a step; 0 if it does not say."""
    chunks: int = 1
    """Of every stage that take turns."""
    sequence_parallel: bool = False
    """Activations between products are cut along the tokens."""
    zero: int = 0
    """Stage of ZeRO of all parameters, where it says one below 3."""
    context: int = 1
    """Parts into which tokens are cut beside what the batch is cut into."""
    ring: bool = False
    """For attention keys and values go round between these parts."""
    heads: int = 1
    """Parts into which tokens are cut, and for attention heads in their place (Ulysses)."""
    by_heads: bool = False
    """The degrees `tp` of layers are such parts, and weights are whole."""
    division: tuple[int, ...] = ()
    """Layers of each stage; empty if it does not say."""
    ends: tuple[int, ...] = ()
    """Layers of the first and the last stage, where the others have equally many."""
    recompute: str = "auto"
    """`full` where every layer is computed again."""
    vocabulary: int = 0
    """Ways in which the product with the vocabulary is cut; 0 if it does not say."""


def is_degrees(text: str) -> bool:
    """Whether a text is degrees such as `tp=8,dp=2`.

    >>> is_degrees("tp=8,dp=2"), is_degrees("strategy.ckpt")
    (True, False)
    """
    return "=" in text and bool(_DEGREES.fullmatch(text))


def read_foreign(text: str, where: str) -> ForeignPlan | None:
    """The plan in a text; None if it is none of these forms.

    Args:
        text: of a file.
        where: its name, for errors.

    Raises:
        ModelError: it is one of them, with faults.
    """
    if len(text) > MOST_BYTES:
        raise ModelError(f"{where} is larger than {MOST_BYTES} bytes", where, "is it a plan?")
    if not text.lstrip().startswith("{"):
        found = {name: value or "1" for name, value in _ARGUMENT.findall(text)}
        named = {name.replace("-", "_"): value for name, value in found.items()}
        return _megatron(named, where) if named.keys() & _MEGATRON.keys() else None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    if "tp_sizes_enc" in data:
        return _galvatron(data, where)
    if data and all(isinstance(k, str) for k in data) and data.keys() & _MEGATRON.keys():
        return _megatron(data, where)
    if "placements" in data:
        return _dtensor(_placed(data["placements"], where), data.get("mesh"), where)
    return _dtensor(data, None, where) if data and all(map(_is_placed, data.values())) else None


def _megatron(data: Mapping[str, object], where: str) -> ForeignPlan:
    degrees: dict[str, int] = {}
    for name, key in _MEGATRON.items():
        if name in data:
            value = _number(data[name], f"{where}: {name}")
            if key != "zero3" or value:
                degrees[key] = value
    if degrees.get("pp") == 1:
        del degrees["pp"]
    zero = _megatron_zero(data, where)
    if zero == len(_STRATEGIES) - 1:
        degrees["zero3"] = 1
    left = [what for name, what in _MEGATRON_LEFT.items() if _is_on(name, data.get(name))]
    parts = _number(data.get(_CONTEXT, 1), f"{where}: {_CONTEXT}")
    exchange = _exchange(data.get(_EXCHANGE, "p2p"), f"{where}: {_EXCHANGE}")
    return ForeignPlan(
        "Megatron",
        tuple(degrees.items()),
        left_out=tuple(left),
        global_batch=_number(data.get("global_batch_size", 0), f"{where}: global_batch_size"),
        micro_batch=_number(data.get("micro_batch_size", 0), f"{where}: micro_batch_size"),
        **{
            "chunks": _number(data.get(_CHUNKS, 1), f"{where}: {_CHUNKS}"),
            **_megatron_stages(data, degrees.get("pp", 1), where),
        },
        context=1 if exchange == "a2a" else parts,
        heads=parts if exchange == "a2a" else 1,
        ring=parts > 1 and exchange == "p2p",
        sequence_parallel=_is_on("sequence_parallel", data.get("sequence_parallel")),
        zero=zero % (len(_STRATEGIES) - 1),
        recompute="full" if data.get("recompute_granularity") == "full" else "auto",
    )


def _megatron_zero(data: Mapping[str, object], where: str) -> int:
    """The stage of ZeRO: that of Megatron-FSDP, or of the distributed optimizer, Muon's or not."""
    if not _is_on("use_megatron_fsdp", data.get("use_megatron_fsdp")):
        return int(data.get("optimizer") == "dist_muon") or int(
            _is_on("use_distributed_optimizer", data.get("use_distributed_optimizer"))
        )
    found = str(data.get(_STRATEGY, _STRATEGIES[-1]))
    if found not in _STRATEGIES:
        fix = f"use one of {', '.join(_STRATEGIES)}"
        raise ModelError(f"{found[:80]!r} is no sharding strategy", f"{where}: {_STRATEGY}", fix)
    return _STRATEGIES.index(found)


def _megatron_stages(data: Mapping[str, object], stages: int, where: str) -> dict[str, Any]:
    """The fields that tell which layers a stage has, where it is not told by their number alone."""
    text = data.get(_LAYOUT)
    if text is not None:
        counts = tuple(stage.count("t") for stage in _unrolled(str(text), where).split("|"))
        if len(counts) % stages:
            what = f"{len(counts)} parts are no {stages} stages"
            raise ModelError(what, f"{where}: {_LAYOUT}", "give every stage its part")
        return {"division": counts, "chunks": len(counts) // stages}
    if any(name in data for name in _ENDS) and stages > 1:
        return {"ends": tuple(_number(data.get(n, 0), f"{where}: {n}") for n in _ENDS)}
    return {}


def _unrolled(text: str, where: str) -> str:
    """A layout such as `E(t|)*3tL` without its multiplications."""
    text = text.replace(",", "")
    for pattern in (r"\(([^()]{1,999})\)\*(\d{1,3})", r"([^()*])\*(\d{1,3})"):
        text = re.sub(pattern, lambda found: found[1] * int(found[2]), text)
    if not re.fullmatch(r"[EtmL|]{1,99999}", text):
        what = f"{text[:80]!r} is no layout of stages"
        raise ModelError(what, f"{where}: {_LAYOUT}", "write such as Ett|tt|ttL")
    return text


def _exchange(value: object, where: str) -> str:
    found = {str(each) for each in _listed(value)}
    if len(found) == 1 and found <= {*_EXCHANGES}:
        return found.pop()
    raise ModelError(
        f"{', '.join(sorted(found))} is no way to exchange the context that plans have", where,
        f"use one of {', '.join(_EXCHANGES)}, for all layers",
    )  # fmt: skip


def _is_on(name: str, value: object) -> bool:
    """Whether an option says anything: a degree of 1 does not, a switch of 1 does."""
    off = {"0", "False", "false", "None", ""} | ({"1"} if name in _SIZES else set())
    return bool(set(map(str, _listed(value))) - off)


_SIZES = {"context_parallel_size", "expert_model_parallel_size", "cp_sizes_enc", "vtp"}


def _galvatron(data: Mapping[str, object], where: str) -> ForeignPlan:
    """One entry for each layer; what is 1 in `dp_types_enc` is sharded as FSDP does.

    Source: Hetu-Galvatron, `galvatron/utils/strategy_utils.py`, config2strategy.
    """
    sizes = _numbers(data.get("tp_sizes_enc"), f"{where}: tp_sizes_enc")
    sharded = _numbers(data.get("dp_types_enc", [0] * len(sizes)), f"{where}: dp_types_enc")
    if len(sharded) != len(sizes) or not sizes:
        raise ModelError(
            f"{len(sizes)} degrees and {len(sharded)} kinds of data parallelism",
            f"{where}: dp_types_enc", "give one of each for every layer",
        )  # fmt: skip
    stages = _number(data.get("pp_deg", 1), f"{where}: pp_deg")
    every = data.get("default_dp_type") == "zero3"
    layers = tuple(
        (("tp", size), *((("zero3", 1),) if kind or every else ()))
        for size, kind in zip(sizes, sharded, strict=True)
    )
    again = _numbers(data.get("checkpoint", []), f"{where}: checkpoint")
    left = ["checkpoint (recomputed layers)"] if any(again) and not all(again) else []
    second = data.get("default_dp_type") == "zero2"
    if second and any(sharded):
        left.append("default_dp_type zero2 (gradients and optimizer state apart from weights)")
    degrees = (("pp", stages),) if stages > 1 else ()
    return ForeignPlan(
        "Galvatron",
        degrees,
        layers,
        left_out=tuple(left),
        global_batch=_number(data.get("global_bsz", 0), f"{where}: global_bsz"),
        micro_batches=_number(data.get("chunks", 0), f"{where}: chunks"),
        zero=2 if second and not any(sharded) else 0,
        vocabulary=_number(data.get("vtp", 0), f"{where}: vtp"),
        context=_alike(data, "cp_sizes_enc", 1, where),
        by_heads=bool(_alike(data, "use_sp", 0, where)),
        division=_division(data, stages, len(sizes), where),
        recompute="full" if again and all(again) else "auto",
    )


def _alike(data: Mapping[str, object], name: str, usual: int, where: str) -> int:
    """What all layers have of something."""
    found = set(_numbers(data.get(name), f"{where}: {name}")) or {usual}
    if len(found) > 1:
        raise ModelError(
            f"layers have {' and '.join(map(str, sorted(found)))}, plans the same for all of them",
            f"{where}: {name}", "give all layers the same",
        )  # fmt: skip
    return found.pop()


def _division(
    data: Mapping[str, object], stages: int, layers: int, where: str
) -> tuple[int, ...]:  # fmt: skip
    """Layers of each stage."""
    found = tuple(_numbers(data.get("pp_division"), f"{where}: pp_division"))
    if found and (len(found) != stages or sum(found) != layers or not all(found)):
        raise ModelError(
            f"{'/'.join(map(str, found))} are no {stages} stages of {layers} layers",
            f"{where}: pp_division", "give every stage its layers, all of them together",
        )  # fmt: skip
    return found if stages > 1 else ()


def _is_placed(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, str) and _PLACEMENT.fullmatch(each.replace(" ", "")) for each in value
    )


def _placed(placements: object, where: str) -> Mapping[str, list[str]]:
    """Placements of parameters; an error names one that is none."""
    fix = 'write {"placements": {NAME: ["Shard(0)", "Replicate()"]}}'
    if not isinstance(placements, dict) or not placements:
        raise ModelError("the placements are no object of names", f"{where}: placements", fix)
    for name, value in placements.items():
        if not _is_placed(value):
            told = f"{json.dumps(value)[:80]} are no placements of a parameter"
            raise ModelError(told, f"{where}: {name[:80]}", fix)
    return placements


def _dtensor(placements: Mapping[str, list[str]], mesh: object, where: str) -> ForeignPlan:
    counts = {len(each) for each in placements.values()}
    if len(counts) != 1 or not counts - {0}:
        raise ModelError(
            f"parameters have {' and '.join(map(str, sorted(counts)))} placements", where,
            "give every parameter one placement for each dimension of the mesh",
        )  # fmt: skip
    sizes: tuple[int, ...] = ()
    if mesh is not None:
        own = list(mesh.values()) if isinstance(mesh, dict) else mesh
        sizes = tuple(_numbers(own, f"{where}: mesh"))
        if len(sizes) not in counts:
            raise ModelError(
                f"the mesh has {len(sizes)} dimensions, the placements {counts.pop()}",
                f"{where}: mesh", "give every mesh dimension its size",
            )  # fmt: skip
    return ForeignPlan(
        "DTensor",
        placements=tuple((name, tuple(map(_split, each))) for name, each in placements.items()),
        mesh=sizes,
    )


def _split(text: str) -> int | None:
    found = _PLACEMENT.fullmatch(text.replace(" ", ""))
    return int(found[1]) if found and found[1] is not None else None


def _listed(value: object) -> Sequence[object]:
    if isinstance(value, str):
        return value.split(",")
    return value if isinstance(value, list) else [] if value is None else [value]


def _numbers(value: object, where: str) -> list[int]:
    """Numbers of a list, or of text with commas, as Galvatron writes them."""
    return [_number(each, where) for each in _listed(value)]


def _number(value: object, where: str) -> int:
    text = str(int(value)) if isinstance(value, bool) else str(value).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise ModelError(f"{value!r} is no degree", where, "give a number of 1 or more")
    return int(text)
