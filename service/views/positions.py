"""Where the nodes of an operator graph stand: layers from top to bottom, wrapped into columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ASPECT = 1.7
"""Width over height of the whole picture."""
_BETWEEN_BLOCKS = 1.0
_BETWEEN_COLUMNS = 2.0


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle around a block, in the same unit as the positions: one layer high, one node
    wide.
    """

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Placement:
    """Positions of all nodes; y grows downwards."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    frames: tuple[Frame, ...]
    """Of each block."""


def placed(
    count: int,
    edges: Iterable[tuple[int, int]],
    blocks: Sequence[Sequence[int]],
    spread: float = 1.0,
) -> Placement:
    """Layered positions of nodes, block below block, column beside column.

    Args:
        count: number of nodes.
        edges: from node to node; they lead from lower to higher numbers inside a block.
        blocks: the nodes of each block; every node is in one.
        spread: how wide a node is, in heights of a row.
    """
    sources: dict[int, list[int]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
    shapes = [_shape(block, sources) for block in blocks]
    tallest = max((len(s) for s in shapes), default=0)
    area = sum((len(s) + _BETWEEN_BLOCKS) * (_width(s) * spread + _BETWEEN_COLUMNS) for s in shapes)
    limit = max(tallest, math.sqrt(area / ASPECT))
    xs, ys = [0.0] * count, [0.0] * count
    frames: list[Frame] = []
    left, top, wide = 0.0, 0.0, 0.0
    for rows in shapes:
        if top > 0 and top + len(rows) > limit:
            left, top, wide = left + wide + _BETWEEN_COLUMNS, 0.0, 0.0
        width = _width(rows) * spread
        for depth, row in enumerate(rows):
            for slot, node in enumerate(row):
                xs[node] = left + slot * spread + (width - len(row) * spread) / 2
                ys[node] = top + depth
        frames.append(
            Frame(left, top, left + max(width - spread, 0.0), top + max(len(rows) - 1, 0))
        )
        top += len(rows) + _BETWEEN_BLOCKS
        wide = max(wide, width)
    return Placement(tuple(xs), tuple(ys), tuple(frames))


def _width(rows: Sequence[Sequence[int]]) -> float:
    return float(max((len(row) for row in rows), default=0))


def _shape(block: Sequence[int], sources: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The nodes of a block row by row, each below all its sources and near the mean of them."""
    inside = set(block)
    level: dict[int, int] = {}
    targets: dict[int, list[int]] = {}
    for node in sorted(block):
        own = [s for s in sources.get(node, ()) if s in inside]
        level[node] = 1 + max((level[s] for s in own if s in level), default=-1)
        for source in own:
            targets.setdefault(source, []).append(node)
    for node in sorted(block, reverse=True):
        if level[node] == 0 and node in targets:
            level[node] = max(0, min(level[t] for t in targets[node]) - 1)
    rows: list[list[int]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    slot: dict[int, float] = {}
    for node in sorted(block, key=lambda n: (level[n], n)):
        rows[level[node]].append(node)
    for row in rows:
        row.sort(key=lambda n: (_mean(slot[s] for s in sources.get(n, ()) if s in slot), n))
        slot |= {node: i - (len(row) - 1) / 2 for i, node in enumerate(row)}
    return rows


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0
