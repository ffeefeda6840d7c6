"""Calls of `shard` as pins: the operators at the edge of each part, and the rest data parallel.

An entry of `in_strategy` is the layout of an argument, so it holds the operators that read the
argument; `parameter_plan` holds those that read the parameter. What an operator's rule says of the
others follows; the rest of the part is left to the search. Outside, operators split the batch over
all devices, or nothing under full_batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ir.batch import BatchError, batch_dims
from ir.graph import Op, OpGraph, Tensor
from ir.ops import OpView, lookup
from ir.rule import FactorMap, ShardingRule
from planner.request import Cuts
from planner.shard.calls import Own, ShardCall, ShardContext, ShardError, ShardIssue
from planner.shard.scopes import Scopes, parameter_name

Pinned = tuple[str, Cuts]


def pins_of_calls(
    graph: OpGraph, calls: Sequence[ShardCall], context: ShardContext, devices: int
) -> tuple[Pinned, ...]:
    """What the calls hold operators to, as `SearchRequest.pins` has it.

    Args:
        graph: as it is planned; the calls are free of errors (`check_calls`).
        calls: the calls.
        context: says how the rest is laid out.
        devices: of the job.

    Raises:
        ShardError: the entries of a call want different cuts of one operator.
    """
    scopes = Scopes(graph)
    found: dict[str, Cuts] = {}
    taken: set[str] = set()
    for call in calls:
        wanted = _wanted(call, scopes, taken)
        for op in scopes.part(call.target).ops:
            own = {i: wanted[name] for i, name in enumerate(op.inputs) if name in wanted}
            if own:
                found[op.name] = _derived(graph, op, own, call)
    rest = scopes.outside([call.target for call in calls])
    found |= dict(_data_parallel(graph, rest, context, devices))
    return tuple(sorted(found.items()))


def _wanted(call: ShardCall, scopes: Scopes, taken: set[str]) -> dict[str, Own]:
    """Cuts of the arguments and of the parameters of a call, by tensor."""
    part = scopes.part(call.target)
    pairs = zip(part.inputs, call.in_strategy, strict=True)
    wanted = {tensor.name: cuts for tensor, cuts in pairs if cuts is not None}
    plan = {name.removeprefix("self."): cuts for name, cuts in call.parameter_plan.items()}
    for tensor in part.parameters:
        name = parameter_name(tensor)
        if name in plan and name not in taken:
            taken.add(name)
            wanted[tensor.name] = _here(tensor, plan[name])
    return wanted


def _here(tensor: Tensor, cuts: Own) -> Own:
    """Cuts in the order of the graph, from those in the order of the model file."""
    return tuple(cuts[there] for there in tensor.stored_permutation) or cuts


def _derived(graph: OpGraph, op: Op, own: Mapping[int, Own], call: ShardCall) -> Cuts:
    """Cuts of all operands, from those of some by the operator's rule."""
    view = OpView(op, graph)
    rule = lookup(op.kind).rule(view)
    factors: dict[int, int] = {}
    for index, cuts in own.items():
        mapping = rule.operands[index]
        for dim, cut in zip(mapping or (), cuts, strict=False):
            for factor, part in _shares(rule, dim, cut, op, call):
                if factors.setdefault(factor, part) != part:
                    what = f"operator {op.name} would be cut {factors[factor]} and {part} ways"
                    fix = "give the inputs strategies that agree, or None to one of them"
                    raise ShardError(ShardIssue("E_SHARD_DISAGREE", what, str(call), fix))
    return _cuts(graph, op, rule, factors)


def _shares(
    rule: ShardingRule, dim: Sequence[int], cut: int, op: Op, call: ShardCall
) -> Iterator[tuple[int, int]]:
    """What a cut of a dimension splits of its factors, the outermost first."""
    for factor in dim:
        part = math.gcd(cut, rule.sizes[factor])
        if part < cut and part < rule.sizes[factor]:
            break
        cut //= part
        yield factor, part
    if cut > 1:
        what = f"operator {op.name} cannot cut a dimension so"
        fix = "cut another dimension, or fewer ways"
        raise ShardError(ShardIssue("E_SHARD_DIVIDE", what, str(call), fix))


def _cuts(graph: OpGraph, op: Op, rule: ShardingRule, factors: Mapping[int, int]) -> Cuts:
    """Cuts of all operands that are arrays, factors that are not given whole."""

    def of(mapping: FactorMap | None, rank: int) -> Own:
        if mapping is None:
            return (1,) * rank
        return tuple(math.prod(factors.get(f, 1) for f in dim) for dim in mapping)

    pairs = zip(op.inputs, rule.operands, strict=True)
    return tuple(of(mapping, len(graph.tensors[name].dims)) for name, mapping in pairs if name)


def _data_parallel(
    graph: OpGraph, ops: Sequence[Op], context: ShardContext, devices: int
) -> Iterator[Pinned]:
    """Operators outside all calls: the batch over all devices, or whole under full_batch.

    What has no batch, or a batch that does not split so, is left to the search.
    """
    try:
        where = batch_dims(graph)
    except BatchError:
        return
    parts = devices if context.dataset_strategy == "data_parallel" else 1
    for op in ops:
        if not any(op.inputs):
            continue
        rule = lookup(op.kind).rule(OpView(op, graph))
        batch = _batch_factor(op, rule, where)
        fine = batch in rule.splittable and batch not in rule.uncut if parts > 1 else True
        if batch is not None and fine and rule.sizes[batch] % parts == 0:
            yield op.name, _cuts(graph, op, rule, {batch: parts})


def _batch_factor(op: Op, rule: ShardingRule, where: Mapping[str, int]) -> int | None:
    for name, mapping in zip(op.inputs, rule.operands, strict=True):
        if name in where and mapping is not None and mapping[where[name]]:
            return mapping[where[name]][0]
    return None
