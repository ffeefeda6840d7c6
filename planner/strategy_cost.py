"""What a given strategy costs, ours or another's: seconds of a step, and MindSpore's own cost.

A strategy says how operators cut their inputs, as MindSpore's files do. What it leaves open, such
as reshapes, which take no strategy, and layouts at rest, is chosen at least cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from exporters.mindspore_primitives import primitive_form
from exporters.mindspore_readers import NEVER_CUT, Reader
from ir.graph import Op, OpGraph
from ir.ops import OpView, lookup
from planner.liveness import analyse
from planner.lowered import Lowered, Node, Setting
from planner.lowering import lower
from planner.pricing import MINDSPORE, TIME
from planner.pricing_mindspore import ENDS
from planner.problem import Problem
from planner.restriction import IndexArray, original_choice, restricted
from planner.solvers import Budget, Solution, solver_by_name

Cuts: TypeAlias = tuple[tuple[int, ...], ...]
"""For each input of a primitive the pieces of every dimension."""


class StrategyError(ValueError):
    """A strategy that does not fit the graph; the message has what, where and how to mend it."""


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """One strategy in both currencies, memory aside."""

    step_time_s: float
    """By the planner's cost model."""
    peak_memory_bytes: float
    """Per device, of that step."""
    mindspore: float
    """By MindSpore's formulas."""


def strategy_cost(graph: OpGraph, setting: Setting, strategy: Mapping[str, Cuts]) -> StrategyCost:
    """The cost of a strategy under both cost models.

    Args:
        graph: as it is planned, with its ends.
        setting: machine, mesh and dialect; whatever it says of the cost.
        strategy: cuts by the name of the operator.

    Raises:
        StrategyError: the graph has no such operator, or an operator cannot be cut so.
    """
    liveness = analyse(graph, training=setting.training)
    in_time = lower(liveness, replace(setting, cost=TIME))
    allowed = candidates_of(in_time, strategy)
    seconds = completed(in_time.problem, allowed)
    theirs = completed(lower(liveness, replace(setting, cost=MINDSPORE)).problem, allowed)
    return StrategyCost(seconds.cost_s, seconds.peak_bytes, theirs.cost_s)


def completed(
    problem: Problem, allowed: Sequence[IndexArray], limit_bytes: float = math.inf
) -> Solution:
    """The best choice among allowed candidates; it is one of the whole problem."""
    within = replace(restricted(problem, allowed), memory_limit_bytes=limit_bytes)
    found = solver_by_name("dynamic_programming").solve(within, Budget(), None)
    if found.choice is None:
        return found
    return replace(found, choice=original_choice(allowed, found.choice))


def candidates_of(lowered: Lowered, strategy: Mapping[str, Cuts]) -> list[IndexArray]:
    """Candidates of every node that follow a strategy; all of them where it says nothing.

    Raises:
        StrategyError: as `strategy_cost`.
    """
    graph = lowered.liveness.graph
    ops = {op.name: op for op in graph.ops}
    unknown = sorted(strategy.keys() - ops.keys())
    if unknown:
        raise StrategyError(
            f"the strategy has {len(unknown)} operators that the graph lacks: "
            f"{', '.join(unknown[:3])}\n"
            "  at:  the strategy\n  fix: name operators as the graph does"
        )
    known: dict[tuple[int, Cuts], IndexArray] = {}
    out: list[IndexArray] = []
    for node, size in zip(lowered.nodes, lowered.problem.sizes, strict=True):
        wanted = strategy.get(node.name) if node.candidates is not None else None
        if wanted is None:
            out.append(np.arange(size))
            continue
        key = (id(node.candidates), wanted)
        if key not in known:
            known[key] = _matching(lowered, ops[node.name], node, wanted)
        out.append(_with_recomputation(known[key], node, size))
    return out


def same_splits(lowered: Lowered, choice: Sequence[int]) -> list[IndexArray]:
    """Candidates of every node that split its operator as a choice does; all of them where
    MindSpore wants no strategy, or has no operator.
    """
    kinds = {op.name: op.kind for op in lowered.liveness.graph.ops}
    out: list[IndexArray] = []
    for node, chosen, size in zip(lowered.nodes, choice, lowered.problem.sizes, strict=True):
        if node.candidates is None or kinds[node.name] in NEVER_CUT | ENDS:
            out.append(np.arange(size))
        else:
            same = np.array([node.assignment_index(chosen)], dtype=np.intp)
            out.append(_with_recomputation(same, node, size))
    return out


def _with_recomputation(found: IndexArray, node: Node, size: int) -> IndexArray:
    return np.concatenate([found, found + size // 2]) if node.recomputes else found


def _matching(lowered: Lowered, op: Op, node: Node, wanted: Cuts) -> IndexArray:
    offered = [cuts for cuts, _ in _offered(lowered, op, node)]
    found = [index for index, cuts in enumerate(offered) if cuts == wanted]
    if not found:
        some = ", ".join(map(repr, list(dict.fromkeys(offered))[:3]))
        raise StrategyError(
            f"operator {op.name} ({op.label}) cannot be cut as {wanted!r}\n"
            f"  at:  the strategy of {op.name}\n"
            f"  fix: choose one of its {len(offered)} strategies, such as {some}"
        )
    return np.array(found, dtype=np.intp)


def _offered(lowered: Lowered, op: Op, node: Node) -> list[tuple[Cuts, int]]:
    """Cuts of every candidate of an operator."""
    view = OpView(op, lowered.liveness.graph)
    form = primitive_form(view, lookup(op.kind).rule(view))
    sizes = lowered.setting.mesh.sizes
    splits = node.candidates.assignments if node.candidates is not None else ()
    return [(Reader(op, form, (), split, sizes).cuts, i) for i, split in enumerate(splits)]


def strategy_of(lowered: Lowered, choice: Sequence[int]) -> dict[str, Cuts]:
    """The cuts that a choice gives to every operator of MindSpore's that takes a strategy."""
    ops = {op.name: op for op in lowered.liveness.graph.ops}
    out: dict[str, Cuts] = {}
    for node, candidate in zip(lowered.nodes, choice, strict=True):
        if node.candidates is None or ops[node.name].kind in NEVER_CUT:
            continue
        op = ops[node.name]
        view = OpView(op, lowered.liveness.graph)
        form = primitive_form(view, lookup(op.kind).rule(view))
        if form.name:
            split = node.candidates.assignments[node.assignment_index(candidate)]
            out[op.name] = Reader(op, form, (), split, lowered.setting.mesh.sizes).cuts
    return out
