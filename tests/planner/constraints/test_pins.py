"""Pins: which operators a name means, which cuts it may have, and one clear error otherwise."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ir.graph import OpGraph
from ir.normalise import add_ends, normalise
from ir.plan import Plan
from ir.plan_file import plan_from_json, plan_to_json
from planner.candidates.layout_tables import LayoutPair, LayoutTable
from planner.constraints.pinning import pinned
from planner.constraints.pins import LONGEST_NAME, pin_notes, pin_text, pins_of
from planner.explain.plan_problem import problem_of
from planner.explain.plan_request import request_of
from planner.request import Cuts, RequestError, SearchRequest
from planner.search import search
from planner.solvers import SOLVERS, Budget, solver_by_name
from planner.solvers.exhaustive import Exhaustive
from tests.builders import GraphBuilder, attention_block, mlp
from tests.planner.lowering_of import lowered_on
from tests.planner.problem_faults import validate
from topology.catalogue import named_cluster
from topology.mesh import prime_mesh, tier_mesh

Pins = tuple[tuple[str, Cuts], ...]
ROWS: Cuts = ((4, 1), (1, 1))
COLUMNS: Cuts = ((1, 1), (1, 4))


def scoped(graph: OpGraph) -> OpGraph:
    """The graph with a scope on every operator: two in each module."""
    ops = [replace(op, scope=f"m.layers.{i // 2}.part") for i, op in enumerate(graph.ops)]
    return graph.with_ops(ops)


def names(graph: OpGraph, name: str, cuts: Cuts = ROWS) -> list[str]:
    return [pin.op.name for pin in pins_of(graph, ((name, cuts),))]


def test_a_name_may_be_mindspores_key() -> None:
    graph = mlp(2)
    first, *_, last = [op.name for op in graph.ops if op.kind == "MatMul"]
    assert names(graph, "MatMul_layers.0.weight") == [first]
    assert names(graph, "MatMul_layers.1.weight") == [last]
    with pytest.raises(RequestError, match="no operator 'Gather_layers"):
        names(graph, "Gather_layers.0.weight")


def fused() -> OpGraph:
    build = GraphBuilder("fused")
    x, bias = build.input("x", (64, 32)), build.weight("bias", (32,))
    y = build.op("Add", (x, bias), (64, 32), name="sum")
    return build.build(build.op("Relu", (y,), (64, 32), name="last"))


@pytest.mark.parametrize(
    ("name", "cuts", "wanted"),
    [
        ("op_sum", ((2, 2), (2,)), ((2, 2), (2,))),
        ("op_last", ((4, 1),), ((4, 1), (1,))),
        ("op_sum", ((1, 4), (4,)), ((1, 4), (4,))),
    ],
)
def test_a_part_of_a_composite_may_be_named(name: str, cuts: Cuts, wanted: Cuts) -> None:
    ready = normalise(fused())
    (pin,) = pins_of(ready, ((name, cuts),))
    assert pin.op.parts
    assert pin.cuts == wanted
    plan = planned(((name, cuts),), graph=fused())
    assert cuts_of(plan, pin.op.name) == wanted


def test_a_part_has_the_faults_of_an_operator() -> None:
    ready = normalise(fused())
    with pytest.raises(RequestError, match=r"op_last \(Relu\) has other inputs"):
        pins_of(ready, (("op_last", ((4,),)),))
    with pytest.raises(RequestError, match="pinned twice"):
        pins_of(ready, (("op_sum", ((4, 1), (1,))), ("op_last", ((1, 4),))))


def planned(
    pins: Pins,
    *,
    devices: int = 4,
    graph: OpGraph | None = None,
    target: str = "mindspore",
    solver: str = "portfolio",
) -> Plan:
    asked = SearchRequest(pins=pins, target=target, solver=solver)
    return search(graph or mlp(2), named_cluster("atlas-800t-a2", devices), asked)


def cuts_of(plan: Plan, name: str) -> Cuts:
    sizes = {axis: size for axis, size, _ in plan.mesh}
    (op,) = (op for op in plan.operators if op.name == name)
    return tuple(
        tuple(math.prod(sizes[a] for a in dim) for dim in layout.dims)
        for layout in op.inputs
        if layout is not None
    )


def test_a_name_a_scope_and_wildcards_name_operators() -> None:
    graph = scoped(mlp(4))
    products = [op.name for op in graph.ops if op.kind == "MatMul"]
    assert names(graph, products[1]) == [products[1]]
    assert names(graph, "op_matmul_*") == products
    assert names(graph, "MatMul m.layers.0.part") == [products[0]]
    assert names(graph, "MatMul layers.*") == products
    assert names(graph, "MatMul *") == products


def test_a_scope_with_operators_of_several_kinds_wants_the_kind() -> None:
    with pytest.raises(
        RequestError, match=r"2 kinds: MatMul, Relu\n.*\n.*'MatMul layers\.0\.part="
    ):
        names(scoped(mlp(4)), "layers.0.part")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("op_matmull_0", "closest are op_matmul_0"),
        ("Conv op_matmul_0", "closest are op_matmul_0"),
        ("zzz", "`planner inspect MODEL` shows them"),
        ("x" * (LONGEST_NAME + 1), "use 1000 at most"),
    ],
)
def test_an_unknown_name_is_answered_with_the_closest(name: str, fix: str) -> None:
    with pytest.raises(RequestError) as error:
        names(mlp(2), name)
    assert fix in str(error.value)
    assert "\n  at:  --pin" in str(error.value)


def test_the_end_of_a_scope_is_enough_for_a_hint() -> None:
    with pytest.raises(RequestError, match=r"closest are m\.layers\.0\.part, m\.layers\.1\.part"):
        names(scoped(mlp(4)), "part")


@pytest.mark.parametrize("cuts", [((4, 1),), ((4,), (1, 1)), ((4, 1), (1, 1), (1,)), ()])
def test_other_inputs_are_refused_with_those_there_are(cuts: Cuts) -> None:
    with pytest.raises(RequestError, match=r"x 64x256; layers\.0\.weight 256x1024, such as") as e:
        names(mlp(1), "op_matmul_0", cuts)
    assert "operator op_matmul_0 (MatMul) has other inputs than" in str(e.value)
    with pytest.raises(RequestError, match="a cut below 1"):
        names(mlp(1), "op_matmul_0", ((0, 1), (1, 1)))


def test_two_strategies_for_one_operator_are_refused() -> None:
    pins = (("op_matmul_0", ROWS), ("op_matmul_*", COLUMNS))
    with pytest.raises(RequestError, match="pinned twice") as error:
        pins_of(mlp(4), pins)
    assert pin_text(*pins[0]) in str(error.value)
    assert pin_text(*pins[1]) in str(error.value)
    assert len(pins_of(mlp(4), (("op_matmul_0", ROWS), ("op_matmul_*", ROWS)))) == 4


@pytest.mark.parametrize(
    ("cuts", "reason"),
    [
        (((3, 1), (1, 1)), "3 pieces of x do not divide the 4 devices"),
        (((8, 1), (1, 1)), "8 pieces of x do not divide the 4 devices"),
        (
            ((1, 2), (1, 1)),
            "is cut 2 ways and dimension 0 of layers.0.weight, which goes with it, 1 ways",
        ),
        (((4, 1), (1, 4)), "together that takes 16 of 4 devices"),
    ],
)
def test_cuts_that_no_candidate_has_are_refused_with_those_that_exist(
    cuts: Cuts, reason: str
) -> None:
    with pytest.raises(RequestError) as error:
        planned((("op_matmul_0", cuts),))
    what, at, fix = str(error.value).splitlines()
    assert reason in what
    assert at == f"  at:  {pin_text('op_matmul_0', cuts)}"
    assert fix.startswith("  fix: use one of the strategies that exist: ((")


def test_a_parameter_with_two_strategies_is_refused_for_mindspore() -> None:
    build = GraphBuilder("tied")
    table = build.weight("table", (64, 32))
    x = build.op("Gather", (table, build.input("ids", (64,), "int32")), (64, 32), axis=0)
    x = build.op("MatMul", (x, table), (64, 64), trans_b=1)
    graph, pins = build.build(x), (("op_gather_0", ((1, 4), (1,))), ("op_matmul_1", ROWS))
    with pytest.raises(RequestError, match="parameter table has two strategies") as error:
        planned(pins, graph=graph)
    assert "op_gather_0 cuts it (1,4) and op_matmul_1 (1,1)" in str(error.value)
    assert planned(pins, graph=graph, target="generic").operators


def test_a_dimension_that_does_not_divide_is_named() -> None:
    with pytest.raises(RequestError, match="dimension 0 of x, 6, does not split 4 ways"):
        planned((("op_matmul_0", ROWS),), graph=mlp(1, batch=6))


def test_a_strategy_that_is_offered_can_be_pinned() -> None:
    with pytest.raises(RequestError) as error:
        planned((("op_matmul_0", ((3, 1), (1, 1))),))
    offered = str(error.value).rpartition("exist: ")[2].split(" and ")[0]
    for text in offered.replace(", (", "|(").split("|"):
        cuts: Cuts = eval(text)
        assert cuts_of(planned((("op_matmul_0", cuts),)), "op_matmul_0") == cuts


@pytest.mark.parametrize("target", ["mindspore", "generic"])
@pytest.mark.parametrize("cuts", [COLUMNS, ((2, 2), (2, 1))])
@pytest.mark.parametrize("solver", [s for s in SOLVERS if s != "exhaustive"])
def test_every_solver_keeps_the_pins_on_every_target(solver: str, cuts: Cuts, target: str) -> None:
    plan = planned((("op_matmul_0", cuts),), solver=solver, target=target)
    assert cuts_of(plan, "op_matmul_0") == cuts


def test_no_baseline_gets_past_a_pin() -> None:
    """Data parallelism is the fastest plan of this model, and the pin forbids it."""
    free, held = planned(()), planned((("op_matmul_0", ((1, 1), (1, 1))),))
    assert held.estimate.step_time_s > free.estimate.step_time_s
    assert cuts_of(held, "op_matmul_0") == ((1, 1), (1, 1))


def test_pins_are_in_the_plan_and_come_back_with_it() -> None:
    plan = planned((("MatMul *", COLUMNS),), graph=mlp(3))
    assert plan.request["pins"] == [["MatMul *", [[1, 1], [1, 4]]]]
    assert plan_from_json(plan_to_json(plan)) == plan
    (note,) = (n for n in plan.notes if n.startswith("pinned"))
    assert note.endswith("3 x MatMul (op_matmul_0, op_matmul_2, op_matmul_4)")
    assert "pins" not in planned(()).request
    assert not [n for n in planned(()).notes if "pinned" in n]


def test_notes_count_what_they_do_not_name() -> None:
    (note,) = pin_notes(pins_of(mlp(9), (("op_matmul_*", ROWS),)))
    assert note.endswith("9 x MatMul (op_matmul_0, op_matmul_2, op_matmul_4 and 6 more)")


def test_constants_and_scalars_may_be_left_out() -> None:
    graph = attention_block()
    full: Cuts = ((2, 1, 1, 1),) * 3
    assert names(graph, "Attention *", full) == ["op_attention_10"]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("target", ["mindspore", "generic"])
def test_a_pinned_problem_is_the_problem_with_fewer_candidates(
    target: str, *, recompute: bool
) -> None:
    """Pinning the optimum's own strategies changes nothing; any other never gains."""
    cluster = named_cluster("atlas-800t-a2", 4)
    request = SearchRequest(target=target)
    mesh = prime_mesh(cluster, 6) if target == "mindspore" else tier_mesh(cluster)
    lowered = lowered_on(mlp(2), cluster, mesh, request, recompute=recompute)
    graph = lowered.liveness.graph
    best = solver_by_name("dynamic_programming").solve(lowered.problem, Budget())
    for cuts in (ROWS, COLUMNS, ((1, 4), (4, 1))):
        held = pinned(lowered, pins_of(graph, (("op_matmul_0", cuts),)))
        validate(held.problem)
        (number,) = held.problem.pinned
        found = held.nodes[number].candidates
        assert found is not None
        states = _states(found.operands[0])
        rows = held.nodes[number].columns.assignment
        assert {states[row].forward.shards(mesh.sizes) for row in rows} == {cuts[0]}
        assert held.problem.sizes[number] == len(rows)
        answer = solver_by_name("dynamic_programming").solve(held.problem, Budget())
        assert answer.proof == best.proof == "optimal"
        assert answer.cost_s >= best.cost_s * (1 - 1e-12)


