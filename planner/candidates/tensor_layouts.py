"""Layouts offered to nodes of tensors: parameters at rest, tensors with several readers, inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.layout_moves import all_layouts
from ir.dialects import Dialect
from ir.graph import Tensor
from ir.layout import Layout, replicated
from planner.candidates.assignments import axes_of_mask
from planner.candidates.layout_tables import (
    Dims,
    LayoutPair,
    Layouts,
    LayoutTable,
    LayoutTableMaker,
)
from topology.mesh import Mesh

_AXES_FOR_ALL_LAYOUTS = 2

IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Family:
    """Some layouts of a rank, as arrays."""

    layouts: Layouts
    masks: IntArray
    """Axes of every dimension, then those of the terms of a sum, shape (L, dims + 1)."""
    pieces: IntArray
    """Pieces of every dimension, shape (L, dims)."""

    def fits(self, tensor: Tensor, max_waste: float) -> NDArray[np.bool_]:
        """Which a tensor can have within the padding that is allowed, shape (L,)."""
        return _fits(tensor, self.pieces, max_waste)

    def elements(self, tensor: Tensor) -> IntArray:
        """Elements of the largest shard, shape (L,)."""
        local = -(-np.array(tensor.dims, dtype=np.int64) // self.pieces)
        return np.asarray(local.prod(axis=1))


@dataclass(slots=True)
class TensorLayouts:
    """Makes the ports of tensors on one mesh for one target."""

    mesh: Mesh
    dialect: Dialect
    maker: LayoutTableMaker
    _every: dict[int, _Family] = field(default_factory=dict)
    _used: dict[tuple[int, ...], tuple[Sequence[LayoutTable], _Family]] = field(
        default_factory=dict
    )
    _ports: dict[tuple[int, bytes], LayoutTable] = field(default_factory=dict)

    def parameter(self, tensor: Tensor, ports: Sequence[LayoutTable]) -> LayoutTable:
        """Layouts of a parameter at rest.

        Free targets: every layout. MindSpore: the layouts of its readers, and each shared further
        over all devices that would hold copies (optimizer sharding of dimension 0); the layout in
        use stands where the gradient's would.
        """
        if self.dialect.cut_counts:
            return self._in_use(tensor, ports)
        every = self._all_layouts(len(tensor.dims))
        keep = np.flatnonzero(
            every.fits(tensor, self.dialect.max_waste) & (every.masks[:, -1] == 0)
        )
        # Of layouts that cost the same the smallest comes first and is taken.
        keep = keep[np.argsort(every.elements(tensor)[keep], kind="stable")]
        states = tuple(self.maker.state(x, x) for x in (every.layouts[i] for i in keep))
        return self._port(states, every.masks[keep][:, None].repeat(2, axis=1), every.pieces[keep])

    def _in_use(self, tensor: Tensor, ports: Sequence[LayoutTable]) -> LayoutTable:
        used = self._of_readers(ports)
        shared, can = self._shared_by_copies(tensor, used)
        key = (id(used), can.tobytes())
        if key not in self._ports:
            states: list[LayoutPair] = []
            for layout, own, fits in zip(
                used.layouts, shared.masks[:, 0].tolist(), can, strict=True
            ):
                states.append(self.maker.state(layout, layout))
                if fits:
                    copies = axes_of_mask(own & ~_mask_of(layout.dims[0]))
                    dims = ((*layout.dims[0], *copies), *layout.dims[1:])
                    states.append(self.maker.state(self.maker.layout(dims), layout))
            masks = np.stack((used.masks, shared.masks), axis=1)[:, :, None].repeat(2, axis=2)
            masks[:, 1, 1] = used.masks
            pieces = np.stack((used.pieces, shared.pieces), axis=1)
            keep = np.stack((np.ones_like(can), can), axis=1)
            self._ports[key] = self._port(tuple(states), masks[keep], pieces[keep])
        return self._ports[key]

    def _shared_by_copies(self, tensor: Tensor, used: _Family) -> tuple[_Family, NDArray[np.bool_]]:
        """Layouts with dimension 0 split over all axes that hold copies too, and which of these
        there are: where there are copies, and that divides.
        """
        first_in_file = not tensor.stored_permutation or tensor.stored_permutation[0] == 0
        masks, pieces = used.masks.copy(), used.pieces.copy()
        if not tensor.dims or not first_in_file:
            return _Family(used.layouts, masks, pieces), np.zeros(len(masks), dtype=bool)
        copies = (1 << len(self.mesh.axes)) - 1 & ~masks.sum(axis=1)
        masks[:, 0] |= copies
        pieces[:, 0] = self.mesh.size // pieces[:, 1:].prod(axis=1)
        can = (copies != 0) & _fits(tensor, pieces, 0.0)
        return _Family(used.layouts, masks, pieces), can

    def _of_readers(self, ports: Sequence[LayoutTable]) -> _Family:
        """Distinct layouts of some ports, in order."""
        key = tuple(id(port) for port in ports)
        if key not in self._used:
            states = [state.forward for port in ports for state in port.states]
            number: dict[Dims, int] = {}
            for index, layout in enumerate(states):
                number.setdefault(layout.dims, index)
            keep = list(number.values())
            masks = np.concatenate([port.masks[:, 0] for port in ports])[keep]
            pieces = np.concatenate([port.pieces(self.mesh.sizes) for port in ports])[keep]
            self._used[key] = (ports, _Family(Layouts(states[i] for i in keep), masks, pieces))
        return self._used[key][1]

    def shared(
        self, tensor: Tensor, ports: Sequence[LayoutTable], *, gradient: bool
    ) -> LayoutTable:
        """Layouts of a tensor with several readers.

        Free targets on two axes: every layout, with every gradient that is a sum. Elsewhere the
        layouts of its neighbours, with the gradients that they make or want.
        """
        if self.dialect.partial_edges and len(self.mesh.axes) <= _AXES_FOR_ALL_LAYOUTS:
            every = self._all_layouts(len(tensor.dims))
            can = every.fits(tensor, self.dialect.max_waste)
            keep = np.flatnonzero(can if gradient else can & (every.masks[:, -1] == 0))
            masks = every.masks[keep][:, None].repeat(2, axis=1)
            masks[:, 0, -1] = 0
            states = tuple(self._state(x.dims, x.partial) for x in (every.layouts[i] for i in keep))
            return self._port(states, masks, every.pieces[keep])
        return self._of_neighbours(ports, gradient=gradient)

    def _of_neighbours(self, ports: Sequence[LayoutTable], *, gradient: bool) -> LayoutTable:
        number: dict[tuple[Dims, tuple[int, ...]], int] = {}
        for index, state in enumerate(s for port in ports for s in port.states):
            number.setdefault((state.forward.dims, ()), index)
            if gradient:
                number.setdefault((state.forward.dims, state.gradient.partial), index)
        keep = list(number.values())
        masks = np.concatenate([port.masks for port in ports])[keep]
        masks[:, 1, :-1] = masks[:, 0, :-1]
        masks[:, 0, -1] = 0
        masks[:, 1, -1] = [_mask_of(partial) for _, partial in number]
        pieces = np.concatenate([port.pieces(self.mesh.sizes) for port in ports])[keep]
        return self._port(tuple(self._state(*key) for key in number), masks, pieces)

    def _state(self, dims: Dims, partial: tuple[int, ...]) -> LayoutPair:
        return self.maker.state(self.maker.layout(dims), self.maker.layout(dims, partial))

    def _port(
        self, states: tuple[LayoutPair, ...], masks: IntArray, pieces: IntArray
    ) -> LayoutTable:
        port = LayoutTable(states, np.arange(len(states)), masks)
        port.cuts[self.mesh.sizes] = pieces
        return port

    def _all_layouts(self, rank: int) -> _Family:
        """Every layout, partial ones included."""
        if rank not in self._every:
            axes = len(self.mesh.axes)
            found = (replicated(rank),) if self.mesh.size == 1 else all_layouts(rank, axes)
            layouts = Layouts(self.maker.layout(x.dims, x.partial) for x in found)
            masks = [[_mask_of(own) for own in (*x.dims, x.partial)] for x in layouts]
            pieces = [x.shards(self.mesh.sizes) for x in layouts]
            self._every[rank] = _Family(
                layouts,
                np.array(masks, dtype=np.intp),
                np.array(pieces, dtype=np.int64).reshape(len(layouts), rank),
            )
        return self._every[rank]


def _mask_of(axes: tuple[int, ...]) -> int:
    return sum(1 << axis for axis in axes)


def _fits(tensor: Tensor, pieces: IntArray, max_waste: float) -> NDArray[np.bool_]:
    """Whether a tensor can be cut so within the padding that is allowed, shape (L,).

    Args:
        tensor: its dims and what divides them.
        pieces: of every dimension, shape (L, dims).
        max_waste: largest share by which padding may enlarge a shard of a dimension of one size.
    """
    divisors = np.array(tensor.divisors or tensor.dims, dtype=np.int64)
    waste = np.where(divisors == np.array(tensor.dims, dtype=np.int64), max_waste, 0.0)
    padded = -(-divisors // pieces) * pieces
    fits = (pieces <= np.maximum(divisors, 1)) & (padded <= divisors * (1 + waste))
    return np.asarray(fits.all(axis=1))


def input_layout(
    tensor: Tensor, mesh: Mesh, cuts: Sequence[int] | None, *, split: bool, innermost: bool
) -> Layout:
    """Layout in which an input arrives.

    Args:
        tensor: the input.
        mesh: the mesh.
        cuts: cut counts of the user, one per dimension, else None.
        split: without cuts, split dimension 0 over the outermost axes that divide it.
        innermost: cut counts below the number of devices repeat over the outermost axes
            (MindSpore).

    Raises:
        ValueError: the cuts do not fit the dims or the mesh.
    """
    if cuts is None:
        return (
            _split_first(tensor, mesh)
            if split and tensor.dims
            else Layout(((),) * len(tensor.dims))
        )
    if len(cuts) != len(tensor.dims):
        raise ValueError(
            f"{tuple(cuts)} has {len(cuts)} cuts, input {tensor.name!r} has dims {tensor.dims}"
        )
    for dim, divisor, cut in zip(tensor.dims, tensor.divisors or tensor.dims, cuts, strict=True):
        if cut < 1 or divisor % cut:
            size = f"size {dim}" if divisor == dim else f"a multiple of {divisor}"
            raise ValueError(
                f"dimension of {size} of input {tensor.name!r} does not split {cut} ways"
            )
    return _from_cuts(tensor, mesh, cuts, innermost=innermost)


def _split_first(tensor: Tensor, mesh: Mesh) -> Layout:
    axes: list[int] = []
    pieces = 1
    for axis, size in enumerate(mesh.sizes):
        if mesh.size == 1 or (tensor.divisors or tensor.dims)[0] % (pieces * size):
            break
        axes.append(axis)
        pieces *= size
    return Layout((tuple(axes), *((),) * (len(tensor.dims) - 1)))


def _from_cuts(tensor: Tensor, mesh: Mesh, cuts: Sequence[int], *, innermost: bool) -> Layout:
    """Axes in order, outermost first, to the dimensions in order."""
    total = 1
    for cut in cuts:
        total *= cut
    axis = 0
    if innermost:
        pieces = mesh.size
        while pieces > total and axis < len(mesh.axes):
            pieces //= mesh.sizes[axis]
            axis += 1
    dims: list[tuple[int, ...]] = []
    for cut in cuts:
        taken: list[int] = []
        rest = cut
        while rest > 1 and axis < len(mesh.axes) and rest % mesh.sizes[axis] == 0:
            rest //= mesh.sizes[axis]
            taken.append(axis)
            axis += 1
        if rest > 1:
            raise ValueError(
                f"the cuts {tuple(cuts)} of input {tensor.name!r} do not fall on the mesh axes "
                f"{mesh.sizes}"
            )
        dims.append(tuple(taken))
    return Layout(tuple(dims))
