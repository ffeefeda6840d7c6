"""Collectives that the layouts of one mesh are predicted to need."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from costmodel.collectives import CollectiveModel
from ir.layout import Layout
from ir.plan import NamedLayout, PlannedCollective
from ir.plan_enums import Cause
from planner.candidates.operators import FloatArray
from planner.lowering.lowered import Edge, Flow, NodeKind
from planner.pipeline.solved import Group


@dataclass(slots=True)
class _Seen:
    """What was worked out once."""

    named: dict[Layout, NamedLayout] = field(default_factory=dict)
    sent: dict[tuple[int, ...], tuple[dict[str, Any], ...]] = field(default_factory=dict)
    """By what flows along an edge."""
    groups: dict[tuple[int, ...], tuple[tuple[str, ...], int, str]] = field(default_factory=dict)
    collectives: tuple[PlannedCollective, ...] | None = None
    overlapped: tuple[PlannedCollective, ...] | None = None
    """The same with what hides of them."""
    profile: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class MeshCollectives(Group):
    """What the devices of a mesh send each other, and what layouts are called there."""

    _seen: _Seen = field(default_factory=_Seen, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.lowered.setting.mesh.axes)

    @property
    def micro_batches(self) -> int:
        """Of one step: what is priced is one of them."""
        return self.lowered.setting.micro_batches

    def named(self, layout: Layout) -> NamedLayout:
        """The layout with the names of the mesh axes."""
        found = self._seen.named.get(layout)
        if found is None:
            names = self.names
            found = self._seen.named[layout] = NamedLayout(
                tuple(tuple(names[a] if a >= 0 else f"/{-a}" for a in dim) for dim in layout.dims),
                tuple(names[a] for a in layout.partial),
            )
        return found

    def collectives(self) -> tuple[PlannedCollective, ...]:
        """Every predicted collective, in program order."""
        if self._seen.collectives is None:
            self._seen.collectives = (*self._on_edges(), *self._inside())
        return self._seen.collectives

    def with_collectives(self, collectives: tuple[PlannedCollective, ...]) -> Self:
        """The same where other collectives run than the problem predicts."""
        return type(self)(self.lowered, self.choice, _Seen(collectives=collectives))

    def _on_edges(self) -> Iterator[PlannedCollective]:
        for edge in self.lowered.edges:
            yield from self.along(edge, self.choice[edge.source], self.choice[edge.target])

    def along(self, edge: Edge, source: int, target: int) -> Iterator[PlannedCollective]:
        """What is sent along an edge between two candidates of its ends."""
        node = self.lowered.nodes[edge.target]
        reader = node.origin.name if node.kind is NodeKind.OPERATOR else ""
        tensor = self.lowered.liveness.origin(edge.tensor).name
        for sent in self._sent(self.lowered.flow(edge, source, target)):
            yield PlannedCollective(
                tensor=tensor, operator=reader, operand=edge.operand, stage=node.stage, **sent
            )

    def _sent(self, flow: Flow) -> tuple[dict[str, Any], ...]:
        """Its fields; edges of one kind between the same states share them."""
        if flow.key not in self._seen.sent:
            self._seen.sent[flow.key] = tuple(self._messages(flow))
        return self._seen.sent[flow.key]

    def _flow(self, edge: Edge) -> Flow:
        return self.lowered.flow(edge, self.choice[edge.source], self.choice[edge.target])

    def _messages(self, flow: Flow) -> Iterator[dict[str, Any]]:
        """Fields of a `PlannedCollective` that do not depend on the tensor and its reader."""
        moves = self.lowered.transfers(flow)
        gathers = sum(move.cause in {Cause.PARAMETER_GATHER, Cause.FORWARD} for move in moves)
        for number, transfer in enumerate(moves):
            step = transfer.step
            again = flow.kind.regathered and gathers // 2 <= number < gathers
            times = 1 if transfer.once else self.micro_batches
            if step.kind is not None:
                axes, size, tier = self._group(step.axes)
                yield {
                    "kind": step.kind.value,
                    "axes": axes,
                    "group_size": size,
                    "nbytes": step.nbytes,
                    "count": times,
                    "time_s": step.time_s * times,
                    "tier": tier,
                    "cause": transfer.cause,
                    "before": self.named(transfer.before),
                    "after": self.named(transfer.after),
                    "backward": times
                    * (again or transfer.cause in {Cause.ACTIVATION_GRADIENT, Cause.GRADIENT_SYNC}),
                }

    def _inside(self) -> Iterator[PlannedCollective]:
        for node, candidate in zip(self.lowered.nodes, self.choice, strict=True):
            if node.candidates is None:
                continue
            for item in node.candidates.inner[node.row(candidate)]:
                axes, size, tier = self._group(item.axes)
                if item.forward + item.backward:
                    yield PlannedCollective(
                        kind=item.kind.value,
                        axes=axes,
                        group_size=size,
                        nbytes=item.nbytes,
                        count=(item.forward + item.backward) * self.micro_batches,
                        time_s=item.time_s * self.micro_batches,
                        tier=tier,
                        cause=Cause.INSIDE,
                        tensor="",
                        operator=node.origin.name,
                        stage=node.stage,
                        backward=item.backward * self.micro_batches,
                    )

    def _group(self, axes: tuple[int, ...]) -> tuple[tuple[str, ...], int, str]:
        """Names, size and outermost tier of the group over some axes."""
        found = self._seen.groups.get(axes)
        if found is None:
            mesh = self.lowered.setting.mesh
            model = CollectiveModel(self.lowered.setting.cluster, mesh)
            names = tuple(mesh.axes[a].name for a in axes)
            size = math.prod(mesh.sizes[a] for a in axes)
            found = self._seen.groups[axes] = names, size, model.tier_of(tuple(sorted(axes)))
        return found

    def buffer_excess_bytes(self) -> int:
        if self._seen.collectives is None:
            return Group.buffer_excess_bytes(self)
        groups = communicators_of(self._seen.collectives)
        return self.lowered.setting.cluster.buffer_excess_bytes(groups)


def communicators_of(collectives: Sequence[PlannedCollective]) -> int:
    """Communication groups that each device is in: one for every set of mesh axes used."""
    return len({frozenset(item.axes) for item in collectives if item.group_size > 1})
