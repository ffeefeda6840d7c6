"""Collects the nodes and edges of a problem."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from planner.problem import EdgeTable, Interval, NodeTable, Problem


@dataclass(slots=True)
class ProblemBuilder:
    """Collects nodes and edges; `build` makes the problem."""

    node_tables: list[NodeTable] = field(default_factory=list)
    edge_makers: list[Callable[[], EdgeTable]] = field(default_factory=list)
    node_table_of: list[int] = field(default_factory=list)
    node_intervals: list[tuple[Interval, ...]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    edge_table_of: list[int] = field(default_factory=list)
    edge_intervals: list[tuple[Interval, ...]] = field(default_factory=list)
    kind_of: list[int] = field(default_factory=list)
    """What each node is, whatever variant of it."""
    _kinds: dict[Hashable, int] = field(default_factory=dict)
    _nodes: dict[Hashable, int] = field(default_factory=dict)
    _edges: dict[Hashable, int] = field(default_factory=dict)

    def add_node(
        self,
        key: Hashable,
        make: Callable[[], NodeTable],
        intervals: tuple[Interval, ...],
        variant: Hashable = None,
    ) -> int:
        """A node; `make` runs only for a key and variant not seen before. Returns its number.

        Edges of nodes that differ in the variant alone may share a table.
        """
        kind = self._kinds.setdefault(key, len(self._kinds))
        number = self._nodes.setdefault((kind, variant), len(self.node_tables))
        if number == len(self.node_tables):
            self.node_tables.append(make())
        self.kind_of.append(kind)
        self.node_table_of.append(number)
        self.node_intervals.append(intervals)
        return len(self.node_table_of) - 1

    def add_edge(
        self,
        pair: tuple[int, int],
        key: Hashable,
        make: Callable[[], EdgeTable],
        intervals: tuple[Interval, ...],
        variant: Hashable = None,
    ) -> bool:
        """An edge, indexed [choice of pair[0], choice of pair[1]]; `make` runs in `build`, and only
        for a key and variant not seen before. Returns whether it is.
        """
        full = (self.kind_of[pair[0]], self.kind_of[pair[1]], key, variant)
        number = self._edges.setdefault(full, len(self.edge_makers))
        is_new = number == len(self.edge_makers)
        if is_new:
            self.edge_makers.append(make)
        self.edges.append(pair)
        self.edge_table_of.append(number)
        self.edge_intervals.append(intervals)
        return is_new

    def build(self, time_points: int, memory_limit_bytes: float) -> Problem:
        """The problem of everything added.

        What makes tables is forgotten: it mostly refers to whoever keeps the builder, and a large
        lowering would wait for the collector of cycles.
        """
        makers, self.edge_makers = self.edge_makers, []
        return Problem(
            node_tables=tuple(self.node_tables),
            edge_tables=tuple(make() for make in makers),
            node_table_of=tuple(self.node_table_of),
            node_intervals=tuple(self.node_intervals),
            edges=tuple(self.edges),
            edge_table_of=tuple(self.edge_table_of),
            edge_intervals=tuple(self.edge_intervals),
            time_points=time_points,
            memory_limit_bytes=memory_limit_bytes,
        )
