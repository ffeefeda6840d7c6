"""A plan for torch: a DeviceMesh and DTensor placements, as JSON or as a Python module."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template

import numpy as np
import numpy.typing as npt

from exporters.errors import ExportError, StrategyFileError
from exporters.python_tables import table, text_tuple
from exporters.sharding import (
    Sharding,
    counted,
    is_uneven,
    module_tables,
    name_losses,
    operand_layouts,
    recompute_losses,
    result_layouts,
    sharding_of,
)
from exporters.sharding_json import (
    REPAIR,
    LayoutRecord,
    from_document,
    read_document,
    to_text,
)
from exporters.stages import one_stage, stage_losses, stages_json, step_lines
from exporters.torch_module import MODULE
from ir.ops import Engine, lookup
from ir.plan import NamedLayout, Plan, PlannedCollective
from ir.plan_positions import cutting_positions
from ir.violations import Violation

__all__ = ["from_json", "losses", "to_json", "to_python"]

FORMAT = "parallel-plan-torch"
_SHARD = re.compile(r"Shard\((\d{1,3})\)")
_MOST_AXES = 6
"""Orders of more mesh dimensions are not tried."""


@dataclass(frozen=True, slots=True)
class _Placements:
    """Placements on a DeviceMesh of these dimensions."""

    dims: tuple[str, ...]
    axes: tuple[str, ...]
    """The same names in the order of the plan's mesh."""

    def encode(self, layout: NamedLayout) -> LayoutRecord:
        out: LayoutRecord = {"placements": list(self.of(layout)), "ndim": len(layout.dims)}
        order = {str(i): list(d) for i, d in enumerate(layout.dims) if not self.in_order(d)}
        return {**out, **({"order": order} if order else {})}

    def of(self, layout: NamedLayout) -> tuple[str, ...]:
        """One placement for each mesh dimension."""
        where = {axis: f"Shard({i})" for i, dim in enumerate(layout.dims) for axis in dim}
        where |= dict.fromkeys(layout.partial, "Partial()")
        return tuple(where.get(name, "Replicate()") for name in self.dims)

    def in_order(self, axes: Sequence[str]) -> bool:
        """Whether the axes that split one dimension stand as DTensor applies them."""
        return list(axes) == [name for name in self.dims if name in axes]

    def expresses(self, layout: NamedLayout) -> bool:
        return all(self.in_order(axes) for axes in layout.dims)

    def decode(self, record: LayoutRecord) -> NamedLayout:
        placements, ndim, order = (
            record.get(k) for k in ("placements", "ndim", "order")
        )  # fmt: skip
        if not isinstance(placements, list) or len(placements) != len(self.dims):
            raise ValueError(f"a layout has {len(self.dims)} placements")
        if type(ndim) is not int or not 0 <= ndim < 1000 or record.keys() - _KEYS:
            raise ValueError("a layout has 'placements', 'ndim', perhaps 'order', and no more")
        dims: list[list[str]] = [[] for _ in range(ndim)]
        partial = []
        for name, placement in zip(self.dims, placements, strict=True):
            shard = _SHARD.fullmatch(placement) if isinstance(placement, str) else None
            if shard and int(shard[1]) < ndim:
                dims[int(shard[1])].append(name)
            elif placement == "Partial()":
                partial.append(name)
            elif placement != "Replicate()":
                raise ValueError(f"{placement!r} is no placement of {ndim} dimensions")
        ordered = self._ordered(dims, {} if order is None else order)
        return NamedLayout(ordered, tuple(a for a in self.axes if a in partial))

    def _ordered(self, dims: Sequence[Sequence[str]], order: object) -> tuple[tuple[str, ...], ...]:
        """The axes of each dimension, in the order that stands beside the placements."""
        known = {str(i): list(d) for i, d in enumerate(dims)}
        if not isinstance(order, dict):
            raise ValueError("'order' is no object")  # noqa: TRY004  of a file, not of a caller
        for key, axes in order.items():
            if not isinstance(axes, list) or sorted(known.get(key, [])) != sorted(map(str, axes)):
                raise ValueError(f"the order {axes!r} of dimension {key} is not that of its axes")
        merged = {**known, **order}
        return tuple(tuple(merged[str(i)]) for i in range(len(dims)))


_KEYS = {"placements", "ndim", "order"}


def _codec(sharding: Sharding) -> _Placements:
    """The order of mesh dimensions that expresses most layouts, the plan's own if it is as good.

    DTensor splits a dimension by one mesh dimension after the other; FSDP over tensor parallelism
    wants the tensor axis first, which lies innermost in the machine.
    """
    axes = tuple(axis.name for axis in sharding.mesh)
    if len(axes) > _MOST_AXES:
        return _Placements(axes, axes)
    split = [d for layout in _all_layouts(sharding) for d in layout.dims if len(d) > 1]
    counts: dict[tuple[str, ...], int] = {}
    for dim in split:
        counts[dim] = counts.get(dim, 0) + 1

    def lost(dims: tuple[str, ...]) -> int:
        codec = _Placements(dims, axes)
        return sum(n for dim, n in counts.items() if not codec.in_order(dim))

    return _Placements(min(itertools.permutations(axes), key=lost), axes)


def _all_layouts(sharding: Sharding) -> Iterator[NamedLayout]:
    yield from (layout for _, _, layout in sharding.layouts())
    for op in sharding.operators:
        yield from (x for x in op.operands if x is not None)


