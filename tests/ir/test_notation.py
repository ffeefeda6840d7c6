"""A rule and its notation say the same."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from ir.notation import notation, remarks
from ir.rule import ShardingRule, parse_rule
from tests.operators.example import Example, example
from tests.operators.examples import EXAMPLES

pytestmark = pytest.mark.fast


def renumbered(rule: ShardingRule) -> ShardingRule:
    """The same rule with its factors in the order in which they appear, without what the notation
    cannot say.
    """
    maps = [m for m in (*rule.operands, *rule.results) if m is not None]
    order = list(dict.fromkeys(f for m in maps for dim in m for f in dim))
    new = {old: i for i, old in enumerate(order)}

    def turned(mapping: tuple[tuple[int, ...], ...] | None) -> object:
        return None if mapping is None else tuple(tuple(new[f] for f in dim) for dim in mapping)

    return replace(
        rule,
        sizes=tuple(rule.sizes[f] for f in order),
        operands=tuple(turned(m) for m in rule.operands),  # type: ignore[misc]
        results=tuple(turned(m) for m in rule.results),  # type: ignore[misc]
        locked=frozenset(new[f] for f in rule.locked if f in new),
        internal=(),
        order=(),
        uncut=frozenset(),
        lookup=frozenset(),
        windows=(),
    )


def is_complete(rule: ShardingRule, dims: list[tuple[int, ...] | None]) -> bool:
    """Whether the factors of each dimension multiply to it."""
    return all(
        not factors or math.prod(rule.sizes[f] for f in factors) == size
        for mapping, sizes in zip((*rule.operands, *rule.results), dims, strict=True)
        for factors, size in zip(mapping or (), sizes or (), strict=True)
    )


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_what_is_read_back_from_the_notation_is_the_rule(kind: str) -> None:
    for one in EXAMPLES[kind](random.Random(kind)):
        check_notation(one)


def check_notation(one: Example) -> None:
    rule, view = one.rule, one.view
    operands = [
        None if t is None or m is None else t.dims
        for t, m in zip(view.inputs, rule.operands, strict=True)
    ]
    if not is_complete(rule, [*operands, *(t.dims for t in view.outputs)]):
        assert one.op.kind == "Reshape"
        return
    found = parse_rule(notation(rule), operands, [t.dims for t in view.outputs])
    assert found == renumbered(rule), str(one)


def test_an_operand_without_a_layout_has_a_mark_of_its_own() -> None:
    rule = ShardingRule((4,), (((0,),), None), (((0,),),))
    assert notation(rule) == "a, _ -> a"


def test_messages_inside_and_masks_are_told() -> None:
    softmax = example("Softmax", [np.ones((4, 8))], [(4, 8)], axis=1)
    (remark,) = remarks(softmax.rule)
    assert remark == "b: reduced inside, 2 x forward, 1 x backward"
    assert list(remarks(parse_rule("a b -> a b", [(4, 8)], [(4, 8)]))) == []
    pool = example("MaxPool", [np.ones((2, 4, 8, 8))], [(2, 4, 8, 4)], kernel_shape=(3, 2),
                   strides=(1, 2), pads=(1, 0, 1, 0))  # fmt: skip
    (remark,) = remarks(pool.rule)
    assert remark == "c d: split only where asked for; neighbours exchange edges"
