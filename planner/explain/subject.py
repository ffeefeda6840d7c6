"""A decision of a plan in the user's words: its candidates, their cuts and layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ir.graph import Role
from ir.layout import Layout
from planner.evidence import Evidence
from planner.explain.case import Case
from planner.lowered import Node, NodeKind
from planner.pins import cuts_text
from planner.ports import Port
from planner.request import Cuts
from planner.restriction import IndexArray

Shown = tuple[tuple[str, ...], tuple[str, ...]]
"""Layouts of inputs and of results."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One node of the problem."""

    case: Case
    number: int

    @property
    def node(self) -> Node:
        return self.case.lowered.nodes[self.number]

    @property
    def size(self) -> int:
        return self.case.lowered.problem.sizes[self.number]

    @cached_property
    def _evidence(self) -> Evidence:
        return Evidence(self.case.lowered, self.case.choice)

    def layouts(self, candidate: int) -> Shown:
        """Layouts that a candidate gives to operands and results; of a tensor its own."""
        node = self.node
        if node.candidates is None:
            return (), (self._port_text(node.port, candidate),)
        at, found = node.assignment_index(candidate), node.candidates
        return (
            tuple(self._port_text(port, at) for port in found.operands),
            tuple(self._port_text(port, at) for port in found.results),
        )

    def _port_text(self, port: Port | None, candidate: int) -> str:
        if port is None:
            return "-"
        return self.layout_text(port.states[port.of[candidate % len(port.of)]].forward)

    def layout_text(self, layout: Layout) -> str:
        """A layout with the names of the mesh axes."""
        return str(self._evidence.named(layout))

    def cuts(self, candidate: int) -> Cuts | None:
        """In how many parts an operator's candidate cuts each operand; None for a tensor."""
        node = self.node
        if node.candidates is None:
            return None
        at, sizes = node.assignment_index(candidate), self.case.lowered.setting.mesh.sizes
        graph = self.case.graph
        op = next(op for op in graph.ops if op.name == node.name)
        out: list[tuple[int, ...]] = []
        for name, port in zip(op.inputs, node.candidates.operands, strict=True):
            tensor = graph.tensors.get(name)
            if tensor is None or not tensor.dims or tensor.role is Role.CONSTANT:
                continue
            whole = Layout(((),) * len(tensor.dims))
            layout = whole if port is None else port.states[port.of[at]].forward
            out.append(layout.shards(sizes))
        return tuple(out)

    def cuts_text(self, candidate: int) -> str:
        """As `--pin` takes them; the layout of a tensor."""
        cuts = self.cuts(candidate)
        return self.layouts(candidate)[1][0] if cuts is None else cuts_text(cuts)

    @cached_property
    def looks(self) -> tuple[Shown, ...]:
        """Layouts of every candidate."""
        known: dict[int, Shown] = {}
        count = self.size // 2 if self.node.recomputes else self.size
        return tuple(known.setdefault(i % count, self.layouts(i % count)) for i in range(self.size))

    def alike(self, candidate: int) -> IndexArray:
        """Candidates with the same layouts, whatever they compute again."""
        look = self.looks[candidate]
        return np.array([i for i, own in enumerate(self.looks) if own == look], dtype=np.intp)

    def label(self) -> str:
        """Kind of an operator; dims and element type of a tensor."""
        graph = self.case.graph
        if self.node.kind is NodeKind.OPERATOR:
            return next(op.label for op in graph.ops if op.name == self.node.name)
        tensor = graph.tensors[self.node.name]
        return f"{'x'.join(map(str, tensor.dims)) or 'scalar'} {tensor.dtype}"

    def scope(self) -> str:
        if self.node.kind is not NodeKind.OPERATOR:
            return ""
        return next(op.scope for op in self.case.graph.ops if op.name == self.node.name)

    def edges(self) -> Iterator[tuple[int, int]]:
        """Edges at the node: number and the node at the other end."""
        for index, edge in enumerate(self.case.lowered.edges):
            if edge.source == self.number:
                yield index, edge.target
            elif edge.target == self.number:
                yield index, edge.source
