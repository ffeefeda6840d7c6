"""Ring attention: keys and values go round beside the computation in place of being gathered.

Where p devices share the tokens of the queries, each has a block of the keys and values too. In p
steps it attends to one block while the next one is on its way; backward the gradients of keys and
values go round with them and are home after one send more. What computation does not hide is

    (p - 1) max(0, k + v - f / p)  forward,  (p - 1) max(0, 2 (k + v) - b / p) + k + v  backward

with k and v the times to send a block to the neighbour, f and b those of the two passes of the
attention of one device. Every step starts a kernel of its own. Keys and values hide behind half
of the computation each, which is the same where their blocks are equal. Memory is counted as if
they were gathered.

Source: Liu, Zaharia, Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
Context", arXiv 2310.01889, sections 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from costmodel.collectives import Collective, CollectiveModel
from costmodel.redistribution import UNREACHABLE_S
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph
from planner.candidates.columns import IndexArray
from planner.candidates.layout_tables import LayoutPair, LayoutTable, local_elements
from planner.candidates.operators import FloatArray, OpCandidates
from planner.lowering.calibration_class import KEYS, VALUES, query_rows
from planner.lowering.edges import EdgeKind, Transfer
from planner.problem import EdgeTable


@dataclass(frozen=True, slots=True, eq=False)
class RingReads:
    """How attention reads keys or values that may go round, by row of its assignments."""

    model: CollectiveModel
    axes: tuple[tuple[int, ...], ...]
    """Over which the tokens of the queries are split."""
    dim: int
    """Of the rows that go round."""
    forward_s: FloatArray
    """Of the attention of one device, shape (rows,)."""
    backward_s: FloatArray

    def time_s(self, kind: EdgeKind, ends: tuple[LayoutPair, LayoutPair], row: int) -> float:
        """Seconds that computation does not hide; infinite where they cannot go round."""
        if not self._goes_round(*ends, row):
            return math.inf
        mesh, axes = self.model.mesh, self.axes[row]
        tensor = kind.tensor
        nbytes = local_elements(tensor.dims, ends[0].forward, mesh) * dtype_bytes(tensor.dtype)
        return seen_s(
            math.prod(mesh.sizes[axis] for axis in axes),
            float(self.model.time_s(Collective.POINT_TO_POINT, nbytes, axes)),
            self.model.cluster.chip.launch_latency_s,
            (float(self.forward_s[row]), float(self.backward_s[row])),
            again=kind.regathered,
            gradient=kind.gradient,
        )

    def _goes_round(self, source: LayoutPair, target: LayoutPair, row: int) -> bool:
        """Whether a tensor lies in the blocks of the queries, and otherwise as attention reads
        it.
        """
        own, read, axes = source.forward, target.forward, self.axes[row]
        if own.partial or read.partial or not axes:
            return False
        pairs = enumerate(zip(own.dims, read.dims, strict=True))
        return all(
            sorted(a) == sorted((*b, *axes)) if dim == self.dim else a == b for dim, (a, b) in pairs
        )

    def faster(
        self,
        table: EdgeTable,
        kind: EdgeKind,
        ends: tuple[LayoutTable, LayoutTable],
        rows: tuple[IndexArray, IndexArray],
    ) -> EdgeTable:
        """The costs of an edge where keys and values go round if that is faster.

        Args:
            table: they are gathered.
            kind: what flows.
            ends: layouts of the source and of attention.
            rows: those of the candidates of both.
        """
        source, target = ends
        out = np.full((len(source.states), len(self.axes)), np.inf)
        known: dict[tuple[object, ...], float] = {}
        for row, axes in enumerate(self.axes):
            read = target.of[row]
            for number, own in enumerate(source.states if axes else ()):
                key = (number, read, axes, self.forward_s[row], self.backward_s[row])
                if key not in known:
                    known[key] = self.time_s(kind, (own, target.states[read]), row)
                out[number, row] = known[key]
        round_s = out[source.of[rows[0]][:, None], rows[1]]
        faster = np.minimum(table.time_s, round_s)
        time_s = np.where(table.time_s >= UNREACHABLE_S, table.time_s, faster)
        return EdgeTable(time_s, table.memory_bytes)

    def seen(
        self,
        moves: tuple[Transfer, ...],
        kind: EdgeKind,
        ends: tuple[LayoutPair, LayoutPair],
        row: int,
    ) -> tuple[Transfer, ...]:
        """The same communication with what is seen of it."""
        gathered_s = sum(move.step.time_s for move in moves)
        round_s = self.time_s(kind, ends, row)
        if round_s >= gathered_s:
            return moves
        share = round_s / gathered_s
        return tuple(
            replace(move, step=replace(move.step, time_s=move.step.time_s * share))
            for move in moves
        )


def ring_reads(
    op: Op, graph: OpGraph, found: OpCandidates, model: CollectiveModel, *, in_block: bool
) -> RingReads | None:
    """How attention reads what may go round; None of any other operator.

    Args:
        op: the operator.
        graph: has it.
        found: its candidates.
        model: of the links.
        in_block: the backward pass computes it again with its block.
    """
    rows = query_rows(op, graph)
    if rows is None:
        return None
    axes = [
        tuple(axis for axis, factor in enumerate(own) if factor in rows[0])
        for own in found.assignments
    ]
    again_s = found.forward_s if in_block else np.zeros_like(found.forward_s)
    return RingReads(model, tuple(axes), rows[1], found.forward_s, found.backward_s - again_s)


def may_go_round(operand: int) -> bool:
    """Whether an operand of attention is keys or values."""
    return operand in {KEYS, VALUES}


def seen_s(
    pieces: int,
    send_s: float,
    start_s: float,
    passes_s: tuple[float, float],
    *,
    again: bool,
    gradient: bool,
) -> float:
    """Seconds of a micro-batch that computation does not hide of keys, or of values.

    Args:
        pieces: of the context.
        send_s: to send a block of them to the neighbour.
        start_s: to start a kernel.
        passes_s: of the attention of one device, forward and backward.
        again: the forward pass is repeated for the backward pass.
        gradient: there is one.
    """
    steps = pieces - 1
    forward_s, backward_s = (own / pieces / 2 for own in passes_s)
    out = steps * (max(0.0, send_s - forward_s) + start_s / 2) * (2 if again else 1)
    if gradient:
        out += steps * (max(0.0, 2 * send_s - backward_s) + start_s / 2) + send_s
    return out
