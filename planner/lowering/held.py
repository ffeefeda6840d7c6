"""Who holds how many bytes when, under a choice: every view of memory counts from here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ir.plan_enums import MemoryCause
from planner.lowering.lowered import Lowered


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that a node, or a copy on an edge, holds over some time points."""

    cause: str
    holder: int
    """The node; of a copy the one that it is made from."""
    tensor: str
    """That is copied; empty for what a node holds itself."""
    start: int
    end: int
    """From `start` to before `end`."""
    nbytes: float


def held_of(lowered: Lowered, choice: Sequence[int]) -> Iterator[Held]:
    """All that a choice holds, nodes before edges."""
    problem = lowered.problem
    for index, node in enumerate(lowered.nodes):
        table = problem.node_tables[problem.node_table_of[index]]
        for vector, span, cause in zip(
            table.memory_bytes, problem.node_intervals[index], node.memory_causes, strict=True
        ):
            yield Held(cause, index, "", *span, float(vector[choice[index]]))
    for edge, table_index, spans in zip(
        lowered.edges, problem.edge_table_of, problem.edge_intervals, strict=True
    ):
        for matrix, span in zip(problem.edge_tables[table_index].memory_bytes, spans, strict=True):
            nbytes = float(matrix[choice[edge.source], choice[edge.target]])
            yield Held(MemoryCause.GATHERED_COPIES, edge.source, edge.tensor, *span, nbytes)
