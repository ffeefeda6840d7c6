"""Which tensors a new checkpoint has, and of which old ones each is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from executors.checkpoint.entries import raw_dtype
from executors.checkpoint.errors import CheckpointError, some
from executors.checkpoint.expanded import fitted
from executors.checkpoint.tensors import SourceTensor, parameter_of
from ir.slicing import (
    Box,
    Grid,
    Slices,
    Slicing,
    chosen_slices,
    common_box,
    replicated_slices,
    sliced,
    whole_box,
)
from ir.transfers import Need


@dataclass(frozen=True, slots=True)
class Rename:
    """One parameter under another name, turned, cut into parts or put together from parts."""

    old: tuple[str, ...]
    """Names in the source; several are parts of one target."""
    new: tuple[str, ...]
    """Names in the target; several are parts of one source."""
    transpose: bool = False
    axis: int = -1
    """Dimension of the source along which it has parts."""
    stack: bool = False
    """The parts lie along a first dimension of their own, as experts often do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the new checkpoint should be."""

    target: Slicing | None = None
    """Its layout; none for one file that holds everything whole."""
    like: tuple[int, ...] = ()
    """For each new rank the old one whose slices it gets, in place of a layout."""
    renames: tuple[Rename, ...] = ()
    ties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Names that the source lacks, each with the tensor that it equals."""
    weights_only: bool = False
    """Leave out what no layout names: optimizer states, counters."""
    dtype: str = ""
    """Element type that floating-point parameters get; empty keeps theirs."""

    @property
    def ranks(self) -> int:
        return len(self.like) or (1 if self.target is None else self.target.ranks)


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """A source tensor, or a part of one, that is a part of a target tensor."""

    tensor: SourceTensor
    at: Box
    """Where it stands in the target."""
    start: tuple[int, ...]
    """Index in the source of its first element, dimensions as in the source."""
    order: tuple[int, ...]
    """Dimension i of the target is dimension `order[i]` of the source, or none of it if that is -1.
    The source has one index in a dimension that the target lacks.
    """

    @property
    def is_turned(self) -> bool:
        """Whether dimensions change their order."""
        kept = [dim for dim in self.order if dim >= 0]
        return kept != sorted(kept)

    def in_source(self, box: Box) -> Box:
        """A box inside `at`, as the source counts."""
        out = [(first, first + 1) for first in self.start]
        for dim, (first, end), (base, _) in zip(self.order, box, self.at, strict=True):
            if dim >= 0:
                shift = self.start[dim] - base
                out[dim] = (first + shift, end + shift)
        return tuple(out)

    def as_source(self, array: NDArray[Any]) -> NDArray[Any]:
        """A view of an array of the target with the dimensions of the source."""
        lost = tuple(position for position, dim in enumerate(self.order) if dim < 0)
        kept = [dim for dim in self.order if dim >= 0]
        view = array.squeeze(lost) if lost else array
        view = view.transpose(sorted(range(len(kept)), key=kept.__getitem__)) if kept else view
        fixed = tuple(dim for dim in range(len(self.start)) if dim not in kept)
        return np.expand_dims(view, fixed) if fixed else view


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """One tensor of the new checkpoint."""

    name: str
    dtype: str
    slices: Slices
    origins: tuple[Origin, ...]
    """They tile it."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A target tensor as a whole."""

    dims: tuple[int, ...]
    origins: tuple[Origin, ...]

    @property
    def first(self) -> SourceTensor:
        return self.origins[0].tensor


_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def wanted_tensors(tensors: Mapping[str, SourceTensor], request: Request) -> tuple[Wanted, ...]:
    """The tensors of the new checkpoint, in the order of the old one.

    Raises:
        CheckpointError: the new layout wants a tensor that the source lacks, or of other dims.
    """
    made = dict(_made(tensors, request.renames))
    for name, same in request.ties.items():
        if name not in made:
            if same not in made:
                what = f"{name!r} is said to equal {same!r}, which the source lacks"
                raise CheckpointError(what, "--tie", "name a tensor of the source")
            made[name] = made[same]
    target = request.target
    if target is not None:
        absent = [name for name in target.grids if name not in made]
        if absent:
            what = f"the source has no {some(absent)}"
            fix = "pass --names if its tensors have other names, --tie if they equal others"
            raise CheckpointError(what, f"layout of {target.origin}", fix)
    plain = not (target and target.grids) and not any(t.parameter for t in tensors.values())
    out = (_wanted(name, made, request, plain=plain) for name in made)
    found = tuple(each for each in out if each is not None)
    if not found:
        raise CheckpointError("nothing is left to write", "--weights-only", "leave it out")
    return found


