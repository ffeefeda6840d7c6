"""The network as MindSpore's recursive programming sees it: its primitives, in its order.

Composites are taken apart, a product of rows in several dimensions is one of matrices between two
reshapes, and all inputs come from one operator, the dataset. The order is that of a search from the
results backwards, the last operand first, every operator before those that make its operands.

Neighbours are what is left when followers are taken out: what made the first operand of one comes
before what reads its result, what made the others comes there on the side. A reshape or a transpose
that was taken out is remembered on the link. Two neighbours are charged for different cuts only if
the tensor between them has the same dims on both sides, after what is remembered.
Source: MindSpore 2.7.0, `step_auto_parallel.cc` and `rec_core/rec_parse_graph.cc`,
`rec_core/rec_cost.cc`; the order is that of the log of 2.10.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ir.graph import OpGraph
from ir.mindspore_forms.primitives import PRIMITIVES, PrimitiveForm, primitive_form
from ir.mindspore_forms.readers import parts_of
from ir.normalise.ends import ENDS
from ir.ops import OpView, lookup
from ir.ops.shape import VIEWS, transpose_rule

Dims = tuple[int, ...]
DATASET = "_VirtualDataset"
OUTPUT = "_VirtualOutput"
RESHAPE = "Reshape"
_KINDS = {kind: PRIMITIVES.get(kind, kind) for kind in VIEWS}
"""Views that MindSpore has operators for; they take no strategy of the plan."""
_WITHOUT_FORM = {"LpNormalization": "LpNorm"}
"""The cell that a network has has no parallel form; `L2Normalize`, which has one, is exported."""
_MATRIX = 2


@dataclass(slots=True)
class Node:
    """One primitive.

    Attributes:
        kind: MindSpore's name, or that of the planned operator where it has none.
        dims: of every input, as the primitive sees them.
        result: dims of the first result.
        reads: name of every input.
        makes: names of the results.
        owner: the planned operator that it is, or is a part of; empty if it is none.
        turned: of a product, whether the operands are transposed.
        form: what its inputs are in the factors of the planned operator.
        view: the operator, for its attributes.
        makers: number of the node that makes each input, or -1.
    """

    kind: str
    dims: tuple[Dims, ...]
    result: Dims
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    owner: str = ""
    turned: tuple[bool, bool] = (False, False)
    form: PrimitiveForm | None = None
    view: OpView | None = None
    makers: tuple[int, ...] = ()
    has_rule: bool = True
    """Whether MindSpore has a parallel form of it, or splits it by batch or not at all."""
    parameters: frozenset[str] = field(default_factory=frozenset)
    """Those inputs that are parameters."""

    @property
    def permutes(self) -> bool:
        """Whether it changes the order of dimensions."""
        return self.view is not None and lookup(self.view.op.kind).rule is transpose_rule


def network(graph: OpGraph, *, training: bool = True) -> list[Node]:
    """All primitives in MindSpore's order; the loss and the outputs, which it lacks, are left out.

    Args:
        graph: as it is planned.
        training: else one operator stands behind every result, as when MindSpore predicts.
    """
    weights = frozenset(tensor.name for tensor in graph.parameters)
    nodes = [node for op in graph.ops for node in _nodes(OpView(op, graph), weights)]
    if graph.inputs:
        dims = tuple(graph.tensors[name].dims for name in graph.inputs)
        nodes.append(Node(DATASET, dims, dims[0], (), tuple(graph.inputs)))
    ends = [name for op in graph.ops if op.kind in ENDS for name in op.inputs[:1]]
    ends = ends or list(graph.outputs)
    if not training:
        nodes += [_behind(graph, name) for name in ends]
        ends = [node.makes[0] for node in nodes[-len(ends) :]]
    maker = {name: number for number, node in enumerate(nodes) for name in node.makes}
    order = _order(nodes, maker, ends)
    place = {number: position for position, number in enumerate(order)}
    out = [nodes[number] for number in order]
    for node in out:
        node.makers = tuple(place[maker[n]] if n in maker else -1 for n in node.reads)
    return out


def _behind(graph: OpGraph, name: str) -> Node:
    dims = graph.tensors[name].dims
    return Node(OUTPUT, (dims,), dims, (name,), (f"{name} given back",))


def _order(nodes: Sequence[Node], maker: Mapping[str, int], ends: Sequence[str]) -> list[int]:
    """Numbers of nodes from the results backwards, the last operand of each first."""
    order: dict[int, None] = {}
    stack = [maker[name] for name in ends if name in maker]
    while stack:
        number = stack.pop()
        if number not in order:
            order[number] = None
            stack += [maker[name] for name in nodes[number].reads if name in maker]
    return list(order)


def _nodes(whole: OpView, weights: frozenset[str]) -> Iterator[Node]:
    if whole.op.kind in ENDS:
        return
    for view, rule in parts_of(whole):
        if view.op.kind in _KINDS:
            yield _view_node(view)
            continue
        form = primitive_form(view, rule)
        node = _plain(view, form, whole.op.name, weights)
        rows = view.inputs[0].dims[:-1] if node.kind == "MatMul" and view.inputs[0] else ()
        yield from _between_reshapes(node, rows) if len(rows) >= _MATRIX else [node]


def _view_node(view: OpView) -> Node:
    reads, dims = view.op.inputs[:1], view.dims(0)
    return Node(_KINDS[view.op.kind], (dims,), view.result(), reads, view.op.outputs, view=view)


def _plain(view: OpView, form: PrimitiveForm, owner: str, weights: frozenset[str]) -> Node:
    names = [n for n in view.op.inputs if n]
    reads = tuple(names[: len(form.dims)]) + ("",) * (len(form.dims) - len(names))
    turned = (False, False)
    if form.name in {"MatMul", "BatchMatMul"}:
        inner = form.device_matrix[-2]
        turned = (form.inputs[0][-1] != inner, form.inputs[1][-1] == inner)
    return Node(
        kind=_WITHOUT_FORM.get(view.op.kind) or form.name or view.op.kind,
        dims=form.dims,
        result=view.result(),
        reads=reads,
        makes=view.op.outputs,
        owner=owner,
        turned=turned,
        form=form,
        view=view,
        has_rule=bool(form.name) and view.op.kind not in _WITHOUT_FORM,
        parameters=weights.intersection(names),
    )


def _between_reshapes(node: Node, rows: Dims) -> Iterator[Node]:
    """A product of matrices, what joins its rows and what takes them apart again."""
    joined, apart = f"{node.reads[0]} joined for {node.makes[0]}", f"{node.makes[0]} joined"
    before, after = (*rows, node.dims[0][1]), node.result
    together = (math.prod(rows), after[-1])
    yield Node(RESHAPE, (before,), node.dims[0], node.reads[:1], (joined,))
    node.reads, node.result = (joined, *node.reads[1:]), together
    made, node.makes = node.makes, (apart,)
    yield node
    yield Node(RESHAPE, (together,), after, (apart,), made)


class Role(StrEnum):
    """How the search treats a primitive."""

    PRODUCT = "product"
    CONVOLUTION = "convolution"
    POOLING = "pooling"
    BATCH = "batch"
    """Cut along the first dimension that can be."""
    UNKNOWN = "unknown"
    """Never cut."""
    FOLLOWER = "follower"
    """Left out of the search: it takes the cuts of a neighbour."""
    REPEATED = "repeated"
    """A follower without a parallel form, by batch or not at all."""


_PRIMITIVES = {
    Role.PRODUCT: "MatMul",
    Role.CONVOLUTION: "Conv2D Conv2DTranspose",
    Role.POOLING: "MaxPool",
    Role.BATCH: f"""BatchNorm PReLU UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin
        {DATASET} {OUTPUT}""",
    Role.UNKNOWN: """Argmax Argmin AvgPool BitwiseAnd BitwiseOr BitwiseXor BroadcastTo Cosh CumProd
        GatherNd GridSampler2D GroupNorm Identity Invert Mish ROIAlign ReduceProd SeLU TopK""",
    Role.FOLLOWER: """ASin ApproximateEqual Assign AssignAdd AssignSub Atan2 BesselI0 BesselI0e
        BesselI1 BesselI1e BesselJ0 BesselJ1 Cholesky Div DivNoNan DropoutDoMask Erfc Expm1 FillV2
        FlashAttentionScore Flatten FloorDiv FloorMod Gcd HSwish Hypot Igamma Igammac Inv
        L2Normalize LeftShift Lgamma Log1p MaskedFill NextAfter NotEqual OneHot OnesLike ReLU6
        Reshape ReverseV2 RightShift Rsqrt ScatterUpdate Square Stack TensorDot Trunc ZerosLike
        Zeta""",
}
"""Those that the search has under a role, but for the catalogue's that follow."""
_ROLES = dict.fromkeys(PRIMITIVES.values(), Role.FOLLOWER) | {
    name: role for role, names in _PRIMITIVES.items() for name in names.split()
}