def _expressible(plan: Plan | Sharding) -> Sharding:
    """The layouts, if torch can number the ranks so.

    A process group numbers its ranks in ascending order, and DTensor deals out shards by that
    number: torch 2.13 puts them on other devices where a mesh descends.
    """
    sharding = sharding_of(plan) if isinstance(plan, Plan) else plan
    grid = _grid(sharding)
    if not all((np.diff(grid, axis=axis) > 0).all() for axis in range(grid.ndim)):
        what = "a DeviceMesh needs ascending ranks along each of its dimensions"
        raise ExportError(Violation(what, "the plan's rank_order", "export for JAX"))
    return sharding


def _grid(sharding: Sharding) -> npt.NDArray[np.int64]:
    sizes = [axis.size for axis in sharding.mesh]
    return np.array(sharding.rank_order, dtype=np.int64).reshape(sizes)


def _ranks(sharding: Sharding, dims: Sequence[str]) -> tuple[int, ...]:
    """Ranks of the DeviceMesh, row-major over its dimensions."""
    axes = [axis.name for axis in sharding.mesh]
    return tuple(_grid(sharding).transpose([axes.index(name) for name in dims]).ravel().tolist())


def to_json(plan: Plan | Sharding) -> str:
    """Text of the JSON form.

    Raises:
        ExportError: torch cannot number the ranks as the plan does, or cut images so.
    """
    if isinstance(plan, Plan) and not plan.pipeline.is_single:
        return stages_json(plan, FORMAT, to_json, _sent)
    if isinstance(plan, Plan):
        _refuse_strips(plan)
    sharding = _expressible(plan)
    codec = _codec(sharding)
    sizes = sharding.sizes
    placed = {
        "mesh_dim_names": codec.dims,
        "mesh_shape": [sizes[name] for name in codec.dims],
        "ranks": _ranks(sharding, codec.dims),
    }
    return to_text(sharding, FORMAT, codec, placed)


def _sent(send: PlannedCollective) -> list[list[str]]:
    """The axes that cut each dimension of what goes from stage to stage."""
    return [] if send.after is None else [list(axes) for axes in send.after.dims]


def from_json(text: str) -> Sharding:
    """The layouts that the JSON form holds: all of those in the plan.

    Raises:
        StrategyFileError: the text is no such file.
    """
    document = read_document(text, FORMAT)
    axes = tuple(axis.name for axis in document.mesh)
    return from_document(document, _Placements(_mesh_dims(document.placed, axes), axes))


def losses(plan: Plan) -> tuple[str, ...]:
    """What torch does otherwise than the plan, a sentence each."""
    if not plan.pipeline.is_single:
        return stage_losses(plan, losses)
    sharding = sharding_of(plan)
    return (
        *_order_losses(sharding),
        *_uneven_losses(sharding),
        *_edge_losses(plan),
        *recompute_losses(plan, "torch.utils.checkpoint"),
        *name_losses(sharding),
    )


def _order_losses(sharding: Sharding) -> Iterator[str]:
    codec = _codec(sharding)
    lost = list(
        dict.fromkeys(p for p, _, layout in sharding.layouts() if not codec.expresses(layout))
    )
    if lost:
        yield (
            f"DTensor splits a dimension in the order of the mesh ({', '.join(codec.dims)}); the "
            f"plan does so in another order in {counted(lost, 'layouts')}: their shards lie on "
            "other devices, and what was priced to bring them there differs"
        )


def _edge_losses(plan: Plan) -> Iterator[str]:
    pools = sorted(op.name for op in cutting_positions(plan))
    if pools:
        yield f"DTensor gathers images that are cut along positions in {counted(pools, 'pools')}"


def _refuse_strips(plan: Plan) -> None:
    """Torch 2.13 takes parts of images for whole ones where a convolution reads them, silently."""
    cut = [
        op.name for op in cutting_positions(plan) if lookup(op.kind).engine is Engine.CONVOLUTION
    ]
    if cut:
        what = "DTensor convolves no images that are cut along positions"
        fix = "search without --cut-positions and such pins, or export for JAX"
        raise ExportError(Violation(what, counted(sorted(cut), "operators"), fix))


def _uneven_losses(sharding: Sharding) -> Iterator[str]:
    sizes = sharding.sizes
    lost = [
        place
        for place, dims, layout in sharding.layouts()
        if is_uneven(layout, dims, sizes) and any(len(d) > 1 for d in layout.dims)
    ]
    if lost:
        yield (
            "DTensor splits an uneven dimension axis by axis, the plan at once: shards differ "
            f"by a few elements in {counted(lost, 'layouts')}"
        )


def to_python(plan: Plan | Sharding) -> str:
    """A Python module that builds the mesh and the placements; it needs no other file.

    Raises:
        ExportError: torch cannot number the ranks as the plan does, or cut images so.
    """
    whole = plan if isinstance(plan, Plan) else None
    if whole is not None:
        plan = one_stage(whole)
        _refuse_strips(whole)
    sharding = _expressible(plan)
    codec = _codec(sharding)
    text = Template(MODULE).substitute(
        dims=text_tuple((name, sharding.sizes[name]) for name in codec.dims),
        ranks=text_tuple(_ranks(sharding, codec.dims)),
        **module_tables(sharding, codec.of),
        activations=table({name: codec.of(x) for name, x in result_layouts(sharding)}),
        operands=table({at: codec.of(x) for at, x in operand_layouts(sharding)}),
    )
    return text if whole is None else text + step_lines(whole, sharding, codec.of)


def _mesh_dims(placed: Mapping[str, object], axes: tuple[str, ...]) -> tuple[str, ...]:
    names = placed.get("mesh_dim_names")
    if not isinstance(names, list) or sorted(map(str, names)) != sorted(axes):
        what = f"the dimensions of the mesh are not {', '.join(axes)} in some order"
        raise StrategyFileError(Violation(what, "placed.mesh_dim_names", REPAIR))
    return tuple(names)
