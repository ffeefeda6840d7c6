"""The shift by the largest value in a softmax has no gradient.

`x - max(x)` inside a softmax or its logarithm changes no probability, so the derivative through
the maximum is zero. Exporters that
write a softmax in small operators leave the maximum as an operator that would get a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ir.graph import Op, OpGraph


def stop_shift_gradients(graph: OpGraph) -> OpGraph:
    """The graph with `stop_gradient` on every maximum that only shifts a softmax."""
    readers = graph.consumers()
    ops = [
        replace(op, attributes={**op.attributes, "stop_gradient": 1})
        if op.kind == "ReduceMax" and _only_shifts(op, readers, graph)
        else op
        for op in graph.ops
    ]
    return replace(graph, ops=tuple(ops))


def _only_shifts(maximum: Op, readers: Mapping[str, Sequence[Op]], graph: OpGraph) -> bool:
    source, result = maximum.inputs[0], maximum.outputs[0]
    if result in graph.outputs:
        return False
    shifted = readers.get(result, [])
    return bool(shifted) and all(
        op.kind == "Sub"
        and op.inputs == (source, result)
        and _is_softmax(op.outputs[0], maximum.attributes.get("axes"), readers, graph)
        for op in shifted
    )


def _is_softmax(
    shifted: str, axes: object, readers: Mapping[str, Sequence[Op]], graph: OpGraph
) -> bool:
    """Whether a shifted tensor only feeds `exp(s) / sum(exp(s))` or `s - log(sum(exp(s)))`."""
    if shifted in graph.outputs:
        return False
    exps = [op for op in readers.get(shifted, []) if op.kind == "Exp"]
    others = [op for op in readers.get(shifted, []) if op.kind != "Exp"]
    if len(exps) != 1 or exps[0].outputs[0] in graph.outputs:
        return False
    power = exps[0].outputs[0]
    sums = [op for op in readers.get(power, []) if op.kind == "ReduceSum"]
    if len(sums) != 1 or sums[0].attributes.get("axes") != axes:
        return False
    total = sums[0].outputs[0]
    quotients = [op for op in readers.get(power, []) if op.kind == "Div"]
    if len(quotients) + 1 != len(readers.get(power, [])) or total in graph.outputs:
        return False
    if any(op.inputs != (power, total) for op in quotients):
        return False
    rest = [op for op in readers.get(total, []) if op not in quotients]
    logs = {op.outputs[0] for op in rest if op.kind == "Log"}
    if len(logs) != len(rest):
        return False
    return all(
        op.kind == "Sub" and op.inputs[0] == shifted and op.inputs[1] in logs for op in others
    ) and all(op in others for name in logs for op in readers.get(name, []))
