"""Which gradients exist, which tensors the backward pass needs, and when each tensor is alive."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from ir.differentiation import operand_gradients, read_back, tensors_with_gradient
from ir.graph import Op, OpGraph, Role
from ir.ops import Engine, lookup

Interval: TypeAlias = tuple[int, int]
"""From the first to before the second."""


class Origin(NamedTuple):
    """What an operator or tensor of a lowered graph is in the network."""

    stage: int
    """Number of the piece of the network that it is in; 0 where the graph is all of it."""
    name: str
    """Its name there."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """Facts of a graph with its ends. Time runs over the operators forward and, in derived
    training, back again.
    """

    graph: OpGraph
    derived: bool
    """The backward pass is derived: operator i runs backward at point `2 N - 1 - i`."""
    gradient: frozenset[str]
    """Tensors that have a gradient."""
    saved_by: Mapping[str, tuple[int, ...]]
    """Operators that need a tensor in their backward pass, by tensor, as positions."""
    last_use: Mapping[str, int]
    """Position of the last operator that reads a tensor forward."""
    position: Mapping[str, int]
    """Position of each operator by name."""
    read: Mapping[str, tuple[str, ...]]
    """By operator the operands and results that its backward pass reads; empty unless derived."""
    pieces: tuple[Interval, ...] = ()
    """Pieces of the graph that run on devices of their own, as ranges of positions in order: each
    has its time points for itself, forward and back, behind those of the pieces before it. Without
    any the graph is one piece."""
    neighbours: tuple[Interval, ...] = ()
    """For every piece the positions of all pieces that share its devices; its own if not said."""
    blocks: tuple[Interval, ...] = ()
    """Ranges of positions in order that the backward pass computes again as a whole: of what they
    make only what leaves them is kept, beside what enters them."""
    moments: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """For every piece when it may run: how many micro-batches of each of the pieces that share its
    devices are in flight with its own. Each moment has time points for itself; one if not
    said."""
    first_points: tuple[int, ...] = ()
    """First time point of every piece, and behind the last one; where moments are said."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """By name of an operator or tensor in pieces side by side; empty for a network as it is."""

    def origin(self, name: str) -> Origin:
        """What an operator or tensor is in the network."""
        return self.origins.get(name) or Origin(0, name)

    @property
    def time_points(self) -> int:
        if self.first_points:
            return self.first_points[-1]
        return len(self.graph.ops) * (2 if self.derived else 1)

    def piece_of(self, position: int) -> int:
        """Number of the piece that an operator is in."""
        return bisect_right(self.pieces, position, key=itemgetter(0)) - 1 if self.pieces else 0

    def _piece(self, position: int) -> Interval:
        return self.pieces[self.piece_of(position)] if self.pieces else (0, len(self.graph.ops))

    def block_of(self, position: int) -> Interval | None:
        """The block computed again that an operator is in."""
        number = bisect_right(self.blocks, position, key=itemgetter(0)) - 1
        inside = number >= 0 and position < self.blocks[number][1]
        return self.blocks[number] if inside else None

    def remade_in(self, tensor: str, maker: int) -> Interval | None:
        """The block that makes a tensor again, where it does not leave it."""
        block = self.block_of(maker)
        if block is None or tensor in self.graph.outputs:
            return None
        users = (self.last_use.get(tensor, maker), *self.saved_by.get(tensor, ()))
        return block if max(users) < block[1] else None

    def lifetime(self, position: int) -> Interval:
        """All time points of the pieces that share the devices of an operator."""
        start, end = self._piece(position)
        if self.neighbours:
            start, end = self.neighbours[self.piece_of(position)]
        if self.first_points:
            return self._first_point(start), self.first_points[self.piece_of(end - 1) + 1]
        return (start * 2, end * 2) if self.derived else (start, end)

    def forward_point(self, position: int) -> int:
        start = self._piece(position)[0]
        return self._first_point(position) + position - start if self.derived else position

    def backward_point(self, position: int) -> int:
        start, end = self._piece(position)
        return self._first_point(position) + 2 * end - start - 1 - position

    def _first_point(self, position: int) -> int:
        if self.first_points:
            return self.first_points[self.piece_of(position)]
        return 2 * self._piece(position)[0]

    def moments_of(self, piece: int) -> tuple[Interval, ...]:
        """The time points of every moment at which a piece may run."""
        if not self.pieces:
            return ((0, self.time_points),)
        start, end = self.pieces[piece]
        count = 2 * (end - start)
        first = self.first_points[piece] if self.first_points else 2 * start
        many = len(self.moments[piece]) if self.moments else 1
        return tuple((first + k * count, first + (k + 1) * count) for k in range(many))

    def others_in_flight(self, piece: int) -> tuple[tuple[Interval, int], ...]:
        """When how many micro-batches of a piece are in flight with one that runs, where moments
        are said; equal ones in a row together.
        """
        if not self.moments:
            return ()
        start, end = self.neighbours[piece] if self.neighbours else self.pieces[piece]
        first = self.piece_of(start)
        found: list[tuple[Interval, int]] = []
        for other in range(first, self.piece_of(end - 1) + 1):
            counts = (counts[piece - first] for counts in self.moments[other])
            for span, count in zip(self.moments_of(other), counts, strict=True):
                same = bool(found) and found[-1][1] == count
                since = found.pop()[0][0] if same else span[0]
                found.append(((since, span[1]), count))
        return tuple((span, count) for span, count in found if count)

    def operand_gradients(self, op: Op) -> tuple[bool, ...]:
        """For every operand whether this operator computes its gradient."""
        return operand_gradients(op, self.gradient) if self.derived else (False,) * len(op.inputs)

    def is_read_back(self, op: Op, name: str) -> bool:
        """Whether the backward pass of an operator reads one of its operands or results."""
        return name in self.read.get(op.name, ())

    def held_until(self, tensor: str) -> int:
        """First point at which a saved tensor is no longer needed."""
        return self.backward_point(min(self.saved_by[tensor])) + 1


def analyse(
    graph: OpGraph,
    *,
    training: bool,
    gradient: frozenset[str] | None = None,
    pieces: tuple[Interval, ...] = (),
    neighbours: tuple[Interval, ...] = (),
    blocks: tuple[Interval, ...] = (),
    moments: tuple[tuple[tuple[int, ...], ...], ...] = (),
) -> Liveness:
    """Liveness of a graph that `add_ends` has ended.

    Args:
        graph: in normal form.
        training: whether there is a backward pass.
        gradient: tensors with a gradient, where the graph alone does not say.
        pieces: as in `Liveness`, and so are the next two.
        neighbours: pieces on the same devices.
        blocks: what is computed again as a whole.
        moments: when every piece may run, as in `Liveness`.
    """
    derived = training and not graph.is_training_step
    if gradient is None:
        gradient = tensors_with_gradient(graph) if derived else frozenset()
    last: dict[str, int] = {}
    read: dict[str, tuple[str, ...]] = {}
    saved: dict[str, list[int]] = {}
    for index, op in enumerate(graph.ops):
        for name in op.inputs:
            last[name] = index
        if derived:
            read[op.name] = read_back(op, gradient)
            for name in _kept(read[op.name], graph):
                saved.setdefault(name, []).append(index)
    position = {op.name: i for i, op in enumerate(graph.ops)}
    for block in blocks:
        for name, reader in _entering(graph, block):
            saved[name] = sorted({*saved.get(name, ()), reader})
    kept = {n: tuple(v) for n, v in saved.items()}
    points = [
        2 * (end - start) * len(own) for (start, end), own in zip(pieces, moments, strict=False)
    ]
    first_points = tuple(accumulate(points, initial=0)) if moments else ()
    return Liveness(
        graph, derived, gradient, kept, last, position, read, pieces, neighbours, blocks,
        moments, first_points,
    )  # fmt: skip


def _entering(graph: OpGraph, block: Interval) -> Iterator[tuple[str, int]]:
    """What a block computed again reads and does not make, each with its first reader there: no
    weights, no constants.
    """
    seen: set[str] = set()
    for position in range(*block):
        op = graph.ops[position]
        for name in _kept(tuple(n for n in op.inputs if n and n not in seen), graph):
            yield name, position
        seen.update(op.inputs, op.outputs)


def _kept(names: tuple[str, ...], graph: OpGraph) -> tuple[str, ...]:
    """Tensors that are kept for a backward pass that reads these: no weights, no constants."""
    return tuple(n for n in names if graph.tensors[n].role in {Role.ACTIVATION, Role.INPUT})


def recomputable(op: Op, liveness: Liveness) -> bool:
    """Whether the results of an operator can be computed again in the backward pass from what is
    kept anyway.
    """
    entry = lookup(op.kind)
    if entry.engine is Engine.ATTENTION or len(op.outputs) != 1:
        return False
    tensors = liveness.graph.tensors
    data = [n for n in op.inputs if n and tensors[n].role in {Role.ACTIVATION, Role.INPUT}]
    return bool(data) and all(n in liveness.saved_by or tensors[n].role is Role.INPUT for n in data)
