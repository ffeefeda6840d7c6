"""ONNX files of `mindspore.export`: names and primitives of the network that was exported.

Some nodes have the full name of their primitive behind a number, as
`16-Default/layers-CellList/0-Layer/softmax-Softmax/Softmax-op0`, others the number alone. A cell
that no name tells is that of the parameter, else what the neighbours have in common. Layer
normalisation and activations, which the export writes as many nodes, become one operator again, and
reshapes that were `ExpandDims` are that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import onnx

from ir.file_primitives import FilePrimitive, cell_path
from ir.graph import Op, OpGraph, Role
from ir.mindspore_forms.primitives import PRIMITIVES, primitive_form
from ir.ops import BIAS_ADD, Engine, OpView, lookup
from ir.ops.elementwise import pointwise_rule
from ir.ops.shape import REARRANGED, RESHAPES

PRODUCER = "MindSpore"
_NAMED = re.compile(r"\d+-(Default/(?:.*/)?(\w+?)-op\d+)\w*")
_NORM = re.compile(r"\d+-Default/.*TupleGetItem-op\d+")
_KINDS: Mapping[str, str] = {name: kind for kind, name in PRIMITIVES.items()}
_FLOATS = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
_NEAREST = 64
"""Operators without a cell in a row that are looked through."""


def trained_in(model: onnx.ModelProto) -> frozenset[str] | None:
    """The stored tensors that are parameters: those of floating numbers that the network named and
    no normalisation keeps as statistics. None of a file from elsewhere.
    """
    if model.producer_name != PRODUCER:
        return None
    kept = {
        node.input[index]
        for node in model.graph.node
        for index in lookup(node.op_type).buffer_operands
        if index < len(node.input)
    }
    return frozenset(
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type in _FLOATS and tensor.name not in kept
        if not tensor.name[:1].isdecimal()
    )


def mend(model: onnx.ModelProto) -> None:
    """Make ONNX of what MindSpore 2.10.0 writes otherwise: sizes of the whole result of a
    transposed convolution, where those of its positions belong.
    """
    for node in model.graph.node if model.producer_name == PRODUCER else ():
        found = {each.name: each for each in node.attribute}
        if {"kernel_shape", "output_shape"} <= found.keys():
            positions = len(found["kernel_shape"].ints)
            sizes = list(found["output_shape"].ints)
            if len(sizes) == positions + 2:
                del found["output_shape"].ints[:]
                found["output_shape"].ints.extend(sizes[2:])


def as_network(graph: OpGraph) -> OpGraph:
    """The graph with the scopes, the operators and the primitives of the network."""
    graph = _with_new_dims(_with_activations(_with_norms(graph)))
    work = _Cells(graph)
    cells = [work.cell(op) for op in graph.ops]
    ops = _numbered(graph, cells)
    graph = graph.with_ops(ops)
    return replace(graph, primitives=tuple(_primitives(graph)))


def _with_norms(graph: OpGraph) -> OpGraph:
    """The graph with layer normalisation in one piece."""
    makers = graph.producers()
    ops: list[Op] = []
    for op in graph.ops:
        out = op.outputs[0]
        center = makers.get(f"{out}_centered")
        scaled = makers.get(f"{out}_rescaled")
        mean = makers.get(f"{out}_mean")
        if _NORM.fullmatch(out) is None or None in (center, scaled, mean):
            ops.append(op)
            continue
        assert center is not None
        assert scaled is not None
        assert mean is not None
        source = center.inputs[0]
        gamma = next(n for n in scaled.inputs if n != f"{out}_normalized")
        beta = next(n for n in op.inputs if n != f"{out}_rescaled")
        axes = mean.attributes.get("axes", (-1,))
        axis = min(axes) if isinstance(axes, tuple) and axes else -1
        attributes = {"axis": int(axis) % len(graph.tensors[source].dims), "epsilon": 1e-5}
        inputs = (source, gamma, beta)
        ops.append(Op(op.name, _KINDS["LayerNorm"], inputs, (out,), attributes, op.scope))
    return graph.with_live_ops(ops)


def _with_activations(graph: OpGraph) -> OpGraph:
    """The graph with each activation in one piece: nodes in a row that have one full name."""
    groups: dict[str, list[Op]] = {}
    for op in graph.ops:
        found = _NAMED.match(op.outputs[0])
        if found is not None:
            groups.setdefault(found[1], []).append(op)
    replaced: dict[str, Op] = {}
    for group in groups.values():
        found = _NAMED.match(group[0].outputs[0])
        kind = _KINDS.get(found[2], "") if found is not None else ""
        made = {name for op in group for name in op.outputs}
        read = dict.fromkeys(n for op in group for n in op.inputs if n and n not in made)
        moving = [n for n in read if graph.tensors[n].role is not Role.CONSTANT]
        if len(group) > 1 and len(moving) == 1 and kind and lookup(kind).rule is pointwise_rule:
            last = group[-1]
            attributes = {"approximate": "tanh"} if kind == _KINDS["GeLU"] else {}
            replaced[last.name] = Op(last.name, kind, (moving[0],), last.outputs, attributes)
    return graph.with_live_ops([replaced.get(op.name, op) for op in graph.ops])


def _with_new_dims(graph: OpGraph) -> OpGraph:
    """The graph with `ExpandDims`, which the export writes as a reshape."""
    return graph.with_live_ops([_unsqueezed(graph, op) or op for op in graph.ops])


def _unsqueezed(graph: OpGraph, op: Op) -> Op | None:
    """What a reshape was before the export, if its name says that it added a dimension."""
    found = _NAMED.match(op.outputs[0])
    if op.kind not in RESHAPES or found is None or found[2] != "ExpandDims":
        return None
    before, after = (graph.tensors[name].dims for name in (op.inputs[0], op.outputs[0]))
    for axis, size in enumerate(after):
        if size == 1 and (*after[:axis], *after[axis + 1 :]) == before:
            kind = _KINDS[found[2]]
            return replace(op, kind=kind, inputs=op.inputs[:1], attributes={"axes": (axis,)})
    return None


class _Cells:
    """Paths of the cells that hold operators."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph, self.makers, self.readers = graph, graph.producers(), graph.consumers()
        self.order = {op.name: place for place, op in enumerate(graph.ops)}
        self.paths = {op.name: self._told(op) for op in graph.ops}
        self.told: set[str] = set()

    def _told(self, op: Op) -> str | None:
        """What the name says, or the parameter."""
        found = _NAMED.match(op.outputs[0])
        if found is not None:
            return cell_path(found[1])
        for name in op.inputs:
            tensor = self.graph.tensors[name] if name else None
            if tensor is not None and tensor.role is Role.PARAMETER:
                return (tensor.source or name).rpartition(".")[0]
        return None

    def cell(self, op: Op) -> str:
        """The path; asked in the order of the graph."""
        found = self.paths[op.name]
        if found is None:
            found = self.paths[op.name] = self._between(op)
        else:
            self.told.add(op.name)
        return found

    def _between(self, op: Op) -> str:
        """Where all neighbours are in one cell, that; else of what makes the operands, or of the
        last made and the next reader: the deeper one.
        """
        makers = [each for each in self._makers(op) if self.paths[each.name] is not None]
        if not makers:
            return _parent(self._reader(op) or "")
        around = {self.paths[each.name] or "" for each in makers} | {self._reader(op) or ""}
        if len(around) == 1:
            return around.pop()
        last = max(makers, key=lambda each: self.order[each.name])
        before = self.paths[last.name] or ""
        if len(makers) == 1 and last.name not in self.told:
            return before
        behind = self._reader(op)
        shared = [_common([before, behind])] if behind is not None else [_parent(before)]
        if len(makers) > 1:
            shared.append(_common([self.paths[each.name] or "" for each in makers]))
        return max(shared, key=len)

    def _reader(self, op: Op) -> str | None:
        """The cell of the next reader that has one."""
        for _ in range(_NEAREST):
            readers = self.readers.get(op.outputs[0], [])
            if not readers:
                return None
            op = min(readers, key=lambda each: self.order[each.name])
            found = self.paths[op.name]
            if found is not None:
                return found
        return None

    def _makers(self, op: Op) -> Sequence[Op]:
        return [self.makers[name] for name in op.inputs if name in self.makers]


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _common(paths: Sequence[str]) -> str:
    """The cell that all of these are in; none of them is it itself.

    >>> _common(["layers.0.norm1", "layers.0.conv2"]), _common(["fc", "fc"])
    ('layers.0', '')
    """
    steps = zip(*(_parent(path).split(".") for path in paths), strict=False)
    same = takewhile(lambda each: len(set(each)) == 1, steps)
    return ".".join(each[0] for each in same)


