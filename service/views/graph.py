"""The operator graph of a plan, with positions: blocks folded, operators, or all their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ir.folding import common_scope
from ir.graph import Op
from ir.ops import Engine, lookup
from ir.ops.indexing import ROW_LOOKUPS
from ir.plan import Plan
from report.operators import OperatorFacts, operator_facts
from service.views.blocks import Block, blocks_of, folded_name
from service.views.columns import Interned, rounded
from service.views.groups import grouped, module_path
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
_PRODUCTS = frozenset({Engine.MATRIX, Engine.CONVOLUTION})
_LETTER = 0.42
"""Rows that a letter of a name is wide."""
_NARROWEST, _WIDEST = 4.5, 9.0
"""Rows that a node is wide where each shows its name; longer names are cut."""


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
    group: str = ""
    """The module whose nodes it stands for."""


@dataclass(slots=True)
class _Drawing:
    nodes: list[_Node]
    edges: list[tuple[int, int]]
    blocks: list[tuple[str, int, list[int]]]
    """Name, how many equal ones it stands for, and its nodes."""


def graph_view(plan: Plan, level: Level, opened: Sequence[str] = ()) -> dict[str, Any]:
    """Nodes and edges as columns; y grows downwards, one unit is one row.

    Args:
        plan: any.
        level: how much is shown.
        opened: where blocks are folded, modules whose inside is shown.
    """
    facts = operator_facts(plan)
    blocks = blocks_of(plan, facts)
    if level is Level.FOLDED:
        drawing = _gathered(plan, _folded(plan, facts, blocks), opened)
    else:
        drawing = _whole(plan, facts, blocks, opened=level is Level.PARTS)
    drawing = _in_order(drawing)
    spread = _width_of_names(drawing) if level is Level.FOLDED else 1.0
    place = placed(len(drawing.nodes), drawing.edges, [own for _, _, own in drawing.blocks], spread)
    return {
        "level": level.value,
        "count": len(drawing.nodes),
        "nodes": _columns(drawing.nodes, facts, place),
        "edges": [list(edge) for edge in drawing.edges],
        "shapes": _shapes(plan, drawing) if level is Level.FOLDED else [],
        "blocks": [
            {"name": name, "count": count, "nodes": len(own)}
            | {"left": f.left, "top": f.top, "right": f.right, "bottom": f.bottom}
            for (name, count, own), f in zip(drawing.blocks, place.frames, strict=True)
        ],
    }


def _width_of_names(drawing: _Drawing) -> float:
    longest = max((len(node.label) for node in drawing.nodes), default=0)
    return min(_WIDEST, max(_NARROWEST, 1.0 + _LETTER * longest))


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
        "group": [n.group for n in nodes],
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
            label = _name_of(first.label, first.scope)
            nodes.append(_Node(first.name, label, members[0], len(alike), time_s, held))
        name = folded_name([block.name for block in alike])
        drawn.append((name, len(alike), list(range(start, len(nodes)))))
    pairs = ((node_of[a], node_of[b]) for a, b in _wires(plan.graph.ops))
    return _Drawing(nodes, list(dict.fromkeys(p for p in pairs if p[0] != p[1])), drawn)


def _gathered(plan: Plan, drawing: _Drawing, opened: Sequence[str]) -> _Drawing:
    """The same with modules in place of their nodes, where there are too many to read."""
    prefix = common_scope(op.scope for op in plan.operators)
    paths: list[tuple[str, ...]] = [()] * len(drawing.nodes)
    for name, _, own in drawing.blocks:
        for node in own:
            scope = plan.operators[drawing.nodes[node].operator].scope.removeprefix(prefix)
            paths[node] = module_path(name, scope)
    nodes: list[_Node] = []
    new: dict[int, int] = {}
    for group, members in grouped(paths, opened):
        new |= dict.fromkeys(members, len(nodes))
        nodes.append(_together(group, [drawing.nodes[m] for m in members]))
    pairs = ((new[a], new[b]) for a, b in drawing.edges)
    blocks = [
        (name, count, sorted({new[n] for n in own if paths[n][0] == name}))
        for name, count, own in drawing.blocks
    ]
    return _Drawing(nodes, list(dict.fromkeys(p for p in pairs if p[0] != p[1])), _apart(blocks))


def _apart(blocks: Sequence[tuple[str, int, list[int]]]) -> list[tuple[str, int, list[int]]]:
    """Each node in the first of the blocks that it stands for something of."""
    seen: set[int] = set()
    out = []
    for name, count, own in blocks:
        out.append((name, count, [n for n in own if n not in seen]))
        seen.update(own)
    return [block for block in out if block[2]]


def _together(group: str, members: Sequence[_Node]) -> _Node:
    """A module as one node."""
    if not group:
        return members[0]
    label = f"{group.rpartition('/')[2]} ({sum(m.count for m in members)})"
    first = min(members, key=lambda member: member.operator)
    return _Node(
        f"module {group}", label, first.operator, sum(m.count for m in members),
        sum(m.time_s for m in members), sum(m.held_bytes for m in members), group,
    )  # fmt: skip


def _shapes(plan: Plan, drawing: _Drawing) -> list[str]:
    """Of each edge, the dims of a tensor that goes along it."""
    ops = plan.graph.ops
    own: dict[int, set[str]] = {}
    out = []
    for source, target in drawing.edges:
        node = drawing.nodes[source]
        made = own.setdefault(source, {n for n in ops[node.operator].outputs if n})
        read = ops[drawing.nodes[target].operator].inputs
        names = [name for name in read if name in made] or (sorted(made) if not node.group else [])
        tensor = plan.graph.tensors.get(names[0]) if names else None
        out.append("" if tensor is None else " × ".join(map(str, tensor.dims)))
    return out


def _name_of(label: str, scope: str) -> str:
    """What a node is called: the last module of its scope where that says more than its kind.

    >>> _name_of("MatMul", "layers.0.self_attn.q_proj"), _name_of("Add", "layers.0")
    ('q_proj', 'Add')
    """
    last = scope.rpartition(".")[2].rpartition("/")[2]
    has_many = lookup(label).engine in _PRODUCTS or label in ROW_LOOKUPS
    return last if last and not last.isdecimal() and has_many else label


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
    """A node for each parameter, next to the first operator that reads it."""
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