def _states(port: LayoutTable | None) -> list[LayoutPair]:
    assert port is not None
    return [port.states[i] for i in port.of]


def test_a_pinned_problem_has_the_optimum_of_its_candidates() -> None:
    cluster = named_cluster("atlas-800t-a2", 2)
    lowered = lowered_on(mlp(1), cluster, tier_mesh(cluster), SearchRequest(target="generic"))
    graph = lowered.liveness.graph
    costs = {}
    for cuts in (((2, 1), (1, 1)), ((1, 1), (1, 2)), ((1, 2), (2, 1)), ((1, 1), (1, 1))):
        held = pinned(lowered, pins_of(graph, (("op_matmul_0", cuts),)))
        costs[cuts] = Exhaustive().solve(held.problem, Budget()).cost_s
    assert min(costs.values()) == Exhaustive().solve(lowered.problem, Budget()).cost_s
    assert len(set(costs.values())) == 4


def test_free_targets_search_only_meshes_that_have_the_cuts() -> None:
    """Two pieces of eight cards exist on the finer mesh alone."""
    plan = planned((("op_matmul_0", ((2, 1), (1, 4))),), devices=8, target="generic")
    assert cuts_of(plan, "op_matmul_0") == ((2, 1), (1, 4))
    assert all(len(mesh) > 1 for mesh in plan.space.meshes)