def role_of(node: Node) -> Role:
    """What the search does with a primitive."""
    unknown = Role.UNKNOWN if node.has_rule else Role.REPEATED
    known = _ROLES.get(node.kind, unknown)
    return unknown if known is Role.UNKNOWN else known


RANK = 4
"""Dims of every tensor in the search; missing ones are 1, in front."""
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """From a primitive to one that reads its result."""

    to: int
    turned: Dims = ()
    """Order of the dims by transposes on the way; empty if none."""
    grouped: Groups = ()
    """Which dims a reshape on the way has made of which, or joined; empty if none."""


@dataclass(slots=True)
class Place:
    """The neighbours of one primitive, by number."""

    before: list[int] = field(default_factory=list)
    """What made its operands, parameters left out."""
    aside: list[tuple[int, int]] = field(default_factory=list)
    """What made other operands of a follower that was taken out, and the operand it stands at."""
    after: list[Link] = field(default_factory=list)


def places(nodes: Sequence[Node]) -> list[Place]:
    """The neighbours of all primitives once followers are taken out; of these it is what they had
    when they went.
    """
    found = [Place([m for m in node.makers if m >= 0]) for node in nodes]
    for number, place in enumerate(found):
        for maker in place.before:
            found[maker].after.append(Link(number))
    for number, node in enumerate(nodes):
        if role_of(node) in {Role.FOLLOWER, Role.REPEATED}:
            _take_out(found, number, _own_link(node))
    return found


