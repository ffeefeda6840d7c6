"""Strategies as MindSpore's files name them, and those that it makes where it is given none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ir.graph import OpGraph, Role
from ir.mindspore_forms.primitives import primitive_form
from ir.mindspore_forms.readers import file_name
from ir.normalise.ends import ENDS
from ir.ops import Engine, OpView, lookup
from ir.rule import FactorMap, ShardingRule

Cuts = tuple[int, ...]
Strategy = tuple[Cuts, ...]
"""Cuts of every dimension of every input."""


def strategy_key(view: OpView, rule: ShardingRule) -> str:
    """What a checkpoint calls the strategy of an operator; empty for one without parameters."""
    name = primitive_form(view, rule).name
    read = [t for t in view.inputs if t is not None and t.role is Role.PARAMETER]
    return f"{name}_{file_name(read[0])}" if name and read else ""


def spread(counts: dict[int, int], dim: Sequence[int], cut: int, sizes: Sequence[int]) -> None:
    """Cut the factors of a dimension, the outer ones first."""
    rest = cut
    for place, factor in enumerate(dim):
        pieces = rest if place == len(dim) - 1 else math.gcd(rest, sizes[factor])
        rest //= pieces
        counts[factor] = max(pieces, counts.get(factor, 1))


def cuts_of(view: OpView, counts: Mapping[int, int]) -> Strategy:
    """Cuts of every operand of an operator, from the pieces of its factors."""
    rule = lookup(view.op.kind).rule(view)
    return tuple(
        (1,) * len(tensor.dims)
        if mapping is None
        else tuple(math.prod(counts.get(f, 1) for f in dim) for dim in mapping)
        for tensor, mapping in zip(view.inputs, rule.operands, strict=True)
        if tensor is not None
    )


def batch_pins(
    graph: OpGraph, devices: int, given: Mapping[str, Strategy], *, loss: bool = True
) -> dict[str, Strategy]:
    """What MindSpore's semi-automatic mode does with operators that are given nothing: the first
    dimension split over all devices, or the operator repeated where that does not go. A lookup
    splits its indices and keeps the table whole.

    Source: MindSpore 2.7.0, `ops_info/operator_info.cc` and `gather_info.cc`,
    GenerateBatchStrategies.
    """
    out: dict[str, Strategy] = {}
    for op in graph.ops:
        entry = lookup(op.kind)
        follows = entry.engine is Engine.VIEW or not op.outputs
        if op.name in given or follows or (op.kind in ENDS and not loss):
            continue
        view = OpView(op, graph)
        rule = entry.rule(view)
        first = next((m for m in rule.operands if m and not _is_table(m, rule)), None)
        counts: dict[int, int] = {}
        kept = rule.locked | rule.uncut
        if first and first[0] and not kept.intersection(first[0]):
            rows = math.prod(rule.sizes[f] for f in first[0])
            if rows % devices == 0:
                spread(counts, first[0], devices, rule.sizes)
        out[op.name] = cuts_of(view, counts)
    return out


def batch_only(graph: OpGraph, devices: int) -> dict[str, Strategy]:
    """Strategies of primitives that MindSpore splits by batch over all devices and no other way.

    Source: MindSpore 2.10.0, `ops_info/batch_parallel_info.cc`, CheckStrategy; whole, what it makes
    of `Flatten` does not compile.
    """
    names = {each.name for each in graph.primitives if each.kind in BATCH_ONLY}
    out: dict[str, Strategy] = {}
    for op in graph.ops if names else ():
        dims = graph.tensors[op.inputs[0]].dims if op.name in names else ()
        if dims and dims[0] % devices == 0:
            out[op.name] = ((devices, *(1 for _ in dims[1:])),)
    return out


BATCH_ONLY = frozenset({"Flatten"})
"""Primitives that MindSpore splits by batch alone."""


def _is_table(mapping: FactorMap, rule: ShardingRule) -> bool:
    return any(factor in rule.lookup for dim in mapping for factor in dim)
