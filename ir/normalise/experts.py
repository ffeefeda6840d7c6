"""Mixtures of experts that gather one weight per token become grouped expert products.

Exporters write TopK, then a gather of a whole expert weight for every token, then a batched
product: the gathered weights would be terabytes. Here the tokens are dispatched to slots of their
expert instead (balanced load), multiplied there, and combined. What lies between two products of
the same routing stays in the slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ir.graph import AttributeValue, Op, OpGraph, Role, Tensor, unused_name
from ir.ops import OpView, lookup
from ir.ops.contraction import matmul_rule
from ir.ops.elementwise import BIAS_ADD
from ir.ops.experts import COMBINE, DISPATCH, EXPERT_MATMUL
from ir.ops.indexing import ROW_LOOKUPS

_MOVABLE = frozenset({"axes", "slice_axes", "perm", "starts", "ends", "steps"})
"""Attributes with a number for some dimensions that are named apart, or for all in `perm`."""


@dataclass(frozen=True, slots=True)
class _Gathered:
    gather: Op
    product: Op
    tokens: str
    weight: Tensor
    row: bool


def group_experts(graph: OpGraph) -> OpGraph:
    """The graph with gathered expert weights turned into grouped products."""
    matches = {m.product.name: m for m in _matches(graph)}
    if not matches:
        return graph
    tensors = dict(graph.tensors)
    gathers = {m.gather.name for m in matches.values()}
    ops: list[Op] = []
    for op in graph.ops:
        if op.name in matches:
            ops += _grouped(matches[op.name], tensors)
        elif op.name not in gathers:
            ops.append(op)
    graph = _in_slots(replace(graph, ops=tuple(ops), tensors=tensors))
    return graph.with_live_ops(graph.ops)


def _matches(graph: OpGraph) -> list[_Gathered]:
    consumers = graph.consumers()
    found: list[_Gathered] = []
    for op in graph.ops:
        if not _picks_experts(op, graph) or len(consumers.get(op.outputs[0], [])) != 1:
            continue
        product = consumers[op.outputs[0]][0]
        flipped = product.attributes.get("trans_a") or product.attributes.get("trans_b")
        if lookup(product.kind).rule is not matmul_rule or flipped:
            continue
        row = product.inputs[1] == op.outputs[0]
        tokens = product.inputs[0] if row else product.inputs[1]
        dims = graph.tensors[tokens].dims
        slots = graph.tensors[op.outputs[0]].dims[0]
        if len(dims) == 3 and dims[0] == slots and dims[1 if row else 2] == 1:
            found.append(_Gathered(op, product, tokens, graph.tensors[op.inputs[0]], row))
    return found


def _picks_experts(op: Op, graph: OpGraph) -> bool:
    """Whether an operator looks up one whole matrix of a stack of weights for every index."""
    if op.kind not in ROW_LOOKUPS or op.outputs[0] in graph.outputs:
        return False
    if op.attributes.get("axis", 0) != 0 or op.attributes.get("batch_dims", 0):
        return False
    weight, index = (graph.tensors[n] for n in op.inputs[:2])
    picked = graph.tensors[op.outputs[0]].dims
    return (
        weight.role is Role.PARAMETER
        and len(weight.dims) == 3
        and picked == (index.elements, *weight.dims[1:])
    )


def _grouped(match: _Gathered, tensors: dict[str, Tensor]) -> list[Op]:
    name, scope = match.product.name, match.product.scope
    index = match.gather.inputs[1]
    tokens, result = tensors[match.tokens], tensors[match.product.outputs[0]]
    experts = match.weight.dims[0]
    slots = -(-tokens.dims[0] // experts)
    sent = unused_name(f"{name}/slots", tensors)
    made = unused_name(f"{name}/expert_result", tensors)
    tensors[sent] = Tensor(sent, (experts, slots, *tokens.dims[1:]), tokens.dtype)
    tensors[made] = Tensor(made, (experts, slots, *result.dims[1:]), result.dtype)
    attributes: dict[str, AttributeValue] = {"row": 1} if match.row else {}
    return [
        Op(f"{name}/dispatch", DISPATCH, (match.tokens, index), (sent,), {}, scope),
        Op(name, EXPERT_MATMUL, (sent, match.weight.name), (made,), attributes, scope),
        Op(f"{name}/combine", COMBINE, (made, index), match.product.outputs, {}, scope),
    ]


def _in_slots(graph: OpGraph) -> OpGraph:
    """Run what lies between a combine and the next dispatch of the same tokens in the slots."""
    tensors = dict(graph.tensors)
    slotted: dict[str, tuple[str, str]] = {}
    alias: dict[str, str] = {}
    ops: list[Op] = []
    for original in graph.ops:
        op = replace(original, inputs=tuple(alias.get(n, n) for n in original.inputs))
        if op.kind == COMBINE:
            slotted[op.outputs[0]] = (op.inputs[0], op.inputs[1])
        elif op.kind == DISPATCH and slotted.get(op.inputs[0], ("", ""))[1] == op.inputs[1]:
            alias[op.outputs[0]] = slotted[op.inputs[0]][0]
            continue
        else:
            ops += _moved(op, graph, slotted, tensors)
        ops.append(op)
    return replace(graph, ops=tuple(ops), tensors=tensors)


def _moved(
    op: Op, graph: OpGraph, slotted: dict[str, tuple[str, str]], tensors: dict[str, Tensor]
) -> list[Op]:
    data = [
        n for n in op.inputs if n and graph.tensors.get(n, tensors[n]).role is not Role.CONSTANT
    ]
    if not data or any(n not in slotted for n in data) or len({slotted[n][1] for n in data}) != 1:
        return []
    if op.parts or not _knows_axes(op) or not _leading_passes(op, graph):
        return []
    shape = tensors[slotted[data[0]][0]].dims[:2]
    index = slotted[data[0]][1]
    outputs: list[str] = []
    for name in op.outputs:
        moved = unused_name(f"{name}/slots", tensors)
        tensors[moved] = replace(tensors[name], name=moved, dims=(*shape, *tensors[name].dims[1:]))
        slotted[name] = (moved, index)
        outputs.append(moved)
    inputs = tuple(slotted[n][0] if n in slotted else n for n in op.inputs)
    return [Op(f"{op.name}/slots", op.kind, inputs, tuple(outputs), _shifted(op), op.scope)]


def _knows_axes(op: Op) -> bool:
    """Whether every list of the operator is one that can be moved by a dimension, or needs not."""
    lists = {k for k, v in op.attributes.items() if isinstance(v, tuple)}
    return lists <= _MOVABLE and (op.kind != BIAS_ADD or "axis" in op.attributes)


def _leading_passes(op: Op, graph: OpGraph) -> bool:
    """Whether dimension 0 of every tensor is one factor that all share, and no constant reaches
    it.
    """
    rule = lookup(op.kind).rule(OpView(op, graph))
    heads = {m[0] if m else () for m in (*rule.operands, *rule.results) if m is not None}
    constants = [n for n in op.inputs if n and graph.tensors[n].role is Role.CONSTANT]
    rank = len(graph.tensors[op.outputs[0]].dims)
    return (
        len(heads) == 1
        and len(next(iter(heads))) == 1
        and all(len(graph.tensors[n].dims) < rank for n in constants)
    )


def _shifted(op: Op) -> dict[str, AttributeValue]:
    """Attributes with every axis after the first one further."""
    out = dict(op.attributes)
    for key in ("axis", "axes", "slice_axes", "perm"):
        value = out.get(key)
        if isinstance(value, int):
            out[key] = value + 1
        elif isinstance(value, tuple):
            moved = tuple(int(v) + 1 for v in value)
            out[key] = (0, *moved) if key == "perm" else moved
    return out
