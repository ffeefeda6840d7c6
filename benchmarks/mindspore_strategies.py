"""What a strategy of MindSpore costs under both cost models, and the strategy of a choice of ours.

What a strategy leaves open is chosen at least cost: reshapes, which take none, and layouts at rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ir.graph import Op, OpGraph
from ir.mindspore_forms.primitives import primitive_form
from ir.mindspore_forms.readers import Reader
from ir.ops import OpView, lookup
from ir.ops.shape import RESHAPES
from planner.candidates.columns import BoolArray
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, Node, Setting
from planner.lowering.pricing import SLICES, TIME
from planner.pipeline.objectives import completed
from planner.reduction.restriction import IndexArray
from planner.request import Cuts


class StrategyError(ValueError):
    """A strategy that does not fit the graph; the message has what, where and how to mend it."""


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """One strategy in both currencies, memory aside."""

    step_time_s: float
    """By the planner's cost model."""
    peak_memory_bytes: float
    """Per device, of that step."""
    slices: float
    """As the searches of the framework count it."""


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
    theirs = completed(lower(liveness, replace(setting, cost=SLICES)).problem, allowed)
    return StrategyCost(seconds.cost_s, seconds.peak_bytes, theirs.cost_s)


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
    known: dict[tuple[int, Cuts], BoolArray] = {}
    out: list[IndexArray] = []
    for node, size in zip(lowered.nodes, lowered.problem.sizes, strict=True):
        wanted = strategy.get(node.name) if node.candidates is not None else None
        if wanted is None:
            out.append(np.arange(size))
            continue
        key = (id(node.candidates), wanted)
        if key not in known:
            known[key] = _matching(lowered, ops[node.name], node, wanted)
        out.append(node.columns.having(known[key]))
    return out


def _matching(lowered: Lowered, op: Op, node: Node, wanted: Cuts) -> BoolArray:
    offered = _offered(lowered, op, node)
    found = np.array([cuts == wanted for cuts in offered], dtype=np.bool_)
    if not found.any():
        some = ", ".join(map(repr, list(dict.fromkeys(offered))[:3]))
        raise StrategyError(
            f"operator {op.name} ({op.label}) cannot be cut as {wanted!r}\n"
            f"  at:  the strategy of {op.name}\n"
            f"  fix: choose one of its {len(offered)} strategies, such as {some}"
        )
    return found


def _offered(lowered: Lowered, op: Op, node: Node) -> list[Cuts]:
    """Cuts of every assignment of an operator."""
    view = OpView(op, lowered.liveness.graph)
    form = primitive_form(view, lookup(op.kind).rule(view))
    sizes = lowered.setting.mesh.sizes
    splits = node.candidates.assignments if node.candidates is not None else ()
    return [Reader(op, form, (), split, sizes).cuts for split in splits]


def strategy_of(lowered: Lowered, choice: Sequence[int]) -> dict[str, Cuts]:
    """The cuts that a choice gives to every operator that takes a strategy."""
    ops = {op.name: op for op in lowered.liveness.graph.ops}
    out: dict[str, Cuts] = {}
    for node, candidate in zip(lowered.nodes, choice, strict=True):
        if node.candidates is None or ops[node.name].kind in RESHAPES:
            continue
        op = ops[node.name]
        view = OpView(op, lowered.liveness.graph)
        form = primitive_form(view, lookup(op.kind).rule(view))
        if form.name:
            split = node.assignment(candidate)
            out[op.name] = Reader(op, form, (), split, lowered.setting.mesh.sizes).cuts
    return out
