"""Chains of element-wise work become one fused operator, as kernel fusion runs them.

A producer joins its consumers when all of them are in the chain already, so that the chain has one
result and the graph stays free of cycles. This covers RMS normalisation, rotary embedding, gated
activations and the guards of exporters alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ir.graph import Op, OpGraph, Role
from ir.ops import lookup
from ir.ops.fused import FUSED

MAX_PARTS = 64
MAX_OPERANDS = 12


def fuse_elementwise(graph: OpGraph, apart: Collection[str] = ()) -> OpGraph:
    """The graph with chains of fusible operators as composites of kind `Fused`.

    Args:
        graph: the graph.
        apart: names of operators that stay by themselves.
    """
    consumers = graph.consumers()
    makers = graph.producers()
    position = {op.name: i for i, op in enumerate(graph.ops)}
    chain_of: dict[str, str] = {}
    chains: dict[str, list[Op]] = {}
    for root in reversed(graph.ops):
        if root.name in chain_of or not _may_join(root, apart):
            continue
        members = _grow(root, graph, makers, consumers, chain_of, position, apart)
        if len(members) > 1:
            chains[root.name] = members
            chain_of.update({m.name: root.name for m in members})
    ops: list[Op] = []
    for op in graph.ops:
        if op.name in chains:
            members = sorted(chains[op.name], key=lambda m: position[m.name])
            ops.append(_composite(op, members, graph))
        elif op.name not in chain_of:
            ops.append(op)
    return graph.with_ops(ops)


def _may_join(op: Op, apart: Collection[str]) -> bool:
    return (
        op.name not in apart and lookup(op.kind).fusible and len(op.outputs) == 1 and not op.parts
    )


def _grow(
    root: Op,
    graph: OpGraph,
    makers: Mapping[str, Op],
    consumers: Mapping[str, Sequence[Op]],
    chain_of: dict[str, str],
    position: dict[str, int],
    apart: Collection[str],
) -> list[Op]:
    members = {root.name: root}
    frontier = [root]
    while frontier and len(members) < MAX_PARTS:
        frontier.sort(key=lambda o: position[o.name])
        op = frontier.pop()
        for name in op.inputs:
            maker = makers.get(name)
            if (
                maker is None
                or maker.name in members
                or maker.name in chain_of
                or not _may_join(maker, apart)
            ):
                continue
            if name in graph.outputs or any(r.name not in members for r in consumers[name]):
                continue
            if len(_operands([*members.values(), maker])) > MAX_OPERANDS:
                continue
            members[maker.name] = maker
            frontier.append(maker)
            frontier += [members[r.name] for r in consumers[name] if r.name != op.name]
    return list(members.values())


def _operands(members: list[Op]) -> list[str]:
    made = {n for m in members for n in m.outputs}
    return list(dict.fromkeys(n for m in members for n in m.inputs if n and n not in made))


def _composite(root: Op, members: list[Op], graph: OpGraph) -> Op:
    operands = _operands(members)
    activations = [n for n in operands if graph.tensors[n].role is Role.ACTIVATION]
    label = _label([m.kind for m in members], len(activations))
    return Op(
        f"{root.name}/fused",
        FUSED,
        tuple(operands),
        root.outputs,
        {"label": label},
        root.scope,
        tuple(members),
    )


def _label(kinds: list[str], operands: int) -> str:
    """A name that people know for a chain that reads so many activations, else its parts."""
    present = set(kinds)
    if {"Pow", "ReduceMean"} <= present and present & {"Sqrt", "Reciprocal"}:
        return "RMSNormalization"
    if "Concat" in present and present & {"Slice", "Neg"}:
        return "RotaryEmbedding"
    if present <= {"Sigmoid", "Mul", "Cast"} and kinds.count("Mul") > 1 and operands > 1:
        return "SwiGLU"
    if "Sigmoid" in present:
        return "Swish"
    if "Tanh" in present and "Pow" in present:
        return "Gelu"
    distinct = list(dict.fromkeys(kinds))
    return "+".join(distinct[:4]) + ("+…" if len(distinct) > 4 else "")
