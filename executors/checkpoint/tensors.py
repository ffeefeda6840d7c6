"""The tensors of a checkpoint as wholes: what their slices in the files make together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from executors.checkpoint.entries import Place
from executors.checkpoint.errors import CheckpointError, some
from executors.checkpoint.expanded import fitted
from executors.checkpoint.source import Source
from ir.slicing import Box, Grid, Slices, Slicing, box_dims, replicated_slices, sliced

_MOST_PARTS = 24
"""Of a dotted name, so that a hostile one costs little."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceTensor:
    """One tensor that lies in slices."""

    name: str
    dtype: str
    slices: Slices
    places: tuple[Place, ...]
    """For each box of the slices where one copy of it lies."""
    parameter: str = ""
    """The parameter whose layout it has: itself, or that of an optimizer state; empty for what is
    not sliced at all.
    """

    @property
    def dims(self) -> tuple[int, ...]:
        return self.slices.dims


def source_tensors(source: Source, slicing: Slicing) -> dict[str, SourceTensor]:
    """Every tensor of a checkpoint, by name.

    Raises:
        CheckpointError: files and slicing do not fit, or a slice is in no file.
    """
    if source.chunked:
        return _chunked(source, slicing)
    _check_ranks(source, slicing)
    missing = [n for n in slicing.grids if n not in set(source.names)]
    if missing and len(missing) == len(slicing.grids):
        what = f"no file has a tensor that {slicing.origin} names, such as {some(missing)}"
        fix = "pass the layout of this checkpoint, or --names if its tensors have other names"
        raise CheckpointError(what, str(source.path), fix)
    return {name: _tensor(name, source, slicing) for name in source.names}


def _chunked(source: Source, slicing: Slicing) -> dict[str, SourceTensor]:
    """Tensors of a checkpoint that says itself how they lie; each box has a rank of its own."""
    if slicing.grids:
        what, fix = "this checkpoint says itself how its tensors lie", "leave --from out"
        raise CheckpointError(what, str(source.path), fix)
    out = {}
    for name, found in source.chunked.items():
        ranks = tuple((index,) for index in range(len(found.boxes)))
        slices = Slices(found.dims, found.boxes, ranks)
        out[name] = SourceTensor(name, found.dtype, slices, found.places)
    return out


def parameter_of(name: str, known: Mapping[str, object]) -> str:
    """The parameter that a name speaks of: its own, or the longest run of its parts that is one.

    >>> parameter_of("moment1.fc.weight", {"fc.weight": 0}), parameter_of("step", {"fc": 0})
    ('fc.weight', '')
    """
    if name in known:
        return name
    parts = name.split(".")
    if len(parts) > _MOST_PARTS:
        return ""
    for length in range(len(parts) - 1, 0, -1):
        for first in range(len(parts) - length + 1):
            found = ".".join(parts[first : first + length])
            if found in known:
                return found
    return ""


def _check_ranks(source: Source, slicing: Slicing) -> None:
    foreign = [rank for rank in source.places if rank >= slicing.ranks]
    if foreign:
        what = f"files of rank {foreign[0]} for a layout on {slicing.ranks} ranks"
        fix = f"pass the layout of this checkpoint with --from; {slicing.origin} is another one"
        if slicing.ranks == 1 and not slicing.grids:
            fix = "say with --from how the tensors are sliced: a plan.json or a strategy file"
        raise CheckpointError(what, str(source.path), fix)


def _tensor(name: str, source: Source, slicing: Slicing) -> SourceTensor:
    held = {rank: places[name] for rank, places in source.places.items() if name in places}
    dtypes = sorted({place.entry.dtype for place in held.values()})
    if len(dtypes) > 1:
        what = f"tensor {name!r} has elements of {' and '.join(dtypes)}"
        raise CheckpointError(what, str(source.path), "save the checkpoint again")
    parameter = _followed(name, held, source, slicing)
    if not parameter:
        return _unsliced(name, dtypes[0], held, slicing)
    one = next(iter(held.values())).entry.dims
    layout = slicing if name == parameter else slicing.of_states()
    known, grids = fitted(layout, parameter, one, slices=True)
    dims = known or _whole_dims(name, grids, held, slicing)
    slices = sliced(dims, grids)
    places = tuple(
        _copy(name, box, ranks, held, slicing)
        for box, ranks in zip(slices.boxes, slices.ranks, strict=True)
    )
    return SourceTensor(name, dtypes[0], slices, places, parameter)


