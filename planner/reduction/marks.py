"""Numbers that tell whether anything around a node changed.

Two nodes of one mark have the same costs, edges and memory, but for a chance of one in 2**64.
Whoever goes by marks may then miss something to reduce, and reduces nothing that must stay.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.network import FloatArray, IntArray, Network, offsets, runs
from planner.reduction.sides import Sides

Marks: TypeAlias = NDArray[np.uint64]

NO_MARKS: Marks = np.zeros(0, dtype=np.uint64)

_PLACE, _ROW, _FIRST, _SECOND, _SPAN = (
    np.array(
        [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F,
         0xE7037ED1A0B428DB], dtype=np.uint64,
    )
)  # fmt: skip
"""Odd numbers without a pattern in their bits."""


def marks_of(net: Network) -> Marks:
    """The mark of every node, shape (N,)."""
    marks = _joined(net.cost, net.first)
    u, v = net.edges[:, 0], net.edges[:, 1]
    ku, kv = net.sizes[u], net.sizes[v]
    rows = _joined(net.edge_cost, offsets(np.repeat(kv, ku)))
    edges = _stirred(_joined(rows, offsets(ku)))
    np.add.at(marks, u, _stirred(edges * _FIRST))
    np.add.at(marks, v, _stirred(edges * _SECOND))
    np.add.at(marks, net.span_node, _stirred(_joined(net.usage, net.span_first) * _SPAN))
    return marks


def marks_of_surroundings(net: Network, sides: Sides) -> Marks:
    """A number of every node for its costs and neighbours, shape (N,)."""
    marks = _joined(net.cost, net.first)
    node = np.repeat(np.arange(net.nodes), np.diff(sides.first))
    other = net.edges[sides.edge, 1 - sides.end].astype(np.uint64)
    np.add.at(marks, node, _stirred((other + np.uint64(1)) * _SPAN))
    return marks


def _joined(values: FloatArray | Marks, first: IntArray) -> Marks:
    """One number for each run of values, by their bits and places."""
    lengths = np.diff(first)
    if not len(lengths):
        return NO_MARKS
    place = runs(np.zeros_like(lengths), lengths).astype(np.uint64)
    # Zeros count by their places, so that runs of zeros of different lengths differ.
    parts = (values.view(np.uint64) + _ROW) * (_PLACE * (place + place + np.uint64(1)))
    return np.asarray(np.add.reduceat(parts, first[:-1]), dtype=np.uint64)


def _stirred(values: Marks) -> Marks:
    """The numbers with their high bits in the low ones, so that sums of products differ."""
    mixed: Marks = (values ^ (values >> np.uint64(32))) * _ROW
    mixed ^= mixed >> np.uint64(29)
    return mixed
