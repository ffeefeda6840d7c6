"""The network as MindSpore's recursive programming sees it: its primitives, in its order.

Composites are taken apart, a product of rows in several dimensions is one of matrices between two
reshapes, and all inputs come from one operator, the dataset. The order is that of a search from the
results backwards, the last operand first, every operator before those that make its operands.
Source: MindSpore 2.7.0, `step_auto_parallel.cc` and `rec_core/rec_parse_graph.cc`; the order is
that of the log of 2.10.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from exporters.mindspore_file_operators import ENDS
from exporters.mindspore_primitives import PrimitiveForm, primitive_form
from exporters.mindspore_readers import parts_of
from ir.graph import OpGraph
from ir.ops import OpView

Dims = tuple[int, ...]
DATASET = "_VirtualDataset"
OUTPUT = "_VirtualOutput"
RESHAPE = "Reshape"
_KINDS = {"Flatten": "Flatten", "Reshape": RESHAPE, "Squeeze": "Squeeze", "Unsqueeze": "ExpandDims"}
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