def _numbered(graph: OpGraph, cells: Iterable[str]) -> list[Op]:
    """The operators under full names; classes of cells stand in none of them."""
    count: Counter[tuple[str, str]] = Counter()
    last: dict[str, int] = {}
    for place, op in enumerate(graph.ops):
        found = _NAMED.match(op.outputs[0])
        if found is not None:
            last[found[1]] = place
    out: list[Op] = []
    for place, (op, cell) in enumerate(zip(graph.ops, cells, strict=True)):
        found = _NAMED.match(op.outputs[0])
        root = "/".join(("Default", *cell.split("."))) if cell else "Default"
        if found is not None and last[found[1]] != place and op.kind in REARRANGED:
            kind = found[2]
            name = f"{root}/{kind}-op{count[root, kind]}/{op.kind}_{place}"
        else:
            kind = _kind_of(graph, op, found[2] if found is not None else "")
            name = f"{root}/{kind}-op{count[root, kind]}"
            count[root, kind] += 1
        out.append(replace(op, name=name, scope=cell))
    return out


def _kind_of(graph: OpGraph, op: Op, told: str) -> str:
    """The primitive of an operator; what adds a vector of parameters to a product is `BiasAdd`."""
    if told and told != "TupleGetItem" and (told in {"Muls", "Adds"} or told not in _KINDS):
        return told
    if op.kind in RESHAPES:
        return op.kind
    view = OpView(op, graph)
    name = primitive_form(view, lookup(op.kind).rule(view)).name
    return BIAS_ADD if name == "Add" and _is_bias(graph, op) else name or op.kind


