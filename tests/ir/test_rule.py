"""The notation of sharding rules, and what a rule of certain tensors must satisfy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.graph import GraphError, Op, OpGraph, Tensor
from ir.ops import OpView, check_operators, lookup
from ir.rule import ShardingRule, check_rule, parse_rule

pytestmark = pytest.mark.fast

Dims = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize(
    ("text", "operands", "results", "wanted"),
    [
        (
            "m k, k n -> m n",
            ((4, 8), (8, 2)),
            ((4, 2),),
            ShardingRule((4, 8, 2), (((0,), (1,)), ((1,), (2,))), (((0,), (2,)),)),
        ),
        (
            "b s h! -> b s h!",
            ((2, 3, 4),),
            ((2, 3, 4),),
            ShardingRule((2, 3, 4), (((0,), (1,), (2,)),), (((0,), (1,), (2,)),), frozenset({2})),
        ),
        (
            "b s (h=4 d) -> b h s d",
            ((2, 3, 32),),
            ((2, 4, 3, 8),),
            ShardingRule(
                (2, 3, 4, 8), (((0,), (1,), (2, 3)),), (((0,), (2,), (1,), (3,)),)
            ),
        ),
        (
            "b 1 -> b",
            ((2, 7),),
            ((2,),),
            ShardingRule((2,), (((0,), ()),), (((0,),),)),
        ),
        ("a -> ", ((2,),), ((),), ShardingRule((2,), (((0,),),), ((),))),
        ("a b -> a, b", ((2, 3),), ((2,), (3,)), ShardingRule(
            (2, 3), (((0,), (1,)),), (((0,),), ((1,),))
        )),
    ],
)  # fmt: skip
def test_the_notation_says_what_it_says(
    text: str, operands: Dims, results: Dims, wanted: ShardingRule
) -> None:
    found = parse_rule(text, operands, results)
    assert found == wanted
    check_rule(found, operands, results)


def test_an_operand_without_layout_has_no_map() -> None:
    assert parse_rule("a, b -> a", [(2,), None], [(2,)]).operands == (((0,),), None)


@pytest.mark.parametrize(
    ("text", "operands", "results", "reason"),
    [
        ("a b", ((2, 3),), (), "no '->'"),
        ("a -> a", ((2,), (3,)), ((2,),), "1 operands"),
        ("a -> a, a", ((2,),), ((2,),), "2 results"),
        ("a -> a", ((2, 3),), ((2, 3),), "1 dimensions"),
        ("(a b -> a", ((2,),), ((2,),), "not closed"),
        ("a b) -> a", ((2,),), ((2,),), "')' without '('"),
        ("(a b) -> a b", ((6,),), ((2, 3),), "needs a size"),
        ("(a=4 b) -> a b", ((6,),), ((4, 2),), "does not divide"),
        ("(a=2) -> a", ((6,),), ((2,),), "do not multiply"),
        ("a, a -> a", ((2,), (3,)), ((2,),), "2"),
        ("a -> a", ((2,),), ((3,),), "does not divide"),
        ("(a=x b) -> a", ((6,),), ((2,),), "name"),
        ("a? -> a?", ((2,),), ((2,),), "name"),
        ("(a=0 b) -> a", ((6,),), ((0,),), "size"),
        ("(a=-2 b) -> a", ((6,),), ((2,),), "name"),
        ("((a=2 b) c) -> a", ((6,),), ((2,),), "inside"),
        ("a a -> a", ((2, 2),), ((2,),), "twice"),
        (" -> a", ((2,),), ((2,),), "0 dimensions"),
    ],
)
def test_a_rule_that_does_not_fit_says_why(
    text: str, operands: Dims, results: Dims, reason: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_rule(text, operands, results)
    assert repr(text) in str(caught.value)
    assert reason in str(caught.value)


@given(st.text(alphabet="ab1!(=4 ,->)", max_size=20))
def test_any_text_is_a_rule_or_one_error(text: str) -> None:
    operands, results = [(4, 4), (4,)], [(4,)]
    try:
        rule = parse_rule(text, operands, results)
    except ValueError as error:
        assert repr(text) in str(error)  # noqa: PT017  both ends are allowed
    else:
        check_rule(rule, operands, results)
        for mapping, dims in zip(rule.operands, operands, strict=True):
            assert mapping is not None
            for factors, dim in zip(mapping, dims, strict=True):
                assert not factors or math.prod(rule.sizes[f] for f in factors) == dim


@pytest.mark.parametrize(
    "rule",
    [
        ShardingRule((2,), (), (((0,),),)),
        ShardingRule((2,), (((0,),),), ()),
        ShardingRule((2,), (((0,), ()),), (((0,),),)),
        ShardingRule((2,), (((1,),),), (((0,),),)),
        ShardingRule((2,), (((0, 0),),), (((0,),),)),
        ShardingRule((-2,), (((0,),),), (((0,),),)),
    ],
)
def test_a_rule_that_is_none_of_its_tensors_is_refused(rule: ShardingRule) -> None:
    with pytest.raises(ValueError, match="the rule"):
        check_rule(rule, [(2,)], [(2,)])


def view(kind: str, operand: tuple[int, ...], *results: tuple[int, ...]) -> OpView:
    names = [f"y{i}" for i in range(len(results))]
    tensors = {n: Tensor(n, d, "float32") for n, d in zip(names, results, strict=True)}
    op = Op("odd", kind, ("x",), tuple(names), {})
    tensors["x"] = Tensor("x", operand, "float32")
    return OpView(op, OpGraph("g", tensors, (op,), ("x",), tuple(names)))


def test_an_unknown_operator_is_whole_everywhere() -> None:
    rule = lookup("Mystery").rule(view("Mystery", (4, 8), (4,)))
    assert rule.splittable == ()
    check_rule(rule, [(4, 8)], [(4,)])


def test_an_operator_that_does_not_fit_is_named() -> None:
    with pytest.raises(GraphError, match=r"odd \(Reshape\).*\[4, 8\]"):
        check_operators(view("Reshape", (4, 8), (5,)).graph)
