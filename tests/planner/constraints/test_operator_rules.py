"""Rules that the user gives: for operators that the catalogue lacks, and only for these."""

from __future__ import annotations

import pytest

from ir.batch import with_batch
from ir.graph import Op, OpGraph, graph_from_dict, graph_to_dict
from ir.ops import RULE_ATTRIBUTE, OpView, annotation, is_described, lookup
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner.constraints.operator_rules import annotated, check_annotations, given_rules
from planner.lowering.liveness import analyse
from planner.pipeline.preparation import prepare
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from topology.catalogue import named_cluster

TWIST = "custom::Twist"
WHOLE = (((),) * 2,)


def twisted(rows: int = 64, width: int = 256) -> OpGraph:
    """Products around two custom operators of the same kind, and one of another kind."""
    build = GraphBuilder("twisted")
    x = build.input("x", (rows, width))
    x = build.op("MatMul", (x, build.weight("up", (width, width))), (rows, width))
    x = build.op(TWIST, (x,), (rows, width))
    x = build.op(TWIST, (x,), (rows, width))
    x = build.op("custom::Mix", (x, build.weight("mix", (width,))), (rows, width))
    return build.build(build.op("MatMul", (x, build.weight("down", (width, 64))), (rows, 64)))


def planned(*rules: tuple[str, str], **request: object) -> Plan:
    asked = SearchRequest(target="generic", rules=rules, **request)  # type: ignore[arg-type]
    return search(twisted(), named_cluster("atlas-800t-a2", 8), asked)


def twists(graph: OpGraph) -> list[Op]:
    return [op for op in graph.ops if op.kind == TWIST]


def test_the_rule_of_a_kind_is_that_of_each_of_its_operators() -> None:
    graph = annotated(twisted(), [(TWIST, "b s! -> b s!")])
    for op in twists(graph):
        assert annotation(op) == "b s! -> b s!"
        rule = lookup(op.kind).rule(OpView(op, graph))
        assert (rule.operands, rule.sizes) == ((((0,), (1,)),), (64, 256))
        assert rule.splittable == (0,)
        assert is_described(op)
    others = [op for op in graph.ops if op.kind != TWIST]
    assert not any(RULE_ATTRIBUTE in op.attributes for op in others)
    assert given_rules(graph) == {TWIST: "b s! -> b s!"}


def test_without_a_rule_every_tensor_is_whole() -> None:
    graph = twisted()
    assert annotated(graph, []) is graph
    rule = lookup(TWIST).rule(OpView(twists(graph)[0], graph))
    assert rule.operands == rule.results == WHOLE
    assert not is_described(twists(graph)[0])


def test_the_graph_that_comes_in_is_not_changed() -> None:
    graph = twisted()
    annotated(graph, [(TWIST, "b s -> b s")])
    assert graph == twisted()


def test_one_plan_knows_nothing_of_the_rules_of_another() -> None:
    with_rule, without = planned((TWIST, "b s -> b s")), planned()
    assert with_rule.digest != without.digest
    assert planned() == without


def test_a_split_operator_is_faster_than_a_repeated_one() -> None:
    rules = (TWIST, "b s -> b s"), ("custom::Mix", "b s, s -> b s")
    free, bound = planned(*rules), planned()
    assert free.estimate.step_time_s < bound.estimate.step_time_s
    split = {op.kind: op.outputs[0] for op in free.operators if op.kind.startswith("custom")}
    assert all(layout and any(layout.dims) for layout in split.values())


def test_the_rules_are_in_the_plan_and_come_back_with_it() -> None:
    plan = planned((TWIST, "b s -> b s"))
    assert plan.request["rules"] == [[TWIST, "b s -> b s"]]
    again = plan_from_json(plan_to_json(plan))
    assert again == plan
    assert given_rules(again.graph) == {TWIST: "b s -> b s"}
    assert graph_from_dict(graph_to_dict(plan.graph)) == plan.graph


def test_an_annotated_kind_is_listed_as_such_and_no_more_as_one_without_a_rule() -> None:
    notes = " ".join(planned((TWIST, "b s -> b s")).notes)
    assert f"operators with a given rule, priced by the bytes that they move: {TWIST}" in notes
    assert "without a sharding rule" in notes, "custom::Mix has none"
    assert TWIST not in notes.partition("without a sharding rule")[2].partition("operators with")[0]
    assert "without a sharding rule" not in " ".join(
        planned((TWIST, "b s -> b s"), ("custom::Mix", "b s, s -> b s")).notes
    )


def test_the_batch_goes_through_an_operator_with_a_rule() -> None:
    plan = planned((TWIST, "b s -> b s"), ("custom::Mix", "b s, s -> b s"), batch=128)
    assert {plan.graph.tensors[op.outputs[0]].dims[0] for op in twists(plan.graph)} == {128}
    with pytest.raises(ValueError, match=f"or give {TWIST} a rule with --rule"):
        with_batch(twisted(), 128)


def test_a_gradient_goes_through_it_as_through_one_without_a_rule() -> None:
    rules = (TWIST, "b s -> b s"), ("custom::Mix", "b s, s -> b s")
    machine = named_cluster("atlas-800t-a2", 8)
    bare, given = (
        analyse(prepare(twisted(), machine, SearchRequest(rules=each))[0], training=True)
        for each in ((), rules)
    )
    assert {"up", "mix"} <= given.gradient
    assert (given.gradient, given.saved_by) == (bare.gradient, bare.saved_by)