def padded(dims: Dims) -> Dims:
    """Dims as the search has them; more than it can hold are forgotten."""
    return (1,) * (RANK - len(dims)) + dims if len(dims) <= RANK else (1,) * RANK


def is_same(made: Dims, read: Dims, link: Link) -> bool:
    """Whether a tensor has the same dims where it is made and where it is read.

    Args:
        made: padded dims where it is made.
        read: padded dims where it is read.
        link: what happens on the way.
    """
    if link.turned and not link.grouped:
        return tuple(made[axis] for axis in link.turned) == read
    if not link.grouped:
        return made == read
    groups = _turned_groups(link.turned, link.grouped) if link.turned else link.grouped
    if any(len(group) > 1 for group in groups):
        return tuple(math.prod(made[axis] for axis in group) for group in groups) == read
    left = list(made)
    for size, group in zip(read, groups, strict=False):
        for axis in group[:1]:
            left[axis] //= size
    return left == [1] * RANK


def _own_link(node: Node) -> Link:
    if node.view is not None and node.permutes:
        rank = len(node.dims[0])
        return Link(-1, turned=node.view.ints("perm", tuple(reversed(range(rank)))))
    return (
        Link(-1, grouped=_groups(node.dims[0], node.result)) if node.kind == RESHAPE else Link(-1)
    )


def _take_out(found: list[Place], number: int, own: Link) -> None:
    gone = found[number]
    for maker in (*gone.before, *(maker for maker, _ in gone.aside)):
        after = found[maker].after
        here = next((i for i, link in enumerate(after) if link.to == number), None)
        if here is not None:
            after.pop(here)
            known = {link.to for link in after}
            for link in gone.after:
                if link.to not in known:
                    known.add(link.to)
                    after.append(_combined(own, link))
    for link in gone.after:
        _replace_before(found[link.to], number, gone)
        _replace_aside(found[link.to], number, gone)


def _replace_before(place: Place, number: int, gone: Place) -> None:
    if number not in place.before:
        return
    here = place.before.index(number)
    if not gone.before:
        place.before.pop(here)
        return
    first, *others = gone.before
    place.aside = [(maker, operand) for maker, operand in place.aside if maker != first]
    place.before[here] = first
    for maker in (*others, *(maker for maker, _ in gone.aside)):
        if maker not in {known for known, _ in place.aside}:
            place.aside.append((maker, here))


def _replace_aside(place: Place, number: int, gone: Place) -> None:
    here = next((i for i, (maker, _) in enumerate(place.aside) if maker == number), None)
    if here is None:
        return
    operand = place.aside[here][1]
    first = gone.before[:1]
    if not first or first[0] in place.before:
        place.aside.pop(here)
    else:
        place.aside[here] = (first[0], operand)
    if first:
        for maker in (*gone.before[1:], *(maker for maker, _ in gone.aside)):
            if maker not in place.before and (maker, operand) not in place.aside:
                place.aside.append((maker, operand))


def _combined(own: Link, link: Link) -> Link:
    """What an operator does and what is done after it."""
    turned, grouped = own.turned or link.turned, own.grouped or link.grouped
    if own.turned and link.turned and len(own.turned) == len(link.turned):
        turned = tuple(own.turned[axis] for axis in link.turned)
    if own.grouped and link.grouped:
        grouped = tuple(
            tuple(sorted({axis for each in group for axis in own.grouped[each]})) or (place,)
            for place, group in enumerate(link.grouped)
        )
    return replace(link, turned=turned, grouped=grouped)


def _groups(source: Dims, target: Dims) -> Groups:
    """For every dimension of the result of a reshape that of the operand in which it lies, or the
    other way round those that it joins; nothing where that cannot be said.
    """
    if len(source) <= len(target):
        return tuple((axis,) for axis in _inside(padded(source), padded(target)))
    inside = _inside(padded(target), padded(source))
    joined = [[place for place, axis in enumerate(inside) if axis == each] for each in range(RANK)]
    return tuple(map(tuple, joined)) if inside else ()


def _inside(outer: Dims, inner: Dims) -> Dims:
    """For every inner dimension the outer one of which it is a part."""
    sizes, parts, found = list(outer), list(inner), [-1] * RANK
    here = part = 0
    while here < RANK and part < RANK:
        if sizes[here] < parts[part]:
            here += 1
            continue
        if sizes[here] % parts[part] == 0:
            sizes[here] //= parts[part]
            parts[part], found[part] = 1, here
        part += 1
        here += sizes[here] == 1
    return tuple(found) if all(size == 1 for size in parts) and -1 not in found else ()


def _turned_groups(turned: Dims, groups: Groups) -> Groups:
    if any(len(group) > 1 for group in groups):
        return tuple(tuple(turned[a] for a in group if a < len(turned)) for group in groups)
    return tuple(groups[axis] for axis in turned if axis < len(groups))
