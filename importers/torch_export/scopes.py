"""Module paths of a traced training step, which tracers do not note.

An operator that reads a parameter is in the parameter's module, others are where their operand
comes from, and a backward operator is where its forward operator is.
"""

from __future__ import annotations

from dataclasses import replace

from ir.graph import OpGraph, Role
from ir.pairing import pairs


def with_scopes(graph: OpGraph) -> OpGraph:
    """The graph with a scope on every operator that has none and can be given one."""
    if not graph.is_training_step:
        return graph
    forward_of = pairs(graph)
    scopes: dict[str, str] = {op.name: op.scope for op in graph.ops}
    made_in: dict[str, str] = {
        t.name: t.name.rpartition(".")[0]
        for t in graph.tensors.values()
        if t.role is Role.PARAMETER
    }
    for op in graph.ops:
        if op.name in forward_of:
            continue
        weights = [n for n in op.inputs if n and graph.tensors[n].role is Role.PARAMETER]
        near = [made_in[n] for n in (*weights, *op.inputs) if made_in.get(n)]
        scopes[op.name] = op.scope or (near[0] if near else "")
        made_in.update(dict.fromkeys(op.outputs, scopes[op.name]))
    for backward, forward in forward_of.items():
        scopes[backward] = scopes[backward] or scopes[forward]
    note = f"{len(forward_of)} backward operators are paired with forward ones by data flow"
    ops = tuple(replace(op, scope=scopes[op.name]) for op in graph.ops)
    return replace(graph, ops=ops, notes=(*graph.notes, note))