def test_the_terms_of_a_given_sum_are_added_up() -> None:
    build = GraphBuilder("summed")
    x = build.input("x", (8, 4096))
    total = build.op("custom::Total", (x,), (8,))
    graph = build.build(build.op("Relu", (total,), (8,)))
    request = SearchRequest(
        training=False,
        target="generic",
        rules=(("custom::Total", "b! s -> b!"),),
        dataset_strategy=((1, 8),),
    )
    plan = search(graph, named_cluster("atlas-800t-a2", 8), request)
    (found,) = [op for op in plan.operators if op.kind == "custom::Total"]
    assert found.outputs[0] is not None
    assert found.outputs[0].partial
    assert {item.kind for item in plan.collectives} <= {"all_reduce", "reduce_scatter"}
    assert plan.collectives


def test_another_batch_may_make_a_rule_a_misfit() -> None:
    graph = annotated(twisted(), [(TWIST, "(b=16 r) s -> (b=16 r) s")])
    check_annotations(graph)
    rules = (TWIST, "(b=16 r) s -> (b=16 r) s"), ("custom::Mix", "b s, s -> b s")
    request = SearchRequest(batch=8, rules=rules)
    with pytest.raises(RequestError, match=r"Twist.*does not fit.*16 does not divide"):
        prepare(twisted(), named_cluster("atlas-800t-a2", 8), request)


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ("b s", "no '->'"),
        ("b s, s -> b s", "2 operands and 1 results, the operator has 1 and 1"),
        ("b s -> b s, b", "1 operands and 2 results"),
        ("b s t -> b s", "names 3 dimensions, the tensor (64, 256) has 2"),
        ("b s -> b", "names 1 dimensions"),
        ("b s -> s b", "'s' of size 256 does not divide dimension 64"),
        ("(b=7 c) s -> b s", "size 7 does not divide dimension 64"),
        ("(b c) s -> b s", "factor 'b' needs a size"),
        ("(b=8 b) s -> b s", "has a factor twice"),
        ("(b=8 s -> b s", "'(' is not closed"),
        ("b) s -> b s", "')' without '('"),
        ("b* s -> b s", "'b*' is no name of a factor"),
        ("b s -> b s -> b s", "'b s -> b s' names 5 dimensions"),
        ("b=0 s -> b s", "factor 'b' needs a size"),
        (" -> b s", "names 0 dimensions"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused_with_operator_rule_and_remedy(
    rule: str, what: str
) -> None:
    with pytest.raises(RequestError) as raised:
        annotated(twisted(), [(TWIST, rule)])
    text = str(raised.value)
    assert twists(twisted())[0].name in text
    assert what in text
    assert f"--rule '{TWIST}: {rule}', for [64, 256] -> [64, 256]" in text
    assert "fix: " in text
    assert "'1 1 -> 1 1' splits nothing" in text


def test_the_remedy_of_a_misfit_fits() -> None:
    graph = annotated(twisted(), [(TWIST, "1 1 -> 1 1"), ("custom::Mix", "1 1, 1 -> 1 1")])
    for op in graph.ops:
        if annotation(op):
            assert lookup(op.kind).rule(OpView(op, graph)).splittable == ()


def test_an_operator_without_operands_has_nothing_left_of_the_arrow() -> None:
    build = GraphBuilder("noise")
    noise = build.op("custom::Noise", (), (8, 16))
    x = build.op("Add", (build.input("x", (8, 16)), noise), (8, 16))
    graph = annotated(build.build(x), [("custom::Noise", "-> b s")])
    op = next(op for op in graph.ops if op.kind == "custom::Noise")
    assert lookup(op.kind).rule(OpView(op, graph)).splittable == (0, 1)


def test_a_kind_that_the_model_lacks_is_refused_with_the_closest() -> None:
    with pytest.raises(RequestError, match=f"did you mean '{TWIST}'.*custom::Mix, {TWIST}"):
        annotated(twisted(), [("Twist", "b s -> b s")])


def test_where_every_kind_has_a_rule_the_remedy_is_to_leave_it_out() -> None:
    build = GraphBuilder("plain")
    graph = build.build(build.op("Relu", (build.input("x", (8, 16)),), (8, 16)))
    with pytest.raises(RequestError, match="every operator of the model has a rule"):
        annotated(graph, [(TWIST, "b s -> b s")])


def test_a_kind_of_the_catalogue_is_refused() -> None:
    with pytest.raises(RequestError, match="the catalogue has a rule for MatMul already"):
        annotated(twisted(), [("MatMul", "b s, s t -> b t")])


def test_two_rules_for_a_kind_are_refused() -> None:
    with pytest.raises(RequestError, match=f"{TWIST} has two rules"):
        annotated(twisted(), [(TWIST, "b s -> b s"), (TWIST, "b s! -> b s!")])


def test_a_kind_of_the_catalogue_does_not_read_the_attribute() -> None:
    build = GraphBuilder("sly")
    x = build.op("Relu", (build.input("x", (8, 16)),), (8, 16), sharding_rule="1 1 -> 1 1")
    graph = build.build(x)
    assert annotation(graph.ops[0]) == ""
    assert lookup("Relu").rule(OpView(graph.ops[0], graph)).splittable == (0, 1)
