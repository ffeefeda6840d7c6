"""Results that MindSpore's `out_strategy` scatters, for its own propagation.

A product whose summed dimension is cut makes a sum: with cuts of its result that are so many times
finer, MindSpore reduces and scatters it over rows, and what reads it follows those. Elsewhere the
readers are held to such cuts; here they choose, as in MindSpore.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ir.layout import Layout
from planner.candidates.layout_tables import LayoutPair, LayoutTable
from planner.constraints.pins import ResultPin
from planner.lowering.lowered import Edge, Lowered, Node, NodeKind
from planner.problem import EdgeTable, FloatArray
from planner.request import RequestError
from planner.solvers.propagation import NEVER


def with_results(lowered: Lowered, wanted: Mapping[str, ResultPin]) -> Lowered:
    """The problem in which the results of some operators have the cuts that pins give them.

    Args:
        lowered: the problem, in which these operators are pinned.
        wanted: by the names that operators have in the network.

    Raises:
        RequestError: the operator does not make a sum that these cuts scatter.
    """
    problem, told = lowered.problem, list[EdgeTable]()
    stated: set[int] = set()
    numbers = list(problem.edge_table_of)
    for place, edge in enumerate(lowered.edges):
        source = lowered.nodes[edge.source]
        pin = wanted.get(source.origin.name) if source.candidates is not None else None
        if pin is not None:
            old = problem.edge_tables[numbers[place]]
            row = _sent(lowered, edge, pin)
            told.append(EdgeTable(np.tile(row, (len(old.time_s), 1)), old.memory_bytes))
            numbers[place] = len(problem.edge_tables) + len(told) - 1
            stated.add(edge.source)
    nodes, tables = (problem.node_tables, problem.node_table_of), (*problem.edge_tables, *told)
    found = problem.with_tables(nodes, (tables, tuple(numbers)))
    return replace(lowered, problem=replace(found, stated=tuple(sorted(stated))))


def _sent(lowered: Lowered, edge: Edge, pin: ResultPin) -> FloatArray:
    """What goes over an edge from the result to each candidate of its reader.

    MindSpore offers the reader the cuts of the result as a strategy has them, from the outermost
    devices on, all else whole: they are told as those of its candidates that cuts so and least.
    """
    target, sizes = lowered.nodes[edge.target], lowered.setting.mesh.sizes
    layout = _scattered(lowered.nodes[edge.source], edge, pin, sizes)
    assert lowered.basis is not None
    pricing = lowered.basis.pricing
    price = pricing.branch if target.kind is NodeKind.TENSOR else pricing.edge
    table = LayoutTable((LayoutPair(layout, layout),), np.zeros(1, dtype=np.intp))
    of = edge.target_layouts.of[target.columns.assignment]
    cost: FloatArray = price(edge.kind, table, edge.target_layouts)
    row: FloatArray = np.array(cost[0][of])
    alike = [state.forward.shards(sizes) == pin.cuts for state in edge.target_layouts.states]
    said = np.array([_outermost(state.forward) for state in edge.target_layouts.states])
    problem = lowered.problem
    own = problem.node_tables[problem.node_table_of[edge.target]].time_s
    same = np.flatnonzero((np.array(alike) & said)[of])
    if not len(same):
        same = np.flatnonzero(np.array(alike)[of])
    if target.kind is NodeKind.TENSOR:  # its readers take what a strategy says
        row = np.where(said[of], row, NEVER)
    if len(same):
        row[same[own[same].argmax()]] = 0.0
    return row


def _outermost(layout: Layout) -> bool:
    """Whether a strategy says this layout: the outermost devices cut the first dimension."""
    axes = [axis for dim in layout.dims for axis in dim]
    return axes == list(range(len(axes)))


def _scattered(source: Node, edge: Edge, pin: ResultPin, sizes: tuple[int, ...]) -> Layout:
    """The layout of a result whose rows are cut by what cuts the summed dimension too.

    MindSpore's device matrix of it is copies, rows, sum and columns, the outermost first.
    """
    assert source.candidates is not None
    row = source.row(0)
    own: Layout = edge.source_layouts.states[edge.source_layouts.of[row]].forward
    operands = [t.states[t.of[row]].forward for t in source.candidates.operands if t]
    held = {axis for layout in operands for dim in layout.dims for axis in dim}
    summed = math.prod(sizes[a] for a in held - {axis for dim in own.dims for axis in dim})
    cuts = own.shards(sizes)
    finer = (cuts[0] * summed, *cuts[1:])
    if pin.cuts == cuts:
        return own
    if pin.cuts != finer:
        raise RequestError(
            f"{source.name} sums over {summed} parts, which these cuts of its result do not "
            f"scatter over rows\n  at:  {pin.text}\n  fix: use {finer} or {cuts}"
        )
    places = iter(range(len(sizes)))
    _taken(places, sizes, math.prod(sizes) // math.prod(finer))
    return Layout(tuple(_taken(places, sizes, count) for count in finer))


def _taken(places: Iterator[int], sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The next axes that make so many parts."""
    out: list[int] = []
    while math.prod(sizes[axis] for axis in out) < count:
        out.append(next(places))
    return tuple(out)