def _is_bias(graph: OpGraph, op: Op) -> bool:
    makers = graph.producers()
    for one, other in (op.inputs, op.inputs[::-1]):
        tensor, maker = graph.tensors[other], makers.get(one)
        if tensor.role is not Role.PARAMETER or maker is None:
            continue
        if lookup(maker.kind).engine in {Engine.MATRIX, Engine.CONVOLUTION}:
            return sum(size > 1 for size in tensor.dims) <= 1
    return False


def _primitives(graph: OpGraph) -> Iterable[FilePrimitive]:
    """What MindSpore's files go by."""
    makers = graph.producers()
    for op in graph.ops:
        if "/" in op.name.rpartition("-op")[2]:
            continue
        kind = op.name.rpartition("/")[2].rpartition("-op")[0]
        operands, names = [], []
        for name in (n for n in op.inputs if n):
            source = name
            while (maker := makers.get(source)) is not None and maker.name.startswith(
                f"{op.name}/"
            ):
                source = maker.inputs[0]
            tensor = graph.tensors[source]
            if kind in {"Muls", "Adds"} and tensor.role is Role.CONSTANT:
                continue
            dims = tensor.dims
            if kind == BIAS_ADD and tensor.role is Role.PARAMETER:
                dims = (tensor.elements,)
            operands.append(dims)
            made = makers.get(source)
            names.append(made.name if made is not None else tensor.source or source)
        yield FilePrimitive(op.name, kind, tuple(operands), tuple(names))