def test_pins_that_no_one_mesh_has_together_are_refused() -> None:
    """Six servers of eight cards: one mesh splits the six, another the eight, none both."""
    thirds, quarters = (("op_matmul_0", ((3, 1), (1, 1))), ("op_matmul_2", ((4, 1), (1, 1))))

    def found(*pins: tuple[str, Cuts]) -> Plan:
        return planned(pins, devices=48, target="generic", graph=mlp(2, 96))

    for name, cuts in (thirds, quarters):
        assert cuts_of(found((name, cuts)), name) == cuts
    with pytest.raises(RequestError, match="no one mesh of this machine has all pinned strategies"):
        found(thirds, quarters)


def test_a_pinned_operator_may_still_compute_its_operand_again() -> None:
    cluster = named_cluster("atlas-800t-a2", 4)
    request = SearchRequest(target="generic")
    lowered = lowered_on(attention_block(), cluster, tier_mesh(cluster), request, recompute=True)
    cuts: Cuts = ((4, 1, 1), (1, 1))
    held = pinned(lowered, pins_of(lowered.liveness.graph, (("op_matmul_13", cuts),)))
    (number,) = held.problem.pinned
    node, whole = held.nodes[number], lowered.nodes[number]
    assert node.candidates is not None
    assert whole.candidates is not None
    assert node.recomputes == whole.recomputes != ()
    kept, again = node.columns.kept, node.columns.recomputing
    assert len(kept) == len(again)
    assert held.problem.sizes[number] == 2 * len(kept) < lowered.problem.sizes[number]
    assert set(node.columns.assignment) < set(whole.columns.assignment)
    table = held.problem.node_tables[held.problem.node_table_of[number]]
    assert (table.time_s[again] > table.time_s[kept]).all()
    assert held.edges == lowered.edges


