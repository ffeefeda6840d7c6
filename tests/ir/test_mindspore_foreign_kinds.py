"""Rules of operators that are MindSpore's alone."""

from __future__ import annotations

import pytest

from exporters.errors import StrategyFileError
from exporters.mindspore.cuts import device_layout, reader_of_cuts
from ir.mindspore_forms.foreign_kinds import foreign_rule, primitive_of
from ir.ops import RULE_ATTRIBUTE, OpView
from ir.rule import parse_rule
from tests.mindspore_package.operator_examples import one

pytestmark = pytest.mark.fast

Dims = tuple[int, ...]


def view(kind: str, operands: list[Dims], result: Dims) -> OpView:
    rule = foreign_rule(kind, operands, [result])
    graph = one(kind, operands, [result], (), (), **{RULE_ATTRIBUTE: rule})
    return OpView(graph.ops[0], graph)


def test_a_broadcast_dimension_of_size_1_has_no_factor() -> None:
    operands = [(8, 1, 4), (6, 1), (4,)]
    rule = parse_rule(
        foreign_rule("mindspore::Betainc", operands, [(8, 6, 4)]), operands, [(8, 6, 4)]
    )
    ((a,), none, (c,)) = rule.operands[0] or ()
    assert none == ()
    (b,), last = rule.operands[1] or ((), ())
    assert rule.results == (((a,), (b,), (c,)),)
    assert last == ()


@pytest.mark.parametrize(
    ("kind", "operands", "result", "cuts", "taken"),
    [
        ("mindspore::Hypot", [(8, 8), (8,)], (8, 8), ((2, 4), (4,)), True),
        ("mindspore::Hypot", [(8, 8), (8,)], (8, 8), ((2, 4), (2,)), False),
        ("mindspore::Cdist", [(4, 8, 16), (4, 8, 16)], (4, 8, 8), ((2, 2, 1), (2, 2, 1)), True),
        ("mindspore::Cdist", [(4, 8, 16), (4, 8, 16)], (4, 8, 8), ((2, 2, 2), (2, 1, 2)), False),
        ("mindspore::InplaceAdd", [(8, 8), (4, 8)], (8, 8), ((1, 8), (1, 8)), True),
        ("mindspore::InplaceAdd", [(8, 8), (4, 8)], (8, 8), ((2, 4), (2, 4)), False),
        ("mindspore::ScatterUpdate", [(8, 8), (4,), (4, 8)], (8, 8), ((1, 8), (1,), (1, 8)), True),
        ("mindspore::ScatterUpdate", [(8, 8), (4,), (4, 8)], (8, 8), ((2, 4), (1,), (1, 4)), False),
        ("mindspore::Twist", [(8, 8)], (8, 8), ((2, 4),), False),
    ],
)
def test_strategies_of_them_are_taken_or_refused(
    kind: str, operands: list[Dims], result: Dims, cuts: tuple[Dims, ...], taken: bool
) -> None:
    operator = view(kind, operands, result)
    if not taken:
        with pytest.raises(StrategyFileError, match="fix:"):
            reader_of_cuts(operator, cuts, 8)
        return
    reader = reader_of_cuts(operator, cuts, 8)
    assert reader.cuts == cuts
    assert reader.form.name == primitive_of(kind)
    assert len(device_layout(reader).results[0]) == len(result)
