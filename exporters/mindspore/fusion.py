"""MindSpore's `comm_fusion`: which collectives of parameters are sent together.

Source: MindSpore 2.10.0, `parallel/_auto_parallel_context.py`: three kinds of collectives, each
with a mode, `auto` (64 MB) or `size` (in MB), and `index` for all-reduce alone: the gradients up to
and including each index make a segment.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporters.settings import fault
from ir.dtypes import dtype_bytes
from ir.plan import Plan, PlannedTensor
from ir.plan_enums import Cause

__all__ = ["AUTO_MB", "Fusion", "index_splits", "message_bytes", "parse_fusions", "segments"]
__all__ += ["slice_bytes"]

AUTO_MB = 64
"""MindSpore's threshold in the mode `auto`."""
_KINDS = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
KINDS = tuple(_KINDS)
_CAUSES = frozenset({Cause.GRADIENT_SYNC, Cause.PARAMETER_GATHER})
"""Of the collectives that `comm_fusion` fuses: those of parameters."""
_NAME = "comm_fusion"
_FIX = (
    "write such as allreduce=auto, allreduce=size:32, allreduce=index:20,35, allgather=auto, or off"
)


@dataclass(frozen=True, slots=True)
class Fusion:
    """How the collectives of one kind are fused."""

    kind: str
    """`allreduce`, `allgather` or `reducescatter`."""
    mode: str
    """`auto`, `size` or `index`."""
    config: int | tuple[int, ...] | None = None
    """Megabytes for `size`; for `index` the last gradient of each segment but the last."""

    @property
    def entry(self) -> dict[str, object]:
        """The value that MindSpore takes for the kind."""
        config = list(self.config) if isinstance(self.config, tuple) else self.config
        return {"mode": self.mode, "config": config}


def parse_fusions(text: str, plan: Plan) -> tuple[Fusion, ...] | None:
    """The fusions in a text; none for `off`, which fuses nothing.

    `allreduce=index` without indices takes those after which a segment of the plan's gradients
    holds 64 MB.

    Raises:
        ExportError: the text is none of this.
    """
    if text == "off":
        return None
    found: dict[str, Fusion] = {}
    for item in re.split(r"[;\s]+", text.strip("; ")):
        each = _fusion(item, plan)
        if each.kind in found:
            raise fault(f"{each.kind} stands twice", _NAME, "give every kind one mode")
        found[each.kind] = each
    return tuple(found.values())


def _fusion(item: str, plan: Plan) -> Fusion:
    kind, _, rest = item.partition("=")
    mode, colon, value = rest.partition(":")
    if kind not in KINDS or mode not in {"auto", "size", "index"} or (colon and not value):
        raise fault(f"{item[:80]!r} is no fusion", _NAME, _FIX)
    if mode == "auto":
        if value:
            raise fault("the mode auto takes no number", _NAME, "leave it out, or write size")
        return Fusion(kind, mode)
    if mode == "size":
        if not re.fullmatch(r"[1-9]\d{0,5}", value, re.ASCII):
            raise fault(f"{value[:80]!r} is no size in MB", _NAME, "give such as size:32")
        return Fusion(kind, mode, int(value))
    return Fusion(kind, mode, _indices(kind, value, plan))


def _indices(kind: str, value: str, plan: Plan) -> tuple[int, ...]:
    if kind != "allreduce":
        raise fault(f"{kind} has no mode index", _NAME, "use auto or size, or allreduce=index")
    sizes = [slice_bytes(each, plan) for each in plan.parameters]
    if not value:
        return index_splits(sizes, AUTO_MB * 2**20)
    if not re.fullmatch(r"\d{1,7}(,\d{1,7})*", value, re.ASCII):
        raise fault(f"{value[:80]!r} are no indices", _NAME, "give such as index:20,35")
    found = tuple(int(part) for part in value.split(","))
    if any(b <= a for a, b in itertools.pairwise(found)) or found[0] < 1:
        raise fault("the indices do not ascend from 1 on", _NAME, "give such as index:20,35")
    if found[-1] >= len(sizes):
        what = f"index {found[-1]} of {len(sizes)} parameters, which are numbered from 0"
        raise fault(what, _NAME, f"give at most {len(sizes) - 1}")
    return found


def index_splits(sizes: Sequence[float], threshold_bytes: float) -> tuple[int, ...]:
    """The last index of each segment that holds so many bytes, but for the last segment.

    The first may not be 0: MindSpore refuses it.

    >>> index_splits([40.0, 40.0, 9.0, 70.0, 1.0], 64)
    (1, 3)
    """
    out: list[int] = []
    held = 0.0
    for index, size in enumerate(sizes[:-1]):
        held += size
        if held >= threshold_bytes and index > 0:
            out.append(index)
            held = 0.0
    return tuple(out)


def segments(count: int, splits: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """First and last gradient of each segment.

    >>> segments(40, (20, 35))
    ((0, 20), (21, 35), (36, 39))
    """
    ends = [*splits, *([count - 1] if not splits or splits[-1] < count - 1 else [])]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return tuple(zip(starts, ends, strict=True))


def message_bytes(plan: Plan, fusion: Fusion) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bytes of the plan's collectives of parameters of one kind, alone and fused.

    Those of one group are fused, the last parameter's first, as the backward pass has them; a
    message takes some until it holds the threshold or more.
    """
    place = {tensor.name: i for i, tensor in enumerate(plan.parameters)}
    groups: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for item in plan.collectives:
        if item.kind == _KINDS[fusion.kind] and item.cause in _CAUSES and item.tensor in place:
            groups.setdefault(item.axes, []).append((place[item.tensor], item.nbytes))
    alone = tuple(nbytes for own in groups.values() for _, nbytes in own)
    return alone, tuple(size for own in groups.values() for size in _fused(own, fusion))


def _fused(items: Sequence[tuple[int, float]], fusion: Fusion) -> Iterator[float]:
    """Bytes of the messages that collectives at some places become."""
    if isinstance(fusion.config, tuple):
        for first, last in segments(max(place for place, _ in items) + 1, fusion.config):
            held = [nbytes for place, nbytes in items if first <= place <= last]
            if held:
                yield sum(held)
        return
    threshold = (fusion.config or AUTO_MB) * 2**20
    total = 0.0
    for _, nbytes in sorted(items, reverse=True):
        total += nbytes
        if total >= threshold:
            yield total
            total = 0.0
    if total:
        yield total


def slice_bytes(tensor: PlannedTensor, plan: Plan) -> float:
    """Bytes of the part of a parameter that one device uses, which are those of its gradient."""
    pieces = math.prod((tensor.used or tensor.layout).shards(plan.axis_sizes))
    return math.prod(tensor.dims) * dtype_bytes(tensor.dtype) / pieces