def chain() -> OpGraph:
    """A product whose result two operators read."""
    build = GraphBuilder("chain")
    x, w = build.input("x", (64, 32)), build.weight("w", (32, 8))
    y = build.op("MatMul", (x, w), (64, 8), name="product")
    left = build.op("Softmax", (y,), (64, 8), name="left", axis=1)
    right = build.op("Add", (y, build.weight("b", (64, 8))), (64, 8), name="right")
    return build.build(left, right)


def test_a_pinned_result_holds_what_reads_it() -> None:
    """MindSpore's `out_strategy`: the product is cut its own way, its readers all take rows."""
    pins: Pins = (("op_product", ((2, 2), (2, 1))), ("op_product->", ((4, 1),)))
    request = SearchRequest(pins=pins, dataset_strategy="full_batch")
    plan = search(chain(), named_cluster("atlas-800t-a2", 4), request)
    sizes = {name: size for name, size, _ in plan.mesh}
    cuts = {
        op.name: [math.prod(sizes[a] for a in dim) for dim in op.inputs[0].dims]
        for op in plan.operators
        if op.inputs[0]
    }
    assert cuts["op_product"] == [2, 2]
    assert cuts["op_left"] == cuts["op_right"] == [4, 1]


def test_what_has_a_pin_of_its_own_keeps_it_beside_a_pinned_result() -> None:
    pins: Pins = (("op_left", ((2, 1),)), ("op_product->", ((4, 1),)))
    found = {pin.op.name: pin.cuts for pin in pins_of(chain(), pins)}
    assert found == {"op_left": ((2, 1),), "op_right": ((4, 1), None)}


def test_a_pinned_result_has_the_dims_of_the_result() -> None:
    with pytest.raises(RequestError, match=r"the result product .*\n  at:  .*\n  fix: .*64x8"):
        pins_of(chain(), (("op_product->", ((4, 1, 1),)),))


