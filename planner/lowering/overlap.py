"""What overlaps of a lowered graph: its layers, and what they load of compute and links.

A stack is seconds of messages between pairs of layouts, shape (1 + tiers, S, T): all of them, then
those that hold the links of each tier.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.overlap import Loads, StepForm, layer_numbers
from costmodel.redistribution import UNREACHABLE_S
from planner.lowering.liveness import Interval, Liveness
from planner.problem import FloatArray


@dataclass(frozen=True)
class PieceLayers:
    """Layers of all pieces, numbered through."""

    of: tuple[int, ...]
    """By position of an operator."""
    before: tuple[int, ...]
    """Of each layer the one before it in its piece; -1 of the first."""
    piece_of: tuple[int, ...]
    """Of each layer, counted from 0."""

    def ahead(self, position: int, *, backward: bool = False) -> int | None:
        """The operator during which what another one gathers is sent: as far into the layer that
        runs before its own.

        Args:
            position: of the operator that gathers.
            backward: for the backward pass, which runs the layers in reverse order.

        Returns:
            Its position; None if no layer of the piece runs before in the same pass.
        """
        layer = self.of[position]
        other = self._after(layer) if backward else self.before[layer]
        if other < 0:
            return None
        (start, end), (first, last) = self._spans[layer], self._spans[other]
        share = (end - 1 - position if backward else position - start) / (end - start)
        steps = int(share * (last - first))
        return last - 1 - steps if backward else first + steps

    def _after(self, layer: int) -> int:
        behind = layer + 1
        return behind if behind < len(self.before) and self.before[behind] == layer else -1

    @cached_property
    def _spans(self) -> tuple[Interval, ...]:
        """Positions of the operators of each layer."""
        found: dict[int, Interval] = {}
        for position, layer in enumerate(self.of):
            found[layer] = (found.get(layer, (position, 0))[0], position + 1)
        return tuple(found[layer] for layer in range(len(found)))


def layers_of(liveness: Liveness) -> PieceLayers:
    """The layers of a graph; one without pieces is a single one."""
    graph = liveness.graph
    pieces = liveness.pieces or ((0, len(graph.ops)),)
    of: list[int] = []
    before: list[int] = []
    piece_of: list[int] = []
    for piece, (start, end) in enumerate(pieces):
        first = len(before)
        own = layer_numbers(graph.ops[start:end], graph.tensors)
        count = max(own, default=-1) + 1
        of += [first + layer for layer in own]
        before += [-1, *range(first, first + count - 1)][:count]
        piece_of += [piece] * count
    return PieceLayers(tuple(of), tuple(before), tuple(piece_of))


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of parameters between pairs of layouts, each a stack."""

    gather: FloatArray
    """Before a forward pass."""
    again: FloatArray
    """Before the backward pass, of what is not kept."""
    each: FloatArray
    """Gradients reduced in every micro-batch."""
    once: FloatArray
    """Gradients reduced once in a step, in full."""
    updated: FloatArray | None = None
    """Updated parameters that are gathered once in a step, in full."""

    def loads(
        self, form: StepForm, time_s: FloatArray, once_per: float, *, at_end: bool
    ) -> FloatArray:
        """The loads of every pair, shape (columns, S, T).

        Args:
            form: of the step.
            time_s: of all of them in a micro-batch, shape (S, T).
            once_per: micro-batches that share what happens once in a step.
            at_end: whether the parameter is read in the first layer, so that nothing hides its
                first gather and its last reduction.
        """
        at, software = form.loads, form.software
        out = np.zeros((at.count, *time_s.shape))
        updated = np.zeros_like(self.gather) if self.updated is None else self.updated
        shown, shown_once = software.gathers_shown, software.sync_shown
        out[at.again] = (1.0 - shown) * self.again[1:]
        shared = (self.once[0] + updated[0]) / once_per
        if at_end:
            out[Loads.FIXED] = self.gather[0] + self.each[0] + shared + shown * self.again[0]
        else:
            out[at.gather], out[at.reduce] = (
                (1.0 - shown) * sent[1:] for sent in (self.gather, self.each)
            )
            out[at.sync], out[at.updated] = (
                (1.0 - shown_once) * sent[1:] for sent in (self.once, updated)
            )
            each = self.gather[0] + self.each[0] + self.again[0]
            out[Loads.FIXED] = shown * each + shown_once * shared
        barred = time_s >= UNREACHABLE_S
        out[:, barred] = 0.0
        out[Loads.FIXED][barred] = time_s[barred]
        return out


def fixed_loads(form: StepForm, time_s: FloatArray) -> FloatArray:
    """Loads of what nothing hides, shape (columns, *time_s.shape)."""
    out = np.zeros((form.loads.count, *time_s.shape))
    out[Loads.FIXED] = time_s
    return out


def kernel_loads(
    form: StepForm, forward_s: FloatArray, backward_s: FloatArray, inside_s: FloatArray
) -> FloatArray:
    """Loads of an operator: what it computes, that the host issues it, and what it sends inside,
    of which the software hides a share.

    Args:
        form: of the step.
        forward_s: by candidate, as are the others; shape (C,).
        backward_s: with what is computed again.
        inside_s: forward and backward.
    """
    out = fixed_loads(form, (1.0 - form.software.tensor_hidden) * inside_s)
    out[Loads.FORWARD], out[Loads.BACKWARD] = forward_s, backward_s
    out[Loads.HOST] = form.software.host_s * (forward_s > 0)
    return out
