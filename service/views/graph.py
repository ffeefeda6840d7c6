"""The operator graph of a plan, with positions: blocks folded, operators, or all their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ir.graph import Op
from ir.plan import Plan
from report.operators import OperatorFacts, operator_facts
from service.views.blocks import Block, blocks_of, folded_name
from service.views.columns import Interned, rounded
from service.views.positions import Placement, placed


class Level(StrEnum):
    """How much of the graph is shown."""

    FOLDED = "folded"
    """Equal blocks once, with their operators."""
    OPERATORS = "operators"
    """Every operator of the plan."""
    PARTS = "parts"
    """Composite operators opened, parameters too."""


PARAMETER = "parameter"
_WORDS = 4.5
"""Rows that a node is wide where each shows its name."""


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    label: str
    operator: int
    """Position of the operator in the plan that it is, or is a part or parameter of."""
    count: int = 1
    """Equal operators that it stands for."""
    time_s: float = 0.0
    held_bytes: float = 0.0


@dataclass(slots=True)
class _Drawing:
    nodes: list[_Node]
    edges: list[tuple[int, int]]
    blocks: list[tuple[str, int, list[int]]]
    """Name, how many equal ones it stands for, and its nodes."""


def graph_view(plan: Plan, level: Level) -> dict[str, Any]:
    """Nodes and edges as columns; y grows downwards, one unit is one row."""
    facts = operator_facts(plan)
    blocks = blocks_of(plan, facts)
    if level is Level.FOLDED:
        drawing = _folded(plan, facts, blocks)
    else:
        drawing = _whole(plan, facts, blocks, opened=level is Level.PARTS)
    drawing = _in_order(drawing)
    spread = _WORDS if level is Level.FOLDED else 1.0
    place = placed(len(drawing.nodes), drawing.edges, [own for _, _, own in drawing.blocks], spread)
    return {
        "level": level.value,
        "count": len(drawing.nodes),
        "nodes": _columns(drawing.nodes, facts, place),
        "edges": [list(edge) for edge in drawing.edges],
        "blocks": [
            {"name": name, "count": count, "nodes": len(own)}
            | {"left": f.left, "top": f.top, "right": f.right, "bottom": f.bottom}
            for (name, count, own), f in zip(drawing.blocks, place.frames, strict=True)
        ],
    }


def _columns(
    nodes: Sequence[_Node], facts: Sequence[OperatorFacts], place: Placement
) -> dict[str, Any]:
    labels, layouts = Interned[str](), Interned[str]()
    own = [facts[n.operator] for n in nodes]
    return {
        "name": [n.name for n in nodes],
        "operator": [f.planned.name for f in own],
        "label": [labels.number(n.label) for n in nodes],
        "labels": labels.values,
        "layout": [layouts.number(f.outputs or "scalar") for f in own],
        "layouts": layouts.values,
        "count": [n.count for n in nodes],
        "time_s": rounded(n.time_s for n in nodes),
        "held_bytes": rounded((n.held_bytes for n in nodes), 0),
        "x": rounded(place.x, 3),
        "y": rounded(place.y, 3),
    }


def _folded(plan: Plan, facts: Sequence[OperatorFacts], blocks: Sequence[Block]) -> _Drawing:
    """Equal blocks once; what they take and hold is summed over all of them."""
    kinds: dict[int, list[Block]] = {}
    for block in blocks:
        kinds.setdefault(block.kind, []).append(block)
    nodes: list[_Node] = []
    node_of: dict[int, int] = {}
    drawn: list[tuple[str, int, list[int]]] = []
    for alike in kinds.values():
        start = len(nodes)
        for members in zip(*(block.members for block in alike), strict=True):
            for member in members:
                node_of[member] = len(nodes)
            first = facts[members[0]].planned
            time_s = sum(facts[m].time_s for m in members)
            held = sum(facts[m].held_bytes for m in members)
            nodes.append(_Node(first.name, first.label, members[0], len(alike), time_s, held))
        name = folded_name([block.name for block in alike])
        drawn.append((name, len(alike), list(range(start, len(nodes)))))
    pairs = ((node_of[a], node_of[b]) for a, b in _wires(plan.graph.ops))
    return _Drawing(nodes, list(dict.fromkeys(p for p in pairs if p[0] != p[1])), drawn)


def _whole(
    plan: Plan, facts: Sequence[OperatorFacts], blocks: Sequence[Block], *, opened: bool
) -> _Drawing:
    """Every operator; opened, the parts of composites in their place, and the parameters."""
    ops: list[Op] = []
    owner: list[int] = []
    for index, op in enumerate(plan.graph.ops):
        found = tuple(_leaves(op)) if opened else (op,)
        ops += found
        owner += [index] * len(found)
    nodes = [
        _Node(op.name, op.label, at, 1, facts[at].time_s, facts[at].held_bytes)
        for op, at in zip(ops, owner, strict=True)
    ]
    edges = list(dict.fromkeys(_wires(ops)))
    if opened:
        _add_parameters(plan, ops, owner, nodes, edges)
    members: dict[int, list[int]] = {}
    for node, each in enumerate(nodes):
        members.setdefault(each.operator, []).append(node)
    drawn = [(b.name, 1, [n for m in b.members for n in members[m]]) for b in blocks]
    return _Drawing(nodes, edges, drawn)


def _add_parameters(
    plan: Plan,
    ops: Sequence[Op],
    owner: Sequence[int],
    nodes: list[_Node],
    edges: list[tuple[int, int]],
) -> None:
    """A node for each parameter, beside the first operator that reads it."""
    known = {t.name for t in plan.parameters}
    at: dict[str, int] = {}
    for index, op in enumerate(ops):
        for name in op.inputs:
            if name in known:
                if name not in at:
                    at[name] = len(nodes)
                    nodes.append(_Node(name, PARAMETER, owner[index]))
                edges.append((at[name], index))


def _leaves(op: Op) -> Iterator[Op]:
    """The operators that a composite stands for."""
    for part in op.parts:
        yield from _leaves(part)
    if not op.parts:
        yield op


def _wires(ops: Sequence[Op]) -> Iterator[tuple[int, int]]:
    """Which operator reads what which other makes."""
    maker: dict[str, int] = {}
    for index, op in enumerate(ops):
        for name in op.inputs:
            if name in maker:
                yield maker[name], index
        maker |= dict.fromkeys((n for n in op.outputs if n), index)


def _in_order(drawing: _Drawing) -> _Drawing:
    """The same with parameters before the operators that read them."""
    ranked = sorted(
        range(len(drawing.nodes)),
        key=lambda n: (drawing.nodes[n].operator, drawing.nodes[n].label != PARAMETER, n),
    )
    new = {old: number for number, old in enumerate(ranked)}
    return _Drawing(
        [drawing.nodes[n] for n in ranked],
        [(new[a], new[b]) for a, b in drawing.edges],
        [(name, count, sorted(new[n] for n in own)) for name, count, own in drawing.blocks],
    )
