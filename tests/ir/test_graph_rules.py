"""Equal composites share their rule, and each is the one that the composite has alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from ir.graph import OpGraph
from ir.graph_rules import rule_of
from ir.mindspore_forms.readers import every_part, parts_of
from ir.normalise import normalise
from ir.ops import FUSED, OpView, lookup
from ir.signatures import signatures_of
from tests.ir.test_fusion import graphs
from tests.ir.test_mindspore_readers import residuals


def check_rules(graph: OpGraph) -> None:
    for op in graph.ops:
        view = OpView(op, graph)
        assert rule_of(op, graph) == lookup(op.kind).rule(view)
        alone = every_part(view) if op.kind == FUSED else [(view, lookup(op.kind).rule(view))]
        assert list(parts_of(view)) == list(alone)


@given(graph=graphs())
def test_shared_rules_are_those_of_each_operator(graph: OpGraph) -> None:
    check_rules(normalise(graph))


@pytest.mark.fast
def test_equal_layers_share_rules_and_signatures() -> None:
    graph = normalise(residuals(4))
    check_rules(graph)
    fused = [op for op in graph.ops if op.kind == FUSED]
    assert len(fused) > 2
    assert len({id(rule_of(op, graph)) for op in fused}) < len(fused)
    assert len(set(signatures_of(graph).values())) < len(graph.ops)


@pytest.mark.fast
def test_another_size_is_another_signature() -> None:
    one, other = (signatures_of(normalise(residuals(2, batch))) for batch in (4, 8))
    assert one.keys() == other.keys()
    assert not set(one.values()) & set(other.values())


@pytest.mark.fast
def test_an_operator_of_another_graph_has_its_own_rule() -> None:
    graph = normalise(residuals(2))
    first = graph.ops[0]
    known = rule_of(first, graph)
    wider = replace(first, attributes={**first.attributes, "other": 1})
    assert rule_of(wider, graph) == known
    assert rule_of(first, normalise(residuals(2, 8))) != known
