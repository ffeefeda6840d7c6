"""What must hold in an ONNX graph before it is read: names, types, sizes, order of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import PurePosixPath, PureWindowsPath

import onnx

from importers.errors import ModelError
from importers.onnx_guards import check_node
from ir.dtypes import dtype_bits

MAX_DIM = 2**40
"""Elements along one dimension."""
MAX_TENSOR_ELEMENTS = 2**52
"""Elements of one tensor: counts stay exact in floating point."""
_AGAIN = "export the model again"
_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}
_CODES = {name: text for text, name in _NAMES.items()}


def dtype_name(code: int, where: str) -> str:
    """Name of an ONNX element type.

    Raises:
        ModelError: the code is not one of ONNX.
    """
    try:
        name = onnx.TensorProto.DataType.Name(code)
        name = _NAMES.get(name, name.lower())
        dtype_bits(name)
    except ValueError:
        raise ModelError(
            f"unknown element type {code}", where, "export with an element type that ONNX defines"
        ) from None
    return name


def type_code(dtype: str) -> int:
    """ONNX's number of an element type."""
    return int(onnx.TensorProto.DataType.Value(_CODES.get(dtype, dtype.upper())))


def check_dims(dims: Iterable[int], where: str) -> None:
    """Raise `ModelError` for a negative dimension or a tensor that no machine holds."""
    elements = 1
    for dim in dims:
        elements *= dim
        if not 0 <= dim <= MAX_DIM or elements > MAX_TENSOR_ELEMENTS:
            raise ModelError(f"impossible dims {list(dims)}", where, _AGAIN)


def check_graph(
    graph: onnx.GraphProto, where: str, outer: tuple[AbstractSet[str], ...] = ()
) -> set[str]:
    """Check a graph and its sub-graphs, and put its nodes in an order in which they can run.

    Args:
        graph: changed in place if its nodes are out of order.
        where: name of the file, for messages.
        outer: names that the graphs around this one make.

    Returns:
        What the graph reads from the graphs around it.

    Raises:
        ModelError: the first thing that is wrong.
    """
    known = _given(graph, where, check_inputs=not outer)
    stored = {t.name: tuple(t.dims) for t in graph.initializer}
    for index, node in enumerate(graph.node):
        place = f"{describe(node, index)} of {where}"
        _check_texts(node, place)
        _check_attribute_tensors(node, place)
        check_node(node, stored, place)
    makers = _makers(graph, known, where)
    scopes = (*outer, known, makers.keys())
    reads = [_reads(node, where, scopes) for node in graph.node]
    _check_sources(graph, reads, scopes, where)
    _sort_nodes(graph, reads, makers, where)
    used = {n for names in reads for n in names} | {o.name for o in graph.output}
    return used - known - makers.keys()


def _given(graph: onnx.GraphProto, where: str, *, check_inputs: bool) -> set[str]:
    """Names of what a graph stores and takes."""
    _check_notes(graph, where)
    known: set[str] = set()
    for tensor in _initializers(graph):
        _enter(tensor.name, known, f"an initializer of {where}")
        check_tensor(tensor, f"initializer {tensor.name!r} of {where}")
    stored = frozenset(known)
    for value in graph.input:
        if value.name not in stored:
            _enter(value.name, known, f"an input of {where}")
            if check_inputs:
                _check_input(value, where)
    return known


def _reads(node: onnx.NodeProto, where: str, scopes: tuple[AbstractSet[str], ...]) -> set[str]:
    """Operands of a node, and what its sub-graphs, which are checked here, read from outside."""
    names = {n for n in node.input if n}
    for inner in subgraphs(node):
        names |= check_graph(inner, where, scopes)
    return names


def describe(node: onnx.NodeProto, index: int | str = "") -> str:
    """Text that finds a node again."""
    label = node.name or next((n for n in node.output if n), "") or index
    return f"node {label} ({node.op_type})"


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Bodies of a control-flow node."""
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        found += attribute.graphs
    return found


def captured(node: onnx.NodeProto) -> list[str]:
    """Tensors that the sub-graphs of a node read from the graphs around them."""
    names: list[str] = []
    for sub in subgraphs(node):
        inner = {t.name for t in _initializers(sub)} | {i.name for i in sub.input}
        inner.update(n for child in sub.node for n in child.output)
        for child in sub.node:
            names += [n for n in (*child.input, *captured(child)) if n and n not in inner]
        names += [o.name for o in sub.output if o.name not in inner]
    return list(dict.fromkeys(names))


def check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    """Raise `ModelError` for a stored tensor of unknown type, impossible dims, or hidden source."""
    dtype_name(tensor.data_type, where)
    check_dims(tensor.dims, where)
    for entry in tensor.external_data:
        if entry.key == "location" and _leaves_folder(entry.value):
            raise ModelError(
                f"external data at {entry.value!r} lies outside the model's folder",
                where,
                "keep the weight files in the model's folder and refer to them by relative paths",
            )


def _leaves_folder(location: str) -> bool:
    """Whether a path could point out of the folder; nothing is read from there, in any case."""
    posix, windows = PurePosixPath(location), PureWindowsPath(location)
    absolute = posix.is_absolute() or windows.is_absolute() or windows.drive or windows.root
    return bool(absolute) or ".." in posix.parts or ".." in windows.parts or "\0" in location


def _enter(name: object, known: set[str], where: str) -> None:
    if not isinstance(name, str) or not name:
        raise ModelError(f"{where} has {name!r} for a name", where, _AGAIN)
    if name in known:
        raise ModelError(f"tensor {name!r} is defined twice", where, _AGAIN)
    known.add(name)


def _initializers(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Stored tensors; a sparse one as its dims and type without numbers."""
    yield from graph.initializer
    for item in graph.sparse_initializer:
        yield dense_form(item)


