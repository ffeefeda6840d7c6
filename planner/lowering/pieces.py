"""Stages as one graph: copies of pieces of a network, side by side.

Each piece is what one stage runs. What it reads from the stage before it comes in as an input with
a gradient; what it makes for the stages behind it goes out. Pieces share nothing, so one problem
holds them all and the best choice for the whole is the best one for each.

A cut lies between two operators in the order of the graph. What is made before it and read behind
it is sent from stage to stage: activations with a gradient forward, and their gradients back.
Tensors without a gradient (masks, rotary tables) are sent forward alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.schedules.in_flight import Moments
from ir.graph import Op, Role, Tensor
from ir.layout import Layout
from planner.lowering.liveness import Interval, Liveness, Origin, analyse
from topology.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Span:
    """A piece by the positions of its operators."""

    start: int
    end: int
    without: Interval | None = None
    """What is taken out of its midst, from one cut to another of the same kind."""
    blocks: tuple[Interval, ...] = ()
    """What the backward pass computes again as a whole, within the piece."""

    @property
    def ranges(self) -> tuple[Interval, ...]:
        if self.without is None:
            return ((self.start, self.end),)
        return ((self.start, self.without[0]), (self.without[1], self.end))

    def places(self, first: int) -> Iterator[Interval]:
        """The blocks where their operators stand when the piece begins at a position; one whose
        midst is taken out is one still.
        """
        open_end = None
        for start, end in self.blocks:
            place = first + self._place(start), first + self._place(end)
            if place[0] == place[1]:
                continue
            if open_end is not None and open_end[1] == place[0]:
                place, open_end = (open_end[0], place[1]), None
            if self.without is not None and start < self.without[0] < end:
                open_end = place
                continue
            yield place
        if open_end is not None:
            yield open_end

    def _place(self, position: int) -> int:
        if self.without is None or position <= self.without[0]:
            return position - self.start
        return max(position - self.without[1], 0) + self.without[0] - self.start


@dataclass(frozen=True, slots=True)
class Pieces:
    """Some pieces of a network, and what goes between them."""

    liveness: Liveness
    """Of all pieces side by side."""
    received: tuple[str, ...]
    """Inputs that come from another stage, by their names in the pieces."""
    sent: tuple[str, ...]
    """What leaves for another stage."""
    shared: tuple[str, ...] = ()
    """Parameters that others of the network's operators read too."""


def _name_in(piece: int, name: str) -> str:
    """The name of an operator or tensor in the graph of all pieces."""
    return f"{name}@{piece}" if name else ""


def pieces_of(
    liveness: Liveness,
    cuts: Mapping[int, Cut],
    spans: Sequence[Span],
    numbers: Sequence[int] = (),
    moments: Sequence[Moments] = (),
) -> Pieces:
    """Pieces of a network side by side; they may overlap.

    Args:
        liveness: of the network.
        cuts: by position; every end of a span within the network is one.
        spans: what each piece has.
        numbers: of the pieces, by which they are named; 0, 1, ... if it is not said.
        moments: when each piece may run, and what is in flight with it in the pieces that share
            its devices, as many in a row as a moment says; each has devices of its own if not said.
    """
    maker = _Maker(liveness, cuts, moments)
    for piece, span in zip(numbers or range(len(spans)), spans, strict=True):
        maker.add(piece, span)
    return maker.made()


