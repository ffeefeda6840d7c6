"""What the tensors of an imported graph are for: inputs, weights, statistics, constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from importers.errors import ModelError
from importers.onnx_facts import TensorFacts
from ir.graph import Op, OpGraph, Role, Tensor
from ir.ops import OperatorEntry, lookup

_GRADIENT_NAME = re.compile(r"^grad[._/](?P<a>.+)$|^(?P<b>.+)[._]grad(ient)?$")


def tensor_table(
    ops: Sequence[Op], inputs: Sequence[str], outputs: Sequence[str], facts: TensorFacts
) -> dict[str, Tensor]:
    """Every tensor that the operators, inputs and outputs name, with its role.

    Raises:
        ModelError: the dims of one of them are not known.
    """
    weights = _weight_roles(ops, facts)
    given = set(inputs)
    touched = [n for op in ops for n in (*op.inputs, *op.outputs) if n]
    table: dict[str, Tensor] = {}
    for name in dict.fromkeys([*inputs, *touched, *outputs]):
        if name not in facts.dims:
            raise ModelError(
                f"the size of {name!r} cannot be known before the model runs",
                f"tensor {name!r}",
                "export with static shapes, or annotate the tensor in value_info",
            )
        if name in weights:
            role = weights[name]
        elif name in given:
            role = Role.INPUT
        elif name in facts.constant or name in facts.weights:
            role = Role.CONSTANT
        else:
            role = Role.ACTIVATION
        table[name] = Tensor(name, facts.dims[name], facts.dtype[name], role)
    return table


def _weight_roles(ops: Sequence[Op], facts: TensorFacts) -> dict[str, Role]:
    """Which stored numbers are trained, which are statistics, which are plain constants."""
    meant: dict[str, set[str]] = {}
    for op in ops:
        entry = lookup(op.kind)
        for index, name in enumerate(op.inputs):
            meant.setdefault(name, set()).add(_use(entry, index))
    roles: dict[str, Role] = {}
    for name in sorted(facts.weights | facts.filled):
        uses = meant.get(name, set())
        if uses == {"buffer"}:
            roles[name] = Role.BUFFER
        elif "weight" in uses or name in facts.weights:
            roles[name] = Role.PARAMETER
    return roles


def _use(entry: OperatorEntry, index: int) -> str:
    if index in entry.buffer_operands:
        return "buffer"
    return "weight" if index in entry.parameter_operands else "plain"


def with_gradients(graph: OpGraph) -> OpGraph:
    """Mark parameters and their gradients in a traced training step.

    Its outputs are called `grad.NAME`, with an input `NAME` of equal dims.
    """
    gradients: dict[str, str] = {}
    for output in graph.outputs:
        parameter = _differentiated(output, graph)
        if parameter:
            gradients[parameter] = output
    if not gradients:
        return graph
    tensors = dict(graph.tensors)
    for name in gradients:
        tensors[name] = replace(tensors[name], role=Role.PARAMETER)
    note = f"a traced training step: {len(gradients)} gradients are outputs of the graph"
    return replace(
        graph,
        tensors=tensors,
        inputs=tuple(n for n in graph.inputs if n not in gradients),
        gradients=gradients,
        notes=(*graph.notes, note),
    )


def _differentiated(output: str, graph: OpGraph) -> str:
    """The parameter whose gradient an output is, by its name."""
    match = _GRADIENT_NAME.match(output)
    if not match:
        return ""
    stem = match["a"] or match["b"]
    for candidate in (stem, f"param.{stem}", f"params.{stem}", f"parameter.{stem}"):
        found = graph.tensors.get(candidate)
        if (
            found
            and found.role in {Role.INPUT, Role.PARAMETER}
            and found.dims == graph.tensors[output].dims
        ):
            return candidate
    return ""
