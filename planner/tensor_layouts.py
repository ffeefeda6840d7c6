"""Layouts offered to nodes of tensors: parameters at rest, tensors with several readers, inputs."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.redistribution import all_layouts
from ir.graph import Tensor
from ir.layout import Layout
from planner.dialects import Dialect
from planner.ports import Port, PortState, local_elements
from topology.mesh import Mesh

_AXES_FOR_ALL_LAYOUTS = 2


def fits(tensor: Tensor, layout: Layout, mesh: Mesh, max_waste: float) -> bool:
    """Whether a tensor can have a layout within the padding that is allowed."""
    divisors = tensor.divisors or tensor.dims
    for dim, divisor, shards in zip(tensor.dims, divisors, layout.shards(mesh.sizes), strict=True):
        waste = max_waste if divisor == dim else 0.0
        if shards > max(divisor, 1) or -(-divisor // shards) * shards > divisor * (1 + waste):
            return False
    return True


def free_layouts(tensor: Tensor, mesh: Mesh, dialect: Dialect) -> list[Layout]:
    """Every layout of a tensor, partial ones included."""
    if mesh.size == 1:
        return [Layout(((),) * len(tensor.dims))]
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


def parameter_states(
    tensor: Tensor, ports: Sequence[Port], mesh: Mesh, dialect: Dialect
) -> list[PortState]:
    """Layouts of a parameter at rest.

    Free targets: every layout. MindSpore: the layouts of its readers, and each shared further over
    all devices that would hold copies (optimizer sharding of dimension 0); the layout in
    use stands where the gradient's would.
    """
    if not dialect.cut_counts:
        layouts = [x for x in free_layouts(tensor, mesh, dialect) if not x.partial]
        # Of layouts that cost the same the smallest comes first and is taken.
        layouts.sort(key=lambda x: local_elements(tensor.dims, x, mesh))
        return [PortState(x, x) for x in layouts]
    used = dict.fromkeys(layout for port in ports for layout in port.forward)
    out: list[PortState] = []
    for layout in used:
        out.append(PortState(layout, layout))
        shared = _shared_by_copies(tensor, layout, mesh)
        if shared is not None:
            out.append(PortState(shared, layout))
    return out


def _shared_by_copies(tensor: Tensor, layout: Layout, mesh: Mesh) -> Layout | None:
    """The layout with dimension 0 split over all axes that hold copies, where that divides."""
    copies = tuple(a for a in range(len(mesh.axes)) if a not in layout.split_axes)
    first_in_file = not tensor.stored_permutation or tensor.stored_permutation[0] == 0
    if not copies or not tensor.dims or not first_in_file:
        return None
    shared = Layout(((*layout.dims[0], *copies), *layout.dims[1:]))
    return shared if fits(tensor, shared, mesh, 0.0) else None


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