class _Maker:
    def __init__(
        self, liveness: Liveness, cuts: Mapping[int, Cut], moments: Sequence[Moments]
    ) -> None:
        self.whole, self.cuts, self.moments = liveness, cuts, tuple(moments)
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.received: list[str] = []
        self.sent: list[str] = []
        self.gradient: set[str] = set()
        self.origins: dict[str, Origin] = {}
        self.ranges: list[Interval] = []
        self.blocks: list[Interval] = []
        self.shared: list[str] = []
        self.tied = _tied(liveness)

    def add(self, piece: int, span: Span) -> None:
        """The piece of some operators."""
        graph = self.whole.graph
        before = len(self.ops)
        joined = {} if span.without is None else self._joined(*span.without)
        entering = self._crossing(span.start)
        leaving = tuple(joined.get(n, n) for n in self._crossing(span.end))
        made: set[str] = set()
        for start, end in span.ranges:
            for op in graph.ops[start:end]:
                own = op if start == span.start else _renamed(op, lambda n: joined.get(n, n))
                made.update(own.outputs)
                name = self._named(piece, op.name)
                self.ops.append(replace(_renamed(own, _namer(piece)), name=name))
                for name in own.tensor_names():
                    self._take(piece, name, received=name in entering)
        for name in (n for n in entering if n in leaving):
            self._take(piece, name, received=True)
        ends = [n for n in graph.outputs if n in made and n not in leaving]
        self.sent += [_name_in(piece, n) for n in leaving]
        self.outputs += [_name_in(piece, n) for n in (*ends, *leaving)]
        self.ranges.append((before, len(self.ops)))
        self.blocks += span.places(before)
        for name, (first, last) in self.tied.items():
            inside = span.start <= first and last < span.end
            if _name_in(piece, name) in self.tensors and not inside:
                self.shared.append(_name_in(piece, name))

    def _named(self, piece: int, name: str) -> str:
        own = _name_in(piece, name)
        self.origins[own] = Origin(piece, name)
        return own

    def _joined(self, start: int, end: int) -> dict[str, str]:
        """What crosses the second of two cuts by what crosses the first in its place."""
        there, here = self._crossing(start), self._crossing(end)
        pairs = zip([n for n in here if n not in there], [n for n in there if n not in here],
                    strict=True)  # fmt: skip
        return dict(pairs)

    def _crossing(self, position: int) -> tuple[str, ...]:
        cut = self.cuts.get(position)
        return () if cut is None else (*cut.sent, *cut.without_gradient)

    def _take(self, piece: int, name: str, *, received: bool) -> None:
        own = self._named(piece, name)
        if own in self.tensors:
            return
        tensor = self.whole.graph.tensors[name]
        role = Role.INPUT if received else tensor.role
        self.tensors[own] = replace(tensor, name=own, role=role)
        if role is Role.INPUT:
            self.inputs.append(own)
        if received:
            self.received.append(own)
        if name in self.whole.gradient:
            self.gradient.add(own)

    def made(self) -> Pieces:
        """All pieces added."""
        whole = self.whole.graph
        graph = replace(
            whole,
            tensors=self.tensors,
            ops=tuple(self.ops),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
        )
        liveness = analyse(
            graph,
            training=True,
            gradient=frozenset(self.gradient),
            pieces=tuple(self.ranges),
            neighbours=self._neighbours(),
            blocks=tuple(self.blocks),
            moments=self.moments,
        )
        liveness = replace(liveness, origins=self.origins)
        return Pieces(liveness, tuple(self.received), tuple(self.sent), tuple(self.shared))

    def _neighbours(self) -> tuple[Interval, ...]:
        if not self.moments:
            return ()
        chunks = len(self.moments[0][0])
        firsts = [n - n % chunks for n in range(len(self.ranges))]
        return tuple((self.ranges[f][0], self.ranges[f + chunks - 1][1]) for f in firsts)


def _tied(liveness: Liveness) -> dict[str, Interval]:
    """Positions of the first and the last reader of parameters with several."""
    readers = liveness.graph.consumers()
    found = {}
    for tensor in liveness.graph.parameters:
        places = [liveness.position[op.name] for op in readers.get(tensor.name, ())]
        if len(places) > 1:
            found[tensor.name] = (min(places), max(places))
    return found


def _namer(piece: int) -> Callable[[str], str]:
    return lambda name: _name_in(piece, name)


def _renamed(op: Op, rename: Callable[[str], str]) -> Op:
    """The operator on other tensors."""
    return replace(
        op,
        inputs=tuple(rename(n) for n in op.inputs),
        outputs=tuple(rename(n) for n in op.outputs),
        parts=tuple(_renamed(part, rename) for part in op.parts),
    )


def wire_layout(tensor: Tensor, mesh: Mesh) -> Layout:
    """The layout in which a tensor goes from stage to stage: as many pieces as it can be cut into,
    so that each device sends a different one. Axes go to the first dimension as far as they divide
    it, then to the next.

    Source of the scheme: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
    Clusters Using Megatron-LM", SC 2021, section 4.1 (scatter/gather optimization).
    """
    dims: list[list[int]] = [[] for _ in tensor.dims]
    left = list(tensor.divisors or tensor.dims)
    place = 0
    for axis, size in enumerate(mesh.sizes):
        if mesh.size == 1:
            break
        while place < len(left) and left[place] % size:
            place += 1
        if place == len(left):
            break
        dims[place].append(axis)
        left[place] //= size
    return Layout(tuple(tuple(own) for own in dims))


MOST_SENT = 4
"""Tensors with a gradient that a cut may cross: two streams and what steers them."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A place between two operators."""

    position: int
    """Operators in front of it."""
    sent: tuple[str, ...]
    """Activations with a gradient that cross it."""
    without_gradient: tuple[str, ...]
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
            others = tuple(n for n in alive if n not in liveness.gradient)
            nbytes = sum(graph.tensors[n].nbytes for n in alive)
            found.append(Cut(index + 1, sent, others, nbytes))
    return tuple(found)
