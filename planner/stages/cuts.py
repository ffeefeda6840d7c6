"""Where a network can be cut into stages, and which pieces between cuts are equal.

A cut lies between two operators in the order of the graph. What is made before it and read behind
it is sent from stage to stage: activations with a gradient forward, and their gradients back.
Tensors without a gradient (masks, rotary tables) are sent forward alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ir.graph import Role
from planner.liveness import Liveness

MOST_SENT = 4
"""Tensors with a gradient that a cut may cross: two streams and what steers them."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A place between two operators."""

    position: int
    """Operators in front of it."""
    sent: tuple[str, ...]
    """Activations with a gradient that cross it."""
    beside: tuple[str, ...]
    """Other activations that cross it."""
    nbytes: int
    """Of both, forward."""


def cuts_of(liveness: Liveness, most_sent: int = MOST_SENT) -> tuple[Cut, ...]:
    """All places that at most so many activations with a gradient cross, in order.

    Of neighbouring places that only move or shrink what is sent, each is kept: which is best
    follows from the stages.
    """
    graph = liveness.graph
    begins: dict[int, list[str]] = defaultdict(list)
    ends: dict[int, list[str]] = defaultdict(list)
    outputs = set(graph.outputs)
    for index, op in enumerate(graph.ops):
        for name in op.outputs:
            last = len(graph.ops) if name in outputs else liveness.last_use.get(name, index)
            if last > index and graph.tensors[name].role is not Role.CONSTANT:
                begins[index].append(name)
                ends[last].append(name)
    alive: dict[str, None] = {}
    found: list[Cut] = []
    for index in range(len(graph.ops) - 1):
        for name in ends[index]:
            alive.pop(name, None)
        alive.update(dict.fromkeys(begins[index]))
        sent = tuple(n for n in alive if n in liveness.gradient)
        if 0 < len(sent) <= most_sent:
            beside = tuple(n for n in alive if n not in liveness.gradient)
            nbytes = sum(graph.tensors[n].nbytes for n in alive)
            found.append(Cut(index + 1, sent, beside, nbytes))
    return tuple(found)
