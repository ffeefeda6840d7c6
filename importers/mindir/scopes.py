"""Paths of cells from MindSpore's full names with scope."""

from __future__ import annotations

_OUTSIDE = frozenset({"Default", "Gradients", "recompute_Default"})
"""Steps that are no cells; in the backward pass `gradMatMul` is none either."""


def cell_path(name: str) -> str:
    """The path of the cell that an operator is in, as parameters have it.

    >>> cell_path("Default/network-WithLossCell/blocks-CellList/0-Block/up-Dense/MatMul-op0")
    'network.blocks.0.up'
    """
    steps = name.split("/")[:-1]
    backward = "Gradients" in steps
    kept = [s for s in steps if s not in _OUTSIDE and not (backward and s.startswith("grad"))]
    return ".".join(step.partition("-")[0] for step in kept if step)