def _wanted(
    name: str, made: Mapping[str, _Made], request: Request, *, plain: bool
) -> Wanted | None:
    """One tensor, if a rank gets it. Where no layout is known all are parameters: `plain`."""
    each, target = made[name], request.target
    listed = target is not None and request.ties.get(name, name) in target.grids
    is_parameter = plain or listed or each.first.parameter == each.first.name
    if request.weights_only and not is_parameter:
        return None
    slices = _slices(name, made, request)
    if not slices.boxes:
        return None
    dtype = each.first.dtype
    if request.dtype and is_parameter and dtype in _FLOATS:
        dtype = request.dtype
    return Wanted(name, dtype, slices, each.origins)


def _slices(name: str, made: Mapping[str, _Made], request: Request) -> Slices:
    """How a tensor lies on the new ranks: a state as its parameter, what is unknown everywhere."""
    each, target = made[name], request.target
    everywhere = replicated_slices(each.dims, range(request.ranks))
    if request.like:
        if not each.first.parameter:
            return everywhere
        return chosen_slices(_own_slices(name, each), request.like)
    if target is None or not target.grids:
        return everywhere
    listed = name if name in target.grids else request.ties.get(name, name)
    parameter = parameter_of(listed, target.grids)
    if not parameter or made[parameter].dims != each.dims:
        return everywhere
    layout = target if listed == parameter else target.of_states()
    dims, grids = fitted(layout, parameter, each.dims, slices=False)
    known = each.dims if dims is None else dims
    if known != each.dims or len(grids[0].counts) != len(each.dims):
        what = f"{name!r} has dims {list(each.dims)} in the source"
        what += f", {list(known)} in the target" if known != each.dims else ", other ones there"
        fix = "pass the layouts of one model; `transpose: true` in a names file turns a matrix"
        raise CheckpointError(what, f"layout of {target.origin}", fix)
    if parameter not in target.dims:
        _check_even(name, each.dims, grids, target)
    return sliced(each.dims, grids)


def _check_even(name: str, dims: tuple[int, ...], grids: Sequence[Grid], target: Slicing) -> None:
    """A layout that does not know the dims, such as MindSpore's, means slices of equal size."""
    for grid in grids:
        for dim, (size, count) in enumerate(zip(dims, grid.counts, strict=True)):
            if size % count:
                what = f"dimension {dim} of {name!r} of size {size} does not split {count} ways"
                fix = "pass the layout of this model"
                raise CheckpointError(what, f"layout of {target.origin}", fix)


def _own_slices(name: str, made: _Made) -> Slices:
    """The slices of the source, for a tensor that is one of its tensors."""
    first = made.first
    if len(made.origins) > 1 or made.origins[0].order != tuple(range(len(made.dims))):
        what, fix = f"{name!r} is turned or put together", "pass a layout with --to"
        raise CheckpointError(what, "--like", fix)
    if made.dims != first.dims:
        what, fix = f"{name!r} is a part of {first.name!r}", "pass a layout with --to"
        raise CheckpointError(what, "--like", fix)
    return first.slices


def _made(
    tensors: Mapping[str, SourceTensor], renames: Sequence[Rename]
) -> Iterator[tuple[str, _Made]]:
    """Target tensors by name; states are renamed, turned and parted as their parameters are."""
    by_old = {old: rename for rename in renames for old in rename.old}
    seen: set[str] = set()
    for name, tensor in tensors.items():
        old = parameter_of(name, by_old)
        rename = by_old.get(old)
        if rename is None or (old != name and tensor.parameter not in {"", old}):
            found = [(name, _whole(tensor))]
        else:
            found = list(_renamed(name, old, rename, tensors))
        for new, made in found:
            if new in seen and not (rename is not None and len(rename.old) > 1):
                what, fix = f"two tensors would be called {new!r}", "give each its own name"
                raise CheckpointError(what, "--names", fix)
            if new not in seen:
                seen.add(new)
                yield new, made


