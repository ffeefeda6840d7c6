"""The branch that an `If` with a constant condition takes, for the graph around it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from importers.errors import ModelError
from importers.onnx_checks import describe, subgraphs
from importers.onnx_values import Array


def known_branch(node: onnx.NodeProto, values: Mapping[str, Array]) -> onnx.GraphProto | None:
    """As `taken_branch`; `None` for what is no `If`, and where its condition is not known.

    Raises:
        ModelError: as `taken_branch`, or the condition is not one truth value.
    """
    if node.op_type != "If" or not node.input or node.input[0] not in values:
        return None
    condition = values[node.input[0]]
    if condition.size != 1:
        raise ModelError(
            f"the condition has {condition.size} elements, not one",
            describe(node),
            "export the model again",
        )
    return taken_branch(node, condition=bool(condition.reshape(-1)[0]))


def taken_branch(node: onnx.NodeProto, *, condition: bool) -> onnx.GraphProto:
    """A copy of the taken branch whose results have the names that the node gives them.

    Other names made inside get the name of the node's first result as a prefix: sibling branches
    may use the same ones.

    Raises:
        ModelError: the branch is missing, or has another number of results than the node.
    """
    wanted = "then_branch" if condition else "else_branch"
    branch = next((a.g for a in node.attribute if a.name == wanted and a.HasField("g")), None)
    if branch is None or len(branch.output) != len(node.output):
        problem = "is missing" if branch is None else "has another number of results"
        raise ModelError(f"the {wanted} {problem}", describe(node), "export the model again")
    copy = onnx.GraphProto()
    copy.CopyFrom(branch)
    prefix = next(n for n in node.output if n)
    computed = {n for child in copy.node for n in child.output if n}
    names = {n: f"{prefix}/{n}" for n in computed | {t.name for t in copy.initializer}}
    names |= {t.values.name: f"{prefix}/{t.values.name}" for t in copy.sparse_initializer}
    results = dict(zip(node.output, (o.name for o in branch.output), strict=True))
    direct = {inner: outer for outer, inner in results.items() if outer and inner in computed}
    names |= direct
    _rename(copy, names)
    for outer, inner in results.items():
        if outer and direct.get(inner) != outer:
            copy.node.add(op_type="Identity", input=[names.get(inner, inner)], output=[outer])
    return copy


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for value in (*graph.value_info, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for side in (node.input, node.output):
            for position, name in enumerate(side):
                side[position] = names.get(name, name)
        for inner in subgraphs(node):
            own = {n for child in inner.node for n in child.output}
            own.update(t.name for t in inner.initializer)
            own.update(v.name for v in inner.input)
            _rename(inner, {k: v for k, v in names.items() if k not in own})