def dense_form(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """A sparse tensor as the dense one that it stands for, without its numbers."""
    tensor = onnx.TensorProto(name=sparse.values.name, data_type=sparse.values.data_type)
    tensor.dims.extend(sparse.dims)
    tensor.external_data.extend(sparse.values.external_data)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    return tensor


def _check_input(value: onnx.ValueInfoProto, where: str) -> None:
    place = f"input {value.name!r} of {where}"
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise ModelError(
            f"the input is a {kind or 'value without type'}, not a tensor",
            place,
            "export with tensors as inputs",
        )
    dtype_name(value.type.tensor_type.elem_type, place)
    if not value.type.tensor_type.HasField("shape"):
        raise ModelError("the input has no shape", place, "export with the shape of every input")
    for dim in value.type.tensor_type.shape.dim:
        if dim.HasField("dim_value") and not 0 < dim.dim_value <= MAX_DIM:
            raise ModelError(
                f"impossible dimension {dim.dim_value}",
                place,
                "dimensions are positive, -1 for open, or names to bind",
            )


def _check_notes(graph: onnx.GraphProto, where: str) -> None:
    """Names in the noted shapes are text."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        noted: list[object] = [value.name]
        noted += [d.dim_param for d in value.type.tensor_type.shape.dim]
        wrong = [t for t in noted if not isinstance(t, str)]
        if wrong:
            raise ModelError(f"the name {wrong[0]!r} is no text", f"a shape of {where}", _AGAIN)


def _check_texts(node: onnx.NodeProto, where: str) -> None:
    texts: tuple[object, ...] = (node.name, node.op_type, node.domain, *node.input, *node.output)
    wrong = [t for t in texts if not isinstance(t, str)]
    if wrong:
        raise ModelError(f"the name {wrong[0]!r} is no text", where, _AGAIN)
    if not node.op_type:
        raise ModelError("the node says not what it computes", where, _AGAIN)
    if not any(node.output):
        raise ModelError("the node has no result", where, _AGAIN)


def _check_attribute_tensors(node: onnx.NodeProto, where: str) -> None:
    for attribute in node.attribute:
        for tensor in ([attribute.t] if attribute.HasField("t") else []) + list(attribute.tensors):
            check_tensor(tensor, where)
        if attribute.HasField("sparse_tensor"):
            check_tensor(dense_form(attribute.sparse_tensor), where)


def _makers(graph: onnx.GraphProto, known: AbstractSet[str], where: str) -> dict[str, int]:
    makers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and (name in makers or name in known):
                raise ModelError(
                    f"tensor {name!r} is made twice", f"{describe(node, index)} of {where}", _AGAIN
                )
            if name:
                makers[name] = index
    return makers


def _check_sources(
    graph: onnx.GraphProto,
    reads: Sequence[AbstractSet[str]],
    scopes: tuple[AbstractSet[str], ...],
    where: str,
) -> None:
    for index, (node, names) in enumerate(zip(graph.node, reads, strict=True)):
        missing = sorted(n for n in names if not any(n in scope for scope in scopes))
        if missing:
            raise ModelError(
                f"{missing[0]!r} is read but made by no node, input or initializer",
                f"{describe(node, index)} of {where}",
                f"{_AGAIN}; the graph is incomplete",
            )
    lost = [o.name for o in graph.output if not any(o.name in scope for scope in scopes)]
    if lost:
        raise ModelError(f"output {lost[0]!r} is made by no node", where, _AGAIN)


def _sort_nodes(
    graph: onnx.GraphProto, reads: Sequence[AbstractSet[str]], makers: dict[str, int], where: str
) -> None:
    """Order the nodes so that every operand is made before it is read."""
    needs = [sorted({makers[n] for n in names if n in makers}) for names in reads]
    if all(n < index for index, need in enumerate(needs) for n in need):
        return
    import networkx as nx  # noqa: PLC0415  a quarter of a second that few files need

    feeds: nx.DiGraph[int] = nx.DiGraph()
    feeds.add_nodes_from(range(len(needs)))
    feeds.add_edges_from((n, index) for index, need in enumerate(needs) for n in need)
    order: list[int] = []
    with suppress(nx.NetworkXUnfeasible):  # of a graph with a cycle what comes before it
        for index in nx.topological_sort(feeds):
            order.append(index)  # noqa: PERF402
    if len(order) != len(needs):
        stuck = min(set(range(len(needs))) - set(order))
        raise ModelError(
            "the graph has a cycle", f"{describe(graph.node[stuck], stuck)} of {where}", _AGAIN
        )
    copies = [onnx.NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
    del graph.node[:]
    graph.node.extend(copies)
