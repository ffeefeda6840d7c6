"""Layouts offered to nodes of tensors: parameters at rest, tensors with several readers, inputs."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.redistribution import all_layouts
from ir.graph import Tensor
from ir.layout import Layout
from planner.dialects import Dialect
from planner.ports import Port, PortState
from topology.mesh import Mesh

_AXES_FOR_ALL_LAYOUTS = 2


def fits(tensor: Tensor, layout: Layout, mesh: Mesh, max_waste: float) -> bool:
    """Whether a tensor can have a layout within the padding that is allowed."""
    for dim, shards in zip(tensor.dims, layout.shards(mesh.sizes), strict=True):
        if shards > max(dim, 1) or -(-dim // shards) * shards > dim * (1 + max_waste):
            return False
    return True


def free_layouts(tensor: Tensor, mesh: Mesh, dialect: Dialect) -> list[Layout]:
    """Every layout of a tensor, partial ones included."""
    return [
        x
        for x in all_layouts(len(tensor.dims), len(mesh.axes))
        if fits(tensor, x, mesh, dialect.max_waste)
    ]


def shared_states(
    tensor: Tensor, ports: Sequence[Port], mesh: Mesh, dialect: Dialect, *, gradient: bool
) -> list[PortState]:
    """States of a tensor with several readers.

    Free targets on two axes: every layout, with every gradient that is a sum. Elsewhere the
    layouts of its
    neighbours, with the gradients that they make or want.
    """
    if dialect.partial_edges and len(mesh.axes) <= _AXES_FOR_ALL_LAYOUTS:
        layouts = free_layouts(tensor, mesh, dialect)
    else:
        found: dict[Layout, None] = {}
        for state in (s for port in ports for s in port.states):
            found[Layout(state.forward.dims)] = None
            found[Layout(state.forward.dims, state.gradient.partial)] = None
        layouts = list(found)
    return [PortState(Layout(x.dims), x) for x in layouts if gradient or not x.partial]


def parameter_layouts(
    tensor: Tensor, ports: Sequence[Port], mesh: Mesh, dialect: Dialect
) -> list[Layout]:
    """Layouts of a parameter at rest.

    Free targets: every layout. MindSpore: those of its operators, and each with dimension 0
    split further over the
    devices that would hold copies (optimizer sharding, one repeated axis of the device matrix).
    """
    if not dialect.cut_counts:
        return [x for x in free_layouts(tensor, mesh, dialect) if not x.partial]
    found: dict[Layout, None] = {}
    for port in ports:
        for layout in port.forward:
            found[layout] = None
    for layout in list(found):
        for axes in _repeated_runs(layout, mesh):
            if tensor.dims:
                sharded = Layout(((*layout.dims[0], *axes), *layout.dims[1:]))
                if fits(tensor, sharded, mesh, 0.0):
                    found[sharded] = None
    return list(found)


def _repeated_runs(layout: Layout, mesh: Mesh) -> list[tuple[int, ...]]:
    """Runs of neighbouring axes that hold copies: each as a whole, and its part in the innermost
    tier.
    """
    split = set(layout.split_axes)
    runs: list[tuple[int, ...]] = []
    current: list[int] = []
    for axis in (*range(len(mesh.axes)), -1):
        if axis >= 0 and axis not in split:
            current.append(axis)
        elif current:
            runs.append(tuple(current))
            current = []
    inner = [tuple(a for a in run if mesh.axes[a].tier == mesh.axes[run[-1]].tier) for run in runs]
    return list(dict.fromkeys([*runs, *inner]))


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
    for dim, cut in zip(tensor.dims, cuts, strict=True):
        if cut < 1 or dim % cut:
            raise ValueError(
                f"dimension of size {dim} of input {tensor.name!r} does not split {cut} ways"
            )
    return _from_cuts(tensor, mesh, cuts, innermost=innermost)


def _split_first(tensor: Tensor, mesh: Mesh) -> Layout:
    axes: list[int] = []
    pieces = 1
    for axis, size in enumerate(mesh.sizes):
        if tensor.dims[0] % (pieces * size):
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