def test_a_pinned_result_that_nothing_reads_is_refused() -> None:
    graph = add_ends(chain(), training=False)
    with pytest.raises(RequestError, match=r"no operator reads .*op_right\n  at:  .*\n  fix: pin"):
        pins_of(graph, (("op_right->", ((4, 1),)),))


def test_a_result_has_one_strategy() -> None:
    pins: Pins = (("op_product->", ((4, 1),)), ("*product->", ((2, 2),)))
    with pytest.raises(RequestError, match=r"different cuts\n  at:  .*op_product.*\*product"):
        pins_of(chain(), pins)


def test_neighbours_that_are_pinned_otherwise_are_not_fused() -> None:
    pins: Pins = (("op_sum", ((2, 2), (2,))), ("op_last", ((4, 1),)))
    plan = search(fused(), named_cluster("atlas-800t-a2", 4), SearchRequest(pins=pins))
    assert {"op_sum", "op_last"} <= {op.name for op in plan.operators}
    alike: Pins = (("op_sum", ((4, 1), (1,))), ("op_last", ((4, 1),)))
    plan = search(fused(), named_cluster("atlas-800t-a2", 4), SearchRequest(pins=alike))
    assert "op_last/fused" in {op.name for op in plan.operators}


def test_a_pin_between_the_axes_of_a_large_mesh_makes_another_mesh() -> None:
    build = GraphBuilder("cube")
    graph = build.build(
        build.op("Relu", (build.input("x", (2, 4, 8, 16)),), (2, 4, 8, 16), name="y")
    )
    pins: Pins = (("op_y", ((2, 4, 8, 16),)),)
    request = SearchRequest(pins=pins, dataset_strategy="full_batch", training=False)
    plan = search(graph, named_cluster("atlas-800t-a2", 1024), request)
    assert math.prod(size for _, size, _ in plan.mesh) == 1024


def embedded() -> OpGraph:
    build = GraphBuilder("embedded")
    x = build.op("Gather", (build.weight("table", (512, 32)), build.input("ids", (16, 8), "int64")),
                 (16, 8, 32), name="row")  # fmt: skip
    for name in ("first", "second"):
        x = build.op("MatMul", (x, build.weight(f"w_{name}", (32, 32))), (16, 8, 32), name=name)
    return build.build(x)


def test_the_rest_follows_semi_automatic_mode() -> None:
    """Every operator without a pin splits its batch; a lookup that of its indices."""
    cluster = named_cluster("atlas-800t-a2", 8)
    pin: Cuts = ((1, 1, 2), (2, 4))
    request = SearchRequest(pins=(("op_second", pin),), rest="semi-auto")
    plan = search(embedded(), cluster, request)
    assert cuts_of(plan, "op_second") == pin
    assert cuts_of(plan, "op_first") == ((8, 1, 1), (1, 1))
    assert cuts_of(plan, "op_row") == ((1, 1), (8, 1))
    notes = [note for note in plan.notes if note.startswith("pinned by ")]
    assert [note.partition(":")[0] for note in notes] == [
        f"pinned by {pin_text('op_second', pin)}", "pinned by --rest semi-auto",
    ]  # fmt: skip
    assert plan.request["rest"] == "semi-auto"
    assert plan.request["pins"] == [["op_second", [[1, 1, 2], [2, 4]]]]
    assert plan_from_json(plan_to_json(plan)) == plan
    texts = [hold.text for hold in problem_of(plan).posed.holds]
    assert texts == [pin_text("op_second", pin), "--rest semi-auto"]
    assert search(embedded(), cluster, request_of(plan)).operators == plan.operators


def test_a_soft_pin_is_no_rest() -> None:
    soft: Cuts = ((1, 1, 1), (1, 8))
    request = SearchRequest(soft_pins=(("op_first", soft, 1.0),), rest="semi-auto")
    plan = search(embedded(), named_cluster("atlas-800t-a2", 8), request)
    assert cuts_of(plan, "op_first") == soft
    assert cuts_of(plan, "op_second") == ((8, 1, 1), (1, 1))


def test_what_is_searched_is_never_slower_than_the_rest_by_batch() -> None:
    cluster = named_cluster("atlas-800t-a2", 8)
    by_batch = search(embedded(), cluster, SearchRequest(rest="semi-auto"))
    searched = search(embedded(), cluster, SearchRequest())
    assert searched.estimate.step_time_s <= by_batch.estimate.step_time_s
    assert "rest" not in searched.request