def _whole(tensor: SourceTensor, order: tuple[int, ...] | None = None) -> _Made:
    order = order or tuple(range(len(tensor.dims)))
    dims = tuple(tensor.dims[i] for i in order)
    return _Made(dims, (Origin(tensor, whole_box(dims), (0,) * len(dims), order),))


def _renamed(
    name: str, old: str, rename: Rename, tensors: Mapping[str, SourceTensor]
) -> Iterator[tuple[str, _Made]]:
    before, _, after = name.partition(old)

    def dressed(parameter: str) -> str:
        return before + parameter + after

    if len(rename.old) > 1:
        parts = [tensors.get(dressed(part)) for part in rename.old]
        lacking = [dressed(o) for o, p in zip(rename.old, parts, strict=True) if p is None]
        if lacking:
            what = f"a part of {dressed(rename.new[0])!r} is missing: {some(lacking)}"
            raise CheckpointError(what, "--names", "mend the names file")
        found = [part for part in parts if part is not None]
        yield dressed(rename.new[0]), _joined(found, rename)
        return
    tensor = tensors[name]
    order = _order(tensor, transpose=rename.transpose)
    if len(rename.new) == 1 or not tensor.dims:
        for new in rename.new:
            yield dressed(new), _whole(tensor, order)
        return
    for index, new in enumerate(rename.new):
        yield dressed(new), _part(tensor, order, rename, index)


def _order(tensor: SourceTensor, *, transpose: bool) -> tuple[int, ...]:
    rank = len(tensor.dims)
    return (1, 0) if transpose and rank == 2 else tuple(range(rank))


def _axis(tensor: SourceTensor, rename: Rename) -> int:
    rank = len(tensor.dims)
    return rename.axis % rank if rank > 1 else 0


def _part(tensor: SourceTensor, order: tuple[int, ...], rename: Rename, index: int) -> _Made:
    axis, count = 0 if rename.stack else _axis(tensor, rename), len(rename.new)
    if rename.stack and tensor.dims[0] != count:
        what = f"{tensor.name!r} is a stack of {tensor.dims[0]}, not of {count}"
        raise CheckpointError(what, "--stack", "name as many parts")
    if tensor.dims[axis] % count:
        what = f"dimension {axis} of {tensor.name!r} has size {tensor.dims[axis]}"
        raise CheckpointError(f"{what}, which has no {count} equal parts", "--names")
    size = tensor.dims[axis] // count
    start = tuple(index * size if i == axis else 0 for i in range(len(tensor.dims)))
    lengths = tuple(size if i == axis else d for i, d in enumerate(tensor.dims))
    order = order[1:] if rename.stack else order
    dims = tuple(lengths[i] for i in order)
    return _Made(dims, (Origin(tensor, whole_box(dims), start, order),))


def _joined(parts: Sequence[SourceTensor], rename: Rename) -> _Made:
    """Parts one after another along the dimension that `axis` is in the source."""
    first = parts[0]
    if len({(p.dims, p.dtype) for p in parts}) > 1:
        names = some([part.name for part in parts])
        raise CheckpointError(f"the parts {names} differ in dims or type", "--names")
    order = _order(first, transpose=rename.transpose)
    order = (-1, *order) if rename.stack else order
    axis = -1 if rename.stack else _axis(first, rename)
    part = tuple(first.dims[i] if i >= 0 else 1 for i in order)
    dims = tuple(d * len(parts) if i == axis else d for i, d in zip(order, part, strict=True))
    origins = []
    for number, tensor in enumerate(parts):
        pairs = zip(order, part, strict=True)
        at = tuple((number * d, (number + 1) * d) if i == axis else (0, d) for i, d in pairs)
        origins.append(Origin(tensor, at, (0,) * len(first.dims), order))
    return _Made(dims, tuple(origins))


def needs(wanted: Iterable[Wanted]) -> Iterator[Need]:
    """Boxes of source tensors, each with the new ranks that must have it.

    Rank r of the new job is taken to run where rank r of the old one ran.
    """
    for each in wanted:
        for origin in each.origins:
            item_bytes = raw_dtype(origin.tensor.dtype).itemsize
            for box, ranks in zip(each.slices.boxes, each.slices.ranks, strict=True):
                shared = common_box(box, origin.at)
                if shared is not None:
                    old = origin.tensor.slices
                    yield Need(old, origin.in_source(shared), ranks, item_bytes)
