"""A lowered problem with fewer candidates: nodes, edges and numbers together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.lowered import Lowered, Node
from planner.ports import Port
from planner.restriction import IndexArray, restricted


def narrowed(lowered: Lowered, allowed: Mapping[int, IndexArray]) -> Lowered:
    """The problem in which some nodes have only some of their candidates.

    Args:
        lowered: the problem.
        allowed: candidates of those nodes, ascending; of an operator that may compute something
            again, the same ones with and without that.
    """
    if not allowed:
        return lowered
    sizes = lowered.problem.sizes
    keep = [allowed.get(number, np.arange(size)) for number, size in enumerate(sizes)]
    nodes = tuple(
        _node(node, keep[number]) if number in allowed else node
        for number, node in enumerate(lowered.nodes)
    )
    edges = tuple(
        edge._replace(
            source_port=_port(edge.source_port, keep[edge.source]),
            target_port=_port(edge.target_port, keep[edge.target]),
        )
        for edge in lowered.edges
    )
    return replace(lowered, problem=restricted(lowered.problem, keep), nodes=nodes, edges=edges)


def _node(node: Node, keep: IndexArray) -> Node:
    if node.candidates is not None:
        count = len(node.candidates.assignments)
        return node._replace(candidates=node.candidates.subset(keep[keep < count]))
    return node if node.port is None else node._replace(port=_port(node.port, keep))


def _port(port: Port, keep: IndexArray) -> Port:
    return port if len(keep) == len(port.of) else Port(port.states, port.of[keep])
