"""What each node keeps in memory, and when: saved tensors, temporaries, and the choice to
compute again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.overlap import Loads
from ir.dtypes import dtype_bytes
from ir.graph import Op, Tensor
from ir.ops import Engine, lookup
from ir.plan_enums import MemoryCause
from planner.candidates.columns import Columns
from planner.candidates.layout_tables import LayoutTable, shard_elements
from planner.candidates.operators import OpCandidates
from planner.lowering.liveness import Liveness, recomputable
from planner.lowering.overlap import PieceLayers
from planner.problem import IntArray, Interval, NodeTable
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]


class LiveTensor(NamedTuple):
    """A tensor that a node holds over an interval."""

    tensor: Tensor
    port: LayoutTable
    """The layouts that the candidates of the node give it."""
    interval: Interval
    cause: str
    again_s: float | None = None
    """Seconds to compute the whole tensor again on one device instead; None if that is not
    offered."""
    copies: int = 1
    """As many tensors are held: those of other micro-batches."""
    beside: bool = False
    """It stands beside the holding of the same tensor, and goes where that one is computed
    again."""


class Copies(NamedTuple):
    """When redistributed copies are in memory, and how many times the bytes of one."""

    intervals: tuple[Interval, ...] = ()
    counts: tuple[float, ...] = ()


NO_COPIES = Copies()


@dataclass(slots=True)
class LiveTensors:
    """Works out holdings on one mesh."""

    liveness: Liveness
    mesh: Mesh
    candidates: Mapping[str, OpCandidates]
    readers: Mapping[str, Sequence[Op]]
    makers: Mapping[str, Op]
    recompute: bool
    layers: PieceLayers | None = None
    """Those during which parameters of the next one are gathered; None where nothing overlaps."""
    in_flight: Sequence[int] = ()
    """Micro-batches whose saved tensors each piece of the graph keeps, where the liveness says no
    moments; 1 if it is not said."""
    _others: dict[int, tuple[tuple[Interval, int], ...]] = field(default_factory=dict)
    _bytes: dict[tuple[int, tuple[int, ...], str], tuple[LayoutTable, FloatArray]] = field(
        default_factory=dict
    )

    def local_bytes(self, tensor: Tensor, port: LayoutTable) -> FloatArray:
        """Bytes of the largest shard for every candidate, shape (C,)."""
        key = (id(port), tensor.dims, tensor.dtype)
        if key not in self._bytes:
            per_state = shard_elements(tensor.dims, port, self.mesh) * dtype_bytes(tensor.dtype)
            self._bytes[key] = (port, np.asarray(per_state[port.of]))
        return self._bytes[key][1]

    def of_operator(self, op: Op) -> list[LiveTensor]:
        """Results and their gradients on the way, then saved tensors that only this operator
        keeps.
        """
        found = self.candidates[op.name]
        position = self.liveness.position[op.name]
        out: list[LiveTensor] = []
        if lookup(op.kind).engine is not Engine.VIEW:
            for name, port in zip(op.outputs, found.results, strict=True):
                if port is not None:
                    out += self._at_all_moments(
                        self._on_the_way(self._tensor(name), position, port), position
                    )
        owned = self._owned(op, position, found)
        for name, port in owned.items():
            out += self.kept(self._tensor(name), port)
        return out

    def _tensor(self, name: str) -> Tensor:
        return self.liveness.graph.tensors[name]

    def _on_the_way(self, tensor: Tensor, position: int, port: LayoutTable) -> Iterator[LiveTensor]:
        """A result from its making to its last reader, and its gradient on the way back."""
        liveness, name = self.liveness, tensor.name
        last = liveness.last_use.get(name, position)
        if name not in liveness.saved_by:
            alive = (liveness.forward_point(position), liveness.forward_point(last) + 1)
            yield LiveTensor(tensor, port, alive, MemoryCause.TEMPORARIES)
        if liveness.derived and name in liveness.gradient:
            back = (liveness.backward_point(last), liveness.backward_point(position) + 1)
            yield LiveTensor(tensor, port, back, MemoryCause.TEMPORARIES)

    def _owned(self, op: Op, position: int, found: OpCandidates) -> dict[str, LayoutTable]:
        """Saved tensors that this operator keeps: operands that only it reads, results that
        nobody else keeps.
        """
        saved_by, readers = self.liveness.saved_by, self.readers
        out: dict[str, LayoutTable] = {}
        for name, port in zip(op.inputs, found.operands, strict=True):
            keepers = saved_by.get(name, ())
            if port is not None and position in keepers and len(readers[name]) == 1:
                out[name] = port
        for name, port in zip(op.outputs, found.results, strict=True):
            keepers = saved_by.get(name, ())
            if port is not None and keepers == (position,) and len(readers.get(name, ())) == 1:
                out[name] = port
        return out

    def kept(self, tensor: Tensor, port: LayoutTable) -> list[LiveTensor]:
        """A saved tensor from its making to its last use in the backward pass, and those of other
        micro-batches that are in flight, all the time.
        """
        maker = self.makers.get(tensor.name)
        keeper = min(self.liveness.saved_by[tensor.name])
        start = self.liveness.moments_of(self.liveness.piece_of(keeper))[0][0]
        if maker is not None:
            position = self.liveness.position[maker.name]
            start = self.liveness.forward_point(position)
            block = self.liveness.remade_in(tensor.name, position)
            if block is not None:
                remade = self._remade(tensor, port, position, block)
                return self._at_all_moments(remade, keeper)
        interval = (start, self.liveness.held_until(tensor.name))
        again_s = self._whole_again_s(tensor)
        own = LiveTensor(tensor, port, interval, MemoryCause.ACTIVATIONS, again_s)
        beside = again_s is not None
        return self._at_all_moments([own], keeper) + [
            LiveTensor(tensor, port, span, MemoryCause.ACTIVATIONS, None, count, beside)
            for span, count in self.others(keeper)
        ]

    def _at_all_moments(self, held: Iterable[LiveTensor], position: int) -> list[LiveTensor]:
        """What is held while the piece of an operator runs, each time that it may."""
        out: list[LiveTensor] = []
        for own in held:
            out.append(own)
            beside = own.beside or own.again_s is not None
            for shift in self._shifts(position)[1:]:
                start, end = (point + shift for point in own.interval)
                out.append(own._replace(interval=(start, end), again_s=None, beside=beside))
        return out

    def _shifts(self, position: int) -> tuple[int, ...]:
        """By how many time points the moments of a piece lie behind its first one."""
        if not self.liveness.moments:
            return (0,)
        every = self.liveness.moments_of(self.liveness.piece_of(position))
        return tuple(first - every[0][0] for first, _ in every)

    def _remade(
        self, tensor: Tensor, port: LayoutTable, position: int, block: Interval
    ) -> list[LiveTensor]:
        """A saved tensor that its block makes again: until it is read forward, and from the turn of
        the block to its last use.
        """
        liveness = self.liveness
        last = liveness.last_use.get(tensor.name, position)
        there = (liveness.forward_point(position), liveness.forward_point(last) + 1)
        back = (liveness.backward_point(block[1] - 1), liveness.held_until(tensor.name))
        return [
            LiveTensor(tensor, port, there, MemoryCause.TEMPORARIES),
            LiveTensor(tensor, port, back, MemoryCause.REMADE),
        ]

    def copies(self, op: Op, tensor: Tensor, *, at_rest: bool, shared: bool) -> Copies:
        """What an operator reads in another layout: gathered weights while they are used,
        redistributed copies that the backward pass needs.

        Args:
            op: the operator.
            tensor: what it reads.
            at_rest: whether that is a parameter at rest.
            shared: whether it has several readers.
        """
        liveness = self.liveness
        position = liveness.position[op.name]
        block = liveness.block_of(position)
        there, back = liveness.forward_point(position), liveness.backward_point(position)
        if at_rest and not liveness.derived:
            return Copies(((there, there + 1),), (1.0,))
        if at_rest:
            # The gradient in the layout of use, and the weight again where it is read.
            again = block is not None or liveness.is_read_back(op, tensor.name)
            ahead = self._gathered_ahead(position)
            held = [((ahead[0], there + 1), 1.0), ((back, back + 1), 1.0 + again)]
            if again and ahead[1] < back:
                held.append(((ahead[1], back), 1.0))
            return self._copies(held, position)
        if not shared or position not in liveness.saved_by.get(tensor.name, ()):
            return NO_COPIES
        if block is not None:
            turn = liveness.backward_point(block[1] - 1)
            return self._copies((((there, there + 1), 1.0), ((turn, back + 1), 1.0)), position)
        return self._copies((((there, back + 1), 1.0),), position, self.others(position))

    def _gathered_ahead(self, position: int) -> tuple[int, int]:
        """Time points at which what an operator reads is gathered, forward and backward."""
        liveness, layers = self.liveness, self.layers
        there, back = liveness.forward_point(position), liveness.backward_point(position)
        if layers is None:
            return there, back
        before, after = layers.ahead(position), layers.ahead(position, backward=True)
        if before is not None:
            there = liveness.forward_point(before)
        return there, back if after is None else liveness.backward_point(after)

    def _copies(
        self,
        held: Iterable[tuple[Interval, float]],
        position: int,
        others: Sequence[tuple[Interval, int]] = (),
    ) -> Copies:
        """Copies of one micro-batch, each time that the piece of an operator may run, and those of
        others.
        """
        every = [
            ((start + shift, end + shift), count)
            for (start, end), count in held
            for shift in self._shifts(position)
        ]
        every += [(span, float(count)) for span, count in others]
        return Copies(tuple(span for span, _ in every), tuple(count for _, count in every))

    def others(self, position: int) -> tuple[tuple[Interval, int], ...]:
        """When how many micro-batches are in flight in the piece of an operator with the one
        that runs.
        """
        piece = self.liveness.piece_of(position)
        if self.liveness.moments:
            if piece not in self._others:
                self._others[piece] = self.liveness.others_in_flight(piece)
            return self._others[piece]
        count = self.in_flight[piece] - 1 if self.in_flight else 0
        return ((self.liveness.lifetime(position), count),) if count else ()

    def _whole_again_s(self, tensor: Tensor) -> float | None:
        """Time to make a tensor once more on one device, looking through views; None if it
        cannot be.
        """
        maker = self.makers.get(tensor.name)
        while maker is not None and lookup(maker.kind).engine is Engine.VIEW:
            maker = self.makers.get(maker.inputs[0])
        if not self.recompute or maker is None or not recomputable(maker, self.liveness):
            return None
        if self.liveness.block_of(self.liveness.position[maker.name]) is not None:
            return None
        return self.candidates[maker.name].whole_forward_s

    def table(
        self,
        cost: tuple[FloatArray, FloatArray | None],
        held: Sequence[LiveTensor],
        columns: Columns,
        axes: IntArray,
    ) -> NodeTable:
        """Table of a node.

        Args:
            cost: seconds by assignment or layout, and their loads if they hide something.
            held: what the node keeps; a candidate with `recompute` drops what may be computed
                again.
            columns: of the candidates.
            axes: what each does with every axis.
        """
        time_s, loads = cost
        nbytes = [self.local_bytes(h.tensor, h.port) * h.copies for h in held]
        again = [
            h.again_s * own / max(h.tensor.nbytes, 1)
            for h, own in zip(held, nbytes, strict=True)
            if h.again_s is not None
        ]
        if not again:
            return NodeTable(time_s, tuple(nbytes), axes, loads)
        rows, dropped = columns.assignment, columns.recompute
        more = np.where(dropped, np.sum(again, axis=0)[rows], 0.0)
        if loads is not None:
            loads = loads[:, rows]
            loads[Loads.BACKWARD] += more
        memory = tuple(
            np.where(dropped & (h.beside or h.again_s is not None), 0.0, own[rows])
            for h, own in zip(held, nbytes, strict=True)
        )
        return NodeTable(time_s[rows] + more, memory, axes, loads)


def recomputed_names(holdings: Sequence[LiveTensor]) -> tuple[str, ...]:
    """Tensors that a node may compute again."""
    return tuple(h.tensor.name for h in holdings if h.again_s is not None)
