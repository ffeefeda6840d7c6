"""Cutting tensors along factors of a rule, and putting results together again."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ir.ops import OpView
from ir.rule import FactorMap, ShardingRule

Array: TypeAlias = NDArray[Any]
Message: TypeAlias = tuple[str, Array]
"""An all-reduce: its operation and what this shard contributes."""
Shard: TypeAlias = Generator[Message, Array, list[Array]]
"""An operator on one shard: yields messages, receives them reduced, returns its results."""
Meaning: TypeAlias = Callable[
    [OpView, Sequence[Array | None], Sequence[tuple[int, ...]], int], Shard
]
"""What a kind computes: the whole operator, local operands, dims of local results, which shard."""

REDUCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}


def _spread(dims: Sequence[int], mapping: FactorMap, rule: ShardingRule) -> list[list[int]]:
    """Sizes of the factors of every dimension, with what they do not cover behind them."""
    out: list[list[int]] = []
    for dim, factors in zip(dims, mapping, strict=True):
        sizes = [rule.sizes[f] for f in factors]
        out.append([*sizes, dim // max(1, math.prod(sizes))])
    return out


def _index(mapping: FactorMap, factor: int, half: slice) -> tuple[slice, ...]:
    return tuple(half if f == factor else slice(None) for dim in mapping for f in (*dim, None))


def cut(
    array: Array, mapping: FactorMap | None, rule: ShardingRule, factor: int, part: int, ways: int
) -> Array:
    """The part of a tensor that one of `ways` devices has when a factor is split."""
    if mapping is None or not rule.has(mapping, factor):
        return array
    spread = _spread(array.shape, mapping, rule)
    size = rule.sizes[factor] // ways
    half = slice(part * size, (part + 1) * size)
    piece = array.reshape([s for dim in spread for s in dim])[_index(mapping, factor, half)]
    return piece.reshape(cut_dims(array.shape, mapping, rule, factor, ways))


def cut_dims(
    dims: Sequence[int], mapping: FactorMap | None, rule: ShardingRule, factor: int, ways: int
) -> tuple[int, ...]:
    """Dims of such a part."""
    if mapping is None:
        return tuple(dims)
    return tuple(d // ways if factor in fs else d for d, fs in zip(dims, mapping, strict=True))


def join(
    parts: Sequence[Array], mapping: FactorMap, rule: ShardingRule, factor: int, dims: Sequence[int]
) -> Array:
    """The whole result from the parts of a split factor: placed, or added where it lacks it."""
    if not rule.has(mapping, factor):
        return np.asarray(sum(p.astype(np.float64) for p in parts)).astype(parts[0].dtype)
    ways = len(parts)
    spread = _spread(dims, mapping, rule)
    whole = np.zeros([s for dim in spread for s in dim], parts[0].dtype)
    size = rule.sizes[factor] // ways
    for number, part in enumerate(parts):
        half = slice(number * size, (number + 1) * size)
        place = _index(mapping, factor, half)
        whole[place] = part.reshape(whole[place].shape)
    return whole.reshape(dims)


def run_together(
    shards: Sequence[Shard], reduced: Sequence[bool]
) -> tuple[list[list[Array]], list[Array]]:
    """Run shards in step.

    Args:
        shards: one per device.
        reduced: for each message in turn whether these devices reduce it with each other.

    Returns:
        The results of every shard, and the messages that the first one sent.
    """
    results: list[list[Array]] = []
    answers: list[Array | None] = [None] * len(shards)
    sent: list[Array] = []
    while not results:
        messages: list[Message] = []
        for shard, answer in zip(shards, answers, strict=True):
            try:
                messages.append(next(shard) if answer is None else shard.send(answer))
            except StopIteration as stop:
                results.append(stop.value)
        if messages:
            answers = _answers(messages, reduced=reduced[len(sent)])
            sent.append(messages[0][1])
    assert len(results) == len(shards), "the shards do not communicate alike"
    return results, sent


def _answers(messages: Sequence[Message], *, reduced: bool) -> list[Array | None]:
    assert len({kind for kind, _ in messages}) == 1
    values = [np.asarray(value) for _, value in messages]
    if not reduced:
        return list(values)
    return [np.asarray(reduce(REDUCTIONS[messages[0][0]], values))] * len(values)
