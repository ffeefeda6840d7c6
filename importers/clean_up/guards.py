"""Guards of softmax against rows that are masked altogether, in the form that exporters write.

PyTorch asks the scores whether a row has any number that is not minus infinity; exporters of ONNX
ask the probabilities whether they are no numbers. Both are true for the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from importers.clean_up.moves import live
from ir.graph import Op, OpGraph, Tensor, unused_name

_ASKING = frozenset({"Cast", "Equal", "Not", "ReduceMax", "ReduceMin", "ReduceSum", "Greater"})


def with_plain_guards(graph: OpGraph) -> OpGraph:
    """The graph with such guards on the probabilities themselves."""
    makers = graph.producers()
    tensors = dict(graph.tensors)
    ops: list[Op] = []
    for op in graph.ops:
        softmax = _guarded(op, makers)
        if softmax is None:
            ops.append(op)
            continue
        chance = softmax.outputs[0]
        asked = unused_name(f"{chance}/nan", tensors)
        tensors[asked] = Tensor(asked, tensors[chance].dims, "bool")
        ops.append(Op(f"{op.name}/nan", "IsNaN", (chance,), (asked,), {}, op.scope))
        ops.append(replace(op, inputs=(asked, *op.inputs[1:])))
    return live(replace(graph, tensors=tensors), ops)


def _guarded(op: Op, makers: Mapping[str, Op]) -> Op | None:
    """The softmax that an operator guards: its condition follows from the scores alone."""
    softmax = makers.get(op.inputs[2]) if op.kind == "Where" else None
    if softmax is None or softmax.kind != "Softmax":
        return None
    name = op.inputs[0]
    for _ in range(8):
        maker = makers.get(name)
        if maker is None or maker.kind not in _ASKING:
            return None
        if softmax.inputs[0] in maker.inputs and maker.kind == "Equal":
            return softmax
        name = maker.inputs[0]
    return None
