"""Stages that begin where another tool cut them."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import OpGraph
from planner.degrees import is_part_of
from planner.request import RequestError
from planner.stages.cuts import Cut


def cuts_before(graph: OpGraph, cuts: Sequence[Cut], starts: Sequence[str]) -> tuple[Cut, ...]:
    """The last cut in front of each of some parts of a network.

    Args:
        graph: the network.
        cuts: places where it can be cut, in order.
        starts: scopes, in the order of the network.

    Raises:
        RequestError: there is no such part, or no cut between it and the one before.
    """
    found: list[Cut] = []
    for scope in starts:
        first = next((n for n, op in enumerate(graph.ops) if is_part_of(op, graph, scope)), 0)
        here = [cut for cut in cuts if cut.position <= first]
        if not here or (found and here[-1] == found[-1]):
            raise RequestError(
                f"the model cannot be cut in front of {scope}\n  at:  {scope}\n"
                "  fix: pass the model that the plan was made for, or leave the stages' layers out"
            )
        found.append(here[-1])
    return tuple(found)
