"""What every candidate does with each mesh axis, as numbers: the hint of `NodeTable.axes`.

A solver learns from it which candidates differ in one axis only, and which leave the inner axes
alone, without knowing what a mesh is. 0 is an axis that the candidate does nothing with.
"""

from __future__ import annotations

import numpy as np

from planner.dialects import REPLICATED
from planner.lowered import Node
from planner.ports import Port, PortState
from planner.problem import IntArray


def node_axes(node: Node, axes: int) -> IntArray:
    """Of a node: the factor that each axis splits, or the dimension of its tensor, shape (C, A)."""
    if node.candidates is not None:
        assignments = np.array(node.candidates.assignments, dtype=np.intp)
        once = assignments.reshape(len(node.candidates.assignments), axes) - REPLICATED
        return np.concatenate([once, once]) if node.recomputes else once
    if node.port is None:
        raise TypeError(f"{node.kind} {node.name} has no candidates")
    return layout_axes(node.port, axes)


def layout_axes(port: Port, axes: int) -> IntArray:
    """Of a tensor: what each axis is to its layout and to that of its gradient, shape (C, A)."""
    states = np.array([_state_axes(s, axes) for s in port.states], dtype=np.intp)
    return np.asarray(states.reshape(len(port.states), axes)[port.of])


def _state_axes(state: PortState, axes: int) -> list[int]:
    radix = len(state.forward.dims) + 2
    found = []
    for axis in range(axes):
        forward, gradient = (
            next((i for i, own in enumerate(x.dims, 1) if axis in own), 0)
            or (radix - 1 if axis in x.partial else 0)
            for x in (state.forward, state.gradient)
        )
        found.append(forward * radix + gradient)
    return found
