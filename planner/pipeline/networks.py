"""The network of a model at each size of micro-batch, with the places where it may be cut.

What is made for one search serves every other that differs in the links and the number of devices
alone: sizes, cuts and pieces do not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from costmodel.schedules.in_flight import Moments
from ir.batch import find_batch
from ir.graph import OpGraph
from planner.constraints.stage_pins import marks_of
from planner.lowering.liveness import Liveness, analyse
from planner.lowering.pieces import Cut, Pieces, Span, pieces_of
from planner.pipeline.preparation import Batches, batches_of, prepare
from planner.pipeline.segments import (
    FEWEST_CUTS,
    SMALL_NETWORK,
    Segments,
    cut_network,
    cuts_within,
)
from planner.request import SearchRequest
from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Micro:
    """The network at one size of micro-batch."""

    graph: OpGraph
    liveness: Liveness
    cuts: tuple[Cut, ...]
    segments: Segments
    notes: tuple[str, ...]
    told_apart: bool = True
    """Whether segments are equal only if pins and soft constraints are: else intervals are
    priced without."""
    _pieces: dict[Hashable, Pieces] = field(default_factory=dict, init=False, compare=False)

    @property
    def by_position(self) -> dict[int, Cut]:
        return {cut.position: cut for cut in self.cuts}

    def pieces(
        self,
        spans: Sequence[Span],
        numbers: Sequence[int] = (),
        moments: Sequence[Moments] = (),
    ) -> Pieces:
        """Pieces of it side by side, made once (`planner.lowering.pieces.pieces_of`)."""
        key = tuple(spans), tuple(numbers), tuple(moments)
        if key not in self._pieces:
            self._pieces[key] = pieces_of(self.liveness, self.by_position, *key)
        return self._pieces[key]


@dataclass(eq=False)
class Networks:
    """A model at any size of micro-batch."""

    source: OpGraph
    """As imported."""
    cluster: Cluster
    """A machine with the element types of all that are searched."""
    request: SearchRequest
    """With a global batch."""
    liveness: Liveness | None = None
    """At the whole batch, where it is prepared already."""
    _scaled_at: dict[int, Micro] = field(default_factory=dict)
    _prepared_at: dict[int, Micro] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return self.request.global_batch or 0

    @cached_property
    def whole(self) -> Micro | None:
        """The network as it is prepared already."""
        return None if self.liveness is None else self._cut(self.liveness, ())

    @cached_property
    def smallest(self) -> int:
        """The smallest size of micro-batch, in which the network is prepared first."""
        given = self.request.micro_batch
        if given != "auto" and self.batch % int(given) == 0:
            return int(given)
        return math.gcd(self.batch, max(find_batch(self.source), 1))

    def at(self, samples: int) -> Micro:
        """The network at a size of micro-batch."""
        if samples not in self._scaled_at:
            self._scaled_at[samples] = self._scaled(samples) or self.prepared(samples)
        return self._scaled_at[samples]

    def prepared(self, samples: int) -> Micro:
        """The same from the model itself, as it is planned in the end."""
        if samples not in self._prepared_at:
            asked = replace(self.request, batch=samples)
            ready, notes = prepare(self.source, self.cluster, asked)
            self._prepared_at[samples] = self._cut(analyse(ready, training=True), notes)
        return self._prepared_at[samples]

    def _cut(self, liveness: Liveness, notes: Sequence[str]) -> Micro:
        """A prepared network with the places where it may be cut."""
        ready, request = liveness.graph, self.request
        cuts = cuts_within(liveness, request.stage_starts)
        small = len(ready.ops) <= SMALL_NETWORK
        marks = marks_of(ready, request)
        fewest = len(cuts) if request.stage_starts else FEWEST_CUTS
        found = cut_network(
            liveness, cuts, marks, always=small, effort=request.effort, fewest=fewest
        )
        said = (*notes, *found.notes)
        return Micro(ready, liveness, found.cuts, found.segments, said, found.apart)

    def _scaled(self, samples: int) -> Micro | None:
        """The same from what two sizes of batch have shown."""
        base, batches = self._base
        try:
            graph = None if batches is None else batches.at(samples)
        except ValueError:
            graph = None
        if graph is None:
            return None
        return replace(base, graph=graph, liveness=replace(base.liveness, graph=graph))

    @cached_property
    def _base(self) -> tuple[Micro, Batches | None]:
        """The network at the smallest size, and what a larger batch shows of others."""
        base, shown = self.prepared(self.smallest), None
        if self.liveness is not None:
            shown = batches_of(base.graph, self.liveness.graph, self.batch // self.smallest)
        if shown is None:
            asked = replace(self.request, batch=2 * self.smallest)
            shown = batches_of(base.graph, prepare(self.source, self.cluster, asked)[0])
        return base, shown
