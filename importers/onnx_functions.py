"""Local functions of a model are inlined, unless they call themselves or multiply without end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx import inliner

from importers.errors import ModelError

MAX_DEPTH = 100
"""Functions that call functions; exporters stay below ten."""

FunctionKey = tuple[str, str, str]


def inline_functions(model: onnx.ModelProto, where: str, max_nodes: int) -> onnx.ModelProto:
    """The model with every call of a local function replaced by the function's nodes.

    Raises:
        ModelError: functions that call themselves, or that would unfold to too many nodes.
    """
    if not model.functions:
        return model
    functions = {_key(f.domain, f.name, f.overload): f for f in model.functions}
    counted: dict[FunctionKey, int] = {}
    for key in functions:
        _count(key, functions, counted, (), where)
    total = sum(
        counted.get(_key(n.domain, n.op_type, n.overload), 1) for n in _nodes(model.graph.node)
    )
    if total > max_nodes:
        raise ModelError(
            f"the model's functions unfold to {total} nodes, more than {max_nodes}",
            where,
            "export the model without nested functions",
        )
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, TypeError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"a local function cannot be inlined: {str(error).strip().splitlines()[0]}",
            where,
            "export the model without local functions",
        ) from error


def _key(domain: str, name: str, overload: str) -> FunctionKey:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def _count(
    key: FunctionKey,
    functions: dict[FunctionKey, onnx.FunctionProto],
    counted: dict[FunctionKey, int],
    callers: tuple[FunctionKey, ...],
    where: str,
) -> int:
    """Nodes that one call of a function becomes."""
    if key in counted:
        return counted[key]
    if key in callers or len(callers) >= MAX_DEPTH:
        problem = "calls itself" if key in callers else f"is nested {MAX_DEPTH} functions deep"
        raise ModelError(
            f"function {key[1]!r} {problem}",
            f"functions of {where}",
            "export the model without local functions",
        )
    total = 0
    for node in _nodes(functions[key].node):
        callee = _key(node.domain, node.op_type, node.overload)
        total += (
            _count(callee, functions, counted, (*callers, key), where) if callee in functions else 1
        )
    counted[key] = total
    return total


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their sub-graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(
                attribute.graphs
            ):
                yield from _nodes(graph.node)
