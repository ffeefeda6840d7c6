"""Layers of stages and chunks: as recipes say them, and as a layout has them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np

from costmodel.training.records import TrainingLayout, TrainingModel
from costmodel.training.stage_split import stage_layers
from ir.recipes.quantities import Value

__all__ = [
    "chunks_of_parts", "conventional_stages", "split_quantities", "stated_stages", "usual_ends",
]  # fmt: skip


def conventional_stages(model: TrainingModel, layout: TrainingLayout) -> tuple[int, ...]:
    """Layers of each stage, one by one, where a layout leaves them to the usual split.

    >>> from costmodel.training.records import TrainingLayout, TrainingModel
    >>> small = TrainingModel("small", 64, 10, 4, 4, 16, 256, 512)
    >>> conventional_stages(small, TrainingLayout(8, 1, 64, pp=4))
    (2, 3, 3, 2)
    """
    if layout.stage_layers:
        return layout.stage_layers
    if layout.pp == 1:
        return (model.layers,)
    sizes = (
        np.array([float(size)]) for size in (model.layers, layout.pp, layout.vpp, model.further)
    )
    first, last, _ = (int(size[0]) for size in stage_layers(*sizes))
    rest, inner = model.layers - first - last, layout.pp - 2
    if not inner:
        return (model.layers - last, last)
    bounds = [rest * i // inner for i in range(inner + 1)]
    return (first, *(b - a for a, b in pairwise(bounds)), last)


def usual_ends(model: TrainingModel, layout: TrainingLayout) -> tuple[int, int, int]:
    """Layers of the first, the last and the fullest stage by the usual split."""
    found = conventional_stages(model, replace(layout, stage_layers=()))
    return found[0], found[-1], max(found)


def stated_stages(
    values: Mapping[str, Value], layers: int, pp: int, vpp: int
) -> tuple[tuple[int, ...], str]:
    """Layers of each stage as a recipe says them, and what is wrong with them."""
    found = tuple(_by_setting(values, layers, pp, vpp))
    if not found or pp == 1:
        return (), ""
    if len(found) != pp or sum(found) != layers or min(found) < 0:
        shown = "/".join(map(str, found))
        return (), f"stages of {shown} layers are not {pp} of {layers} together: taken as even"
    ends = (found[0], found[-1], max(found))
    usual = _usual_ends(layers, pp, vpp)
    return (() if ends == usual else found), ""


def _by_setting(values: Mapping[str, Value], layers: int, pp: int, vpp: int) -> Iterator[int]:
    chunks, stages, offsets = (
        values.get(name) for name in ("chunk_layers", "stage_layers", "offsets")
    )
    first, last = values.get("first_layers"), values.get("last_layers")
    if isinstance(chunks, tuple):
        if len(chunks) == pp * vpp:
            yield from (sum(chunks[stage::pp]) for stage in range(pp))
    elif isinstance(stages, tuple):
        yield from stages
    elif isinstance(offsets, tuple) and len(offsets) == pp:
        yield from (layers // pp + each for each in offsets)
    elif isinstance(first, Fraction) or isinstance(last, Fraction):
        ends = [each if isinstance(each, Fraction) else None for each in (first, last)]
        inner = pp - sum(each is not None for each in ends)
        rest = layers - sum(int(each) for each in ends if each is not None)
        each = rest // inner if inner else 0
        yield from (
            *([int(ends[0])] if ends[0] is not None else []), *([each] * inner),
            *([int(ends[1])] if ends[1] is not None else []),
        )  # fmt: skip
    elif "first_less" in values and pp > 1:
        yield from _weighted(values, layers, pp, vpp)
    elif "yes" in {values.get("first_counts"), values.get("last_counts")}:
        ahead, behind = (int(values.get(n) == "yes") for n in ("first_counts", "last_counts"))
        each = (layers + ahead + behind) // pp
        yield from (each - ahead, *([each] * (pp - 2)), each - behind)


def _weighted(values: Mapping[str, Value], layers: int, pp: int, vpp: int) -> Iterator[int]:
    """Split as torchtitan does: the ends count as so many layers.

    Source: torchtitan, `generate_llm_fqn_per_model_part`.
    """
    ahead, behind = (
        int(v) if isinstance(v := values.get(n), Fraction) else 1
        for n in ("first_less", "last_less")
    )
    parts = pp * vpp
    each, more = divmod(layers + ahead + behind, parts)
    sizes = [each + (part < more) for part in range(parts)]
    sizes[0] -= ahead
    sizes[-1] -= behind
    yield from (sum(sizes[stage::pp]) for stage in range(pp))


def chunks_of_parts(values: Mapping[str, Value], layers: int, pp: int, usual: int) -> int:
    """Chunks of a stage, from the layers of each part."""
    names = ("parts_size", "first_less", "last_less")
    stated = [values.get(name) for name in names]
    size, *ends = (v if isinstance(v, Fraction) else Fraction(0) for v in stated)
    parts = math.ceil((layers + sum(ends)) / size) if size else 0
    return parts // pp if size and parts % pp == 0 else usual


def _usual_ends(layers: int, pp: int, vpp: int) -> tuple[int, int, int]:
    sizes = (np.array([float(size)]) for size in (layers, pp, vpp, 0))
    first, last, most = (int(size[0]) for size in stage_layers(*sizes))
    return first, last, most


def split_quantities(layout: TrainingLayout, model: TrainingModel) -> dict[str, Value]:
    """Layers of chunks and stages, where they are not all equal."""
    if layout.pp == 1 or (
        not layout.stage_layers and model.layers % (layout.pp * layout.vpp) == 0
        and not model.further
    ):  # fmt: skip
        size = Fraction(model.layers, layout.pp * layout.vpp)
        return {"parts_size": size, "first_less": Fraction(0), "last_less": Fraction(0)}
    stages = conventional_stages(model, layout)
    columns = [_chunks(n, layout.vpp, at_end=i < layout.pp - 1) for i, n in enumerate(stages)]
    chunks = tuple(column[chunk] for chunk in range(layout.vpp) for column in columns)
    offsets = tuple(n - model.layers // layout.pp for n in stages)
    return {"chunk_layers": chunks, "stage_layers": stages, "offsets": offsets}


def _chunks(layers: int, parts: int, *, at_end: bool) -> list[int]:
    """Layers of the chunks of one stage; what is over goes to its last ones, or its first ones."""
    bounds = list(accumulate(layers // parts + (p < layers % parts) for p in range(parts)))
    sizes = [b - a for a, b in pairwise([0, *bounds])]
    return sizes[::-1] if at_end else sizes