def _followed(name: str, held: Mapping[int, Place], source: Source, slicing: Slicing) -> str:
    """The parameter whose layout a tensor has, if any: a state has slices of the same dims."""
    parameter = parameter_of(name, slicing.grids)
    if parameter in {"", name}:
        return parameter
    rank, place = next(iter(held.items()))
    whole = source.places[rank].get(parameter)
    if whole and whole.entry.dims == place.entry.dims and parameter not in slicing.states:
        return parameter
    return parameter if place.entry.dims == _state_dims(slicing, parameter, rank) else ""


def _state_dims(slicing: Slicing, parameter: str, rank: int) -> tuple[int, ...] | None:
    """Dims of what a rank keeps of the states of a parameter, where these lie by themselves."""
    grids = [grid for grid in slicing.states.get(parameter, ()) if rank in grid.ranks]
    dims = slicing.dims.get(parameter)
    return box_dims(grids[0].box(rank, dims)) if grids and dims is not None else None


def _unsliced(name: str, dtype: str, held: Mapping[int, Place], slicing: Slicing) -> SourceTensor:
    """What no layout names: a counter, a learning rate; every rank that has it keeps it whole."""
    rank, place = next(iter(held.items()))
    odd = [(r, p) for r, p in held.items() if p.entry.dims != place.entry.dims]
    if odd:
        what = f"tensor {name!r} is in no layout, and its dims differ: "
        what += f"{list(place.entry.dims)} on rank {rank}, {list(odd[0][1].entry.dims)}"
        fix = f"name its layout in {slicing.origin}, or leave it out with --weights-only"
        raise CheckpointError(what, f"rank {odd[0][0]}: {odd[0][1].file.path}", fix)
    slices = replicated_slices(place.entry.dims, tuple(held))
    return SourceTensor(name, dtype, slices, (place,))


def _whole_dims(
    name: str, grids: Sequence[Grid], held: Mapping[int, Place], slicing: Slicing
) -> tuple[int, ...]:
    """Dims that slices of one size make together."""
    for grid in grids:
        for rank in grid.ranks:
            if rank in held:
                dims = held[rank].entry.dims
                if len(dims) != len(grid.counts):
                    raise _misfit(name, held[rank], rank, f"{len(grid.counts)} dims", slicing)
                return tuple(d * n for d, n in zip(dims, grid.counts, strict=True))
    raise _absent(name, grids[0].ranks[0], slicing)


def _copy(
    name: str, box: Box, ranks: Sequence[int], held: Mapping[int, Place], slicing: Slicing
) -> Place:
    """Where a slice lies: in the file of the first rank that has it. All must have its dims."""
    dims = box_dims(box)
    found = [(rank, held[rank]) for rank in ranks if rank in held]
    for rank, place in found:
        if place.entry.dims != dims:
            raise _misfit(name, place, rank, f"dims {list(dims)}", slicing)
    if not found and 0 not in dims:
        raise _absent(name, ranks[0], slicing)
    return found[0][1] if found else next(iter(held.values()))


def _misfit(name: str, place: Place, rank: int, wanted: str, slicing: Slicing) -> CheckpointError:
    what = f"the slice of {name!r} has dims {list(place.entry.dims)}, not {wanted} as by "
    fix = "pass the layout with which this checkpoint was saved"
    return CheckpointError(what + slicing.origin, f"rank {rank}: {place.file.path}", fix)


def _absent(name: str, rank: int, slicing: Slicing) -> CheckpointError:
    what = f"a slice of {name!r} is in no file: that of rank {rank}"
    fix = "copy the files of that rank too, or pass the layout of this checkpoint"
    return CheckpointError(what, f"layout of {slicing.origin}", fix)
