"""Soft pins, and few changes of an older plan, in a search of stages.

A soft pin is paid for once in a step by every operator that does not keep it, whatever stage it is
in. An operator of the older plan changes if it is split otherwise inside its stage, or if another
part of the machine has it. What no shape that is asked for can have as before counts for nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from costmodel.collectives import CollectiveModel
from costmodel.operators import OperatorModel
from ir.graph import Op, OpGraph
from ir.ops import OpView
from planner.candidates import OpPricer, signature
from planner.dialects import Dialect
from planner.lowered import Lowered
from planner.pins import pins_of
from planner.problem import FloatArray
from planner.request import Cuts, SearchRequest
from planner.splits import splits_of
from planner.stages.pieces import piece_of_name, plain_name
from planner.wishes import (
    SoftPin,
    Wishes,
    broken_pins,
    soft_charges,
    soft_pin_note,
    split_changes,
)
from topology.cluster import Cluster
from topology.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Wants:
    """What a request wishes of every stage, beside what holds it."""

    request: SearchRequest
    soft: tuple[SoftPin, ...] = ()
    old: Mapping[str, Cuts] = field(default_factory=dict)
    """How the older plan splits the operators that count."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The part of the machine that each of them had."""
    can_stay: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By number of stages those that can be as before."""

    in_small_network: bool = False
    """Whether all ways to have them are looked at."""

    @property
    def is_empty(self) -> bool:
        return not self.soft and self.most is None

    @property
    def most(self) -> int | None:
        """Operators that may change."""
        return self.request.max_changes

    def charges(self, lowered: Lowered) -> dict[int, FloatArray]:
        """Seconds of a step that soft pins cost every candidate of the nodes they name."""
        return soft_charges(self.soft, lowered, plain_name)

    def changes(self, lowered: Lowered, stages: int) -> dict[int, FloatArray]:
        """For every node that counts 1 for candidates that change it, else 0.

        Args:
            lowered: pieces of a pipeline.
            stages: parts of the machine, which have the pieces in turns.
        """
        if self.most is None:
            return {}
        found = split_changes(self.old, lowered, plain_name)
        for number, own in found.items():
            name = lowered.nodes[number].name
            if self.parts.get(plain_name(name), 0) != piece_of_name(name) % stages:
                found[number] = np.ones_like(own)
        return found

    def split_anew(self, lowered: Lowered) -> dict[int, FloatArray]:
        """The same for pieces that may run anywhere; without those that can be no other way."""
        found = {} if self.most is None else split_changes(self.old, lowered, plain_name)
        return {number: own for number, own in found.items() if not own.all()}

    def moved(
        self, graph: OpGraph, positions: Sequence[int], stages: int, chunks: int
    ) -> tuple[FloatArray, ...]:
        """For every piece the operators of each interval of segments that change there for certain,
        shape (L, L + 1) each; nothing where any number may change.

        Args:
            graph: the network.
            positions: ends of its segments, the first 0.
            stages: parts of the machine.
            chunks: pieces on each of them.
        """
        if self.most is None:
            return ()
        tables = [self._moved_to(part, graph.ops, positions, stages) for part in range(stages)]
        return tuple(tables) * chunks

    def _moved_to(
        self, part: int, ops: Sequence[Op], positions: Sequence[int], stages: int
    ) -> FloatArray:
        stays = self.can_stay.get(stages, frozenset())
        moves = (
            op.name in self.old and (op.name not in stays or self.parts.get(op.name, 0) != part)
            for op in ops
        )
        before = np.concatenate([[0.0], np.cumsum(np.fromiter(moves, dtype=np.float64))])
        ends = before[list(positions)]
        behind = np.triu(np.ones((len(ends) - 1, len(ends)), dtype=bool), 1)
        return np.where(behind, ends[None, :] - ends[:-1, None], np.inf)

    def notes(self, broken: frozenset[str], paid_s: float, changed: int) -> Iterator[str]:
        """What became of them, for the reader of a plan."""
        if self.soft:
            texts = broken_pins(self.request, self.soft, broken)
            yield soft_pin_note(self.request, paid_s, texts)
        if self.most is not None:
            yield (
                f"{changed} operators are split otherwise than in the older plan or on another "
                f"part of the machine, {self.most} may be"
            )


def wants_of(
    graph: OpGraph, request: SearchRequest, can_stay: Mapping[int, frozenset[str]], *, small: bool
) -> Wants:
    """The wishes of a request.

    Args:
        graph: the network of one micro-batch.
        request: has them.
        can_stay: by number of stages the operators that can be split as before.
        small: whether all ways to have the wishes are looked at.

    Raises:
        RequestError: a soft pin names no operator, or does not fit its inputs.
    """
    parts, old = dict(request.close_parts), dict(request.close_to)
    here = {
        stages: frozenset(name for name in names if parts.get(name, 0) < stages)
        for stages, names in can_stay.items()
    }
    counting = frozenset[str]().union(*here.values())
    return Wants(
        request,
        Wishes.of(graph, request).soft,
        {name: old[name] for name in old if name in counting},
        parts,
        here,
        small,
    )


def marks_of(graph: OpGraph, request: SearchRequest) -> dict[str, Hashable]:
    """What pins and wishes tell apart of operators that are equal otherwise."""
    found: dict[str, Hashable] = dict(request.close_to)
    for pin in pins_of(graph, request.pins):
        found[pin.op.name] = found.get(pin.op.name), pin.cuts
    for number, soft in enumerate(Wishes.of(graph, request).soft):
        for pin in soft.pins:
            found[pin.op.name] = found.get(pin.op.name), number, pin.cuts
    return found


def can_be_as_before(
    graph: OpGraph, old: Mapping[str, Cuts], cluster: Cluster, mesh: Mesh, dialect: Dialect
) -> frozenset[str]:
    """Operators that a stage can split as an older plan did.

    Args:
        graph: the network of one micro-batch.
        old: cuts of operands and results by operator.
        cluster: the machine of a stage.
        mesh: its mesh.
        dialect: of the target.
    """
    models = OperatorModel(cluster.chip, smooth=True), CollectiveModel(cluster, mesh)
    pricer = OpPricer(mesh, dialect, *models)
    known: dict[Hashable, frozenset[Cuts]] = {}
    found = []
    for op in graph.ops:
        if op.name not in old:
            continue
        key = signature(op, graph.tensors)
        if key not in known:
            offered = pricer.candidates(OpView(op, graph), (True,) * len(op.inputs))
            known[key] = frozenset(splits_of(offered, mesh.sizes))
        if old[op.name] in known[key]:
            found.append(op.name)
    return frozenset(found)
