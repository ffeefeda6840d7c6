"""What every candidate does with each mesh axis, as numbers: the hint of `NodeTable.axes`.

A solver learns from it which candidates differ in one axis only, and which leave the inner axes
alone, without knowing what a mesh is. 0 is an axis that the candidate does nothing with.
"""

from __future__ import annotations

import numpy as np

from planner.lowered import Node
from planner.ports import Port
from planner.problem import IntArray


def node_axes(node: Node, axes: int) -> IntArray:
    """Of a node: the factor that each axis splits, or the dimension of its tensor, shape (C, A)."""
    if node.candidates is not None:
        once = node.candidates.splits.labels
        return np.concatenate([once, once]) if node.recomputes else once
    if node.port is None:
        raise TypeError(f"{node.kind} {node.name} has no candidates")
    return layout_axes(node.port, axes)


def layout_axes(port: Port, axes: int) -> IntArray:
    """Of a tensor: what each axis is to its layout and to that of its gradient, shape (C, A)."""
    radix = port.masks.shape[2] + 1
    has = port.masks[..., None] >> np.arange(axes) & 1
    forward, gradient = (np.arange(1, radix) @ has).swapaxes(0, 1)
    return np.asarray((forward * radix + gradient)[port.of])
