"""Changes of layout, each carried out by DTensor."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor import _redistribute as redistribution

from executors.dtensor.grid import Grid
from executors.dtensor.traffic import Log, Sent
from ir.layout import Layout

Wire = tuple[str, frozenset[int], int]
"""A collective: its kind, the axes over which it goes, and its elements on each device."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One collective of the plan on the way of a tensor."""

    kind: str
    axes: tuple[int, ...]
    before: Layout
    after: Layout
    elements: int
    """On each device, counted as the kind does."""


@dataclass(slots=True)
class Mover:
    """Redistributes DTensors, and notes where DTensor alone would go another way."""

    grid: Grid
    log: Log
    other_ways: Counter[str] = field(default_factory=Counter)
    """What DTensor alone would send, and what the plan says, with the number of tensors."""
    in_turn: int = 0
    """Collectives over several axes that DTensor sends one axis after the other."""
    own_ways: int = 0
    """How often something was sent that DTensor alone would send too."""

    def along(self, tensor: Any, hops: Sequence[Hop], end: Layout | None) -> Any:
        """A tensor that goes the way of the plan, to the layout at its end if that is given.

        Where DTensor's own way from the first layout to the last sends the same, it goes alone;
        elsewhere it is asked for one collective of the plan after the other. It is not led where it
        would send nothing: it would obey a plan that is wrong about where a tensor lies.
        """
        goal = end if end is not None else (hops[-1].after if hops else None)
        if goal is None:
            return tensor
        start = self.grid.layout_of(tensor)
        own = None if start is None else self.own_way(tensor, start, goal)
        planned = [(hop.kind, frozenset(hop.axes), hop.elements) for hop in hops]
        if own == planned:
            self.own_ways += bool(planned)
            return self.to(tensor, goal)
        if own == []:
            return self.to(tensor, goal)
        if own is not None:
            texts = self._text(own), self._text(planned)
            more = " of other sizes" if texts[0] == texts[1] else ""
            self.other_ways[f"{texts[0]}{more} instead of {texts[1]}"] += 1
        for hop in hops:
            tensor = self._hop(self.to(tensor, hop.before), hop)
        return self.to(tensor, goal)

    def own_way(self, tensor: Any, start: Layout, goal: Layout) -> list[Wire] | None:
        """What DTensor sends from one layout to another; None if it cannot go there."""
        if _turns_to_terms(start, goal):
            return None
        grid = self.grid
        old, new = (grid.spec(tensor.shape, tensor.dtype, x) for x in (start, goal))
        infos = redistribution._gen_transform_infos(old, new, None)  # noqa: SLF001
        merged = redistribution._optimize_transform_infos(  # noqa: SLF001
            infos, grid.devices, old.placements, new.placements
        )
        held = dict(zip(grid.order, old.placements, strict=True))
        out: list[Wire] = []
        for info in merged:
            axes = [grid.order[i] for i in getattr(info, "original_mesh_dims", (info.mesh_dim,))]
            before = self._elements(tensor.shape, held)
            held |= dict.fromkeys(axes, info.src_dst_placements[1])
            kind = info._comm_type_key()  # noqa: SLF001
            if kind is not None:
                after = self._elements(tensor.shape, held)
                out.append((kind, frozenset(axes), after if kind == "all_gather" else before))
        return out

    def _elements(self, dims: Sequence[int], held: Mapping[int, Any]) -> int:
        """Of the largest part of a tensor, by the placement on each axis."""
        pieces = [1] * len(dims)
        for axis, placement in held.items():
            if isinstance(placement, Shard):
                pieces[placement.dim] *= self.grid.mesh.sizes[axis]
        return math.prod(-(-d // n) for d, n in zip(dims, pieces, strict=True))

    def to(self, tensor: Any, goal: Layout) -> Any:
        """A tensor in another layout, as DTensor brings it there."""
        grid = self.grid
        start = grid.layout_of(tensor)
        if start == goal:
            return tensor
        if start is not None and _turns_to_terms(start, goal):
            tensor = self._amid_zeros(tensor, start, goal)
        local = tensor._local_tensor  # noqa: SLF001
        spec = grid.spec(tensor.shape, tensor.dtype, goal)
        moved = redistribution.redistribute_local_tensor(local, tensor._spec, spec)  # noqa: SLF001
        return grid.wrapped(_present(moved), tensor.shape, goal)

    def _amid_zeros(self, tensor: Any, start: Layout, goal: Layout) -> Any:
        """A slice amid zeros is a term of a sum."""
        fresh = {a for a in goal.partial if a in start.split_axes}
        dims = tuple(tuple(a for a in dim if a not in fresh) for dim in start.dims)
        wide = Layout(dims, tuple(sorted({*start.partial, *fresh})))
        have = self.grid.region(tensor.shape, start)
        want = self.grid.region(tensor.shape, wide)
        local = tensor._local_tensor  # noqa: SLF001
        out = local.new_zeros([len(each) for each in want])
        places: list[Any] = []
        for mine, every in zip(have, want, strict=True):
            first = int(mine[0] - every[0]) if len(mine) else 0
            places.append(slice(first, first + len(mine)))
        out[tuple(places)] = local
        return self.grid.wrapped(out, tensor.shape, wide)

    def _hop(self, tensor: Any, hop: Hop) -> Any:
        """One collective, by a DTensor on the mesh of its group: its ranks hold pieces of what
        every other rank of the large mesh has none of.
        """
        grid = self.grid
        group = grid.groups[frozenset(hop.axes)]
        ends = _on_group(hop, sorted(hop.axes))
        if ends is None:
            return self._in_turn(tensor, hop, group)
        start, goal = ends
        shape = list(grid.local_dims(tensor.shape, _without(hop.before, hop.axes)))
        local = DTensor.from_local(
            tensor._local_tensor,  # noqa: SLF001
            group,
            [start],
            run_check=False,
            shape=torch.Size(shape),
            stride=torch.empty(shape, device="meta").stride(),
        )
        moved = local.redistribute(placements=[goal]).to_local()
        return grid.wrapped(_present(moved), tensor.shape, hop.after)

    def _in_turn(self, tensor: Any, hop: Hop, group: Any) -> Any:
        """One collective that the group's mesh cannot say, because the dimension is split in
        another order than ranks are numbered: DTensor sends one for each axis, counted as one.
        """
        with self.log.aside() as sent:
            moved = self.to(tensor, hop.after)
        if {item.kind for item in sent} == {hop.kind} and len(sent) == len(hop.axes):
            self.in_turn += 1
            ranks = tuple(sorted(dist.get_process_group_ranks(group.get_group())))
            self.log.items.append(Sent(hop.kind, ranks, max(item.nbytes for item in sent)))
        else:
            self.log.items += sent
        return moved

    def _text(self, wires: Sequence[Wire]) -> str:
        names = self.grid.mesh.axes
        each = [
            f"{kind} over {'*'.join(names[a].name for a in sorted(axes))}"
            for kind, axes, _ in wires
        ]
        return ", ".join(each) or "nothing"


def _present(tensor: Any) -> Any:
    """The tensor itself where a collective is still under way."""
    wait = getattr(tensor, "wait", None)
    return wait() if wait is not None else tensor


def _turns_to_terms(start: Layout, goal: Layout) -> bool:
    return bool(set(start.split_axes) & set(goal.partial))


def _without(layout: Layout, axes: Sequence[int]) -> Layout:
    """A layout without some axes."""
    dims = tuple(tuple(a for a in dim if a not in axes) for dim in layout.dims)
    return Layout(dims, tuple(a for a in layout.partial if a not in axes))


def _on_group(hop: Hop, kept: Sequence[int]) -> tuple[Any, Any] | None:
    """The placements before and after on the mesh of the group; None if one dimension of a mesh
    cannot say them.
    """
    out = []
    for layout in (hop.before, hop.after):
        holding = [i for i, dim in enumerate(layout.dims) if set(dim) & set(hop.axes)]
        if not holding:
            terms = set(hop.axes) <= set(layout.partial)
            if not terms and set(hop.axes) & set(layout.partial):
                return None
            out.append(Partial() if terms else Replicate())
            continue
        axes = layout.dims[holding[0]]
        if len(holding) > 1 or list(axes[len(axes) - len(kept) :]) != list(kept):
            return None
        out.append(Shard(holding[0]))
    return out[0], out[1]
