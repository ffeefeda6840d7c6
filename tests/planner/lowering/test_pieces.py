"""Pieces of a network side by side: each is what it would be alone."""

import math
from dataclasses import replace

import pytest

from ir.graph import OpGraph, Role
from ir.layout import replicated
from planner.lowering.liveness import Liveness, analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Setting
from planner.lowering.pieces import Span, cuts_of, pieces_of, wire_layout
from planner.pipeline.preparation import batches_of, dialect_of, input_layouts, prepare
from planner.pipeline.prices import IntervalPricer, PieceCosts, piece_costs, setting_of
from planner.pipeline.segments import segments_of
from planner.request import SearchRequest
from planner.solvers import Budget, solver_by_name
from tests.builders import mlp
from topology.catalogue import named_cluster
from topology.mesh import Mesh, MeshAxis

MACHINE = named_cluster("atlas-800t-a2", 4)
REQUEST = SearchRequest()
DIALECT = dialect_of("mindspore", 4)
MESH = DIALECT.meshes(MACHINE)[0]


def network(layers: int, batch: int = 64) -> Liveness:
    ready, _ = prepare(mlp(layers, batch, hidden=256), MACHINE, REQUEST)
    return analyse(ready, training=True)


def setting(graph: OpGraph, **more: object) -> Setting:
    layouts = input_layouts(graph, MESH, DIALECT, REQUEST)
    own = Setting(MACHINE, MESH, DIALECT, True, REQUEST.optimizer, layouts, math.inf)
    return replace(own, **more)  # type: ignore[arg-type]


def costs(whole: Liveness, spans: list[Span], **more: object) -> PieceCosts:
    cuts = {cut.position: cut for cut in cuts_of(whole, 1)}
    pieces = pieces_of(whole, cuts, spans)
    flight = more.pop("in_flight", (1,) * len(spans))
    choice = more.pop("choice", None)
    own = setting_of(setting(whole.graph, in_flight=flight, **more), pieces)
    lowered = lower(pieces.liveness, own)
    if choice is None:
        choice = solver_by_name("portfolio").solve(lowered.problem, Budget(), None).choice
    assert isinstance(choice, tuple)
    return piece_costs(lowered, choice, len(spans))


def test_the_whole_as_one_piece_is_the_problem_that_it_was() -> None:
    whole = network(3)
    plain = lower(whole, setting(whole.graph)).problem
    best = solver_by_name("portfolio").solve(plain, Budget(), None)
    span = [Span(0, len(whole.graph.ops))]
    own = costs(whole, span, choice=best.choice)
    assert own.time_s[0] == pytest.approx(best.cost_s, rel=1e-12)
    assert own.peak_bytes[0] == pytest.approx(best.peak_bytes, rel=1e-12)
    assert costs(whole, span).time_s[0] == pytest.approx(best.cost_s, rel=1e-12)


def test_pieces_side_by_side_cost_what_each_costs_alone() -> None:
    whole = network(4)
    end = len(whole.graph.ops)
    middle = cuts_of(whole, 1)[2].position
    spans = [Span(0, middle), Span(middle, end)]
    both, alone = costs(whole, spans), [costs(whole, [span]) for span in spans]
    assert both.time_s.tolist() == pytest.approx([one.time_s[0] for one in alone])


def test_each_micro_batch_on_the_way_keeps_its_activations() -> None:
    whole = network(3)
    span = [Span(0, len(whole.graph.ops))]
    first = lower(whole, setting(whole.graph)).problem
    choice = solver_by_name("portfolio").solve(first, Budget(), None).choice
    one, two, five = (costs(whole, span, in_flight=(k,), choice=choice) for k in (1, 2, 5))
    assert two.kept_bytes[0] > 0
    assert five.kept_bytes[0] == pytest.approx(two.kept_bytes[0])
    assert (
        one.peak_bytes[0] == pytest.approx(two.peak_bytes[0]) == pytest.approx(five.peak_bytes[0])
    )


def test_what_happens_once_in_a_step_counts_by_its_share() -> None:
    """Many micro-batches: per micro-batch what happens in each, and a share that vanishes."""
    whole = network(2)
    span = [Span(0, len(whole.graph.ops))]
    times = [costs(whole, span, micro_batches=m).time_s[0] for m in (1, 2, 4, 1000)]
    assert times == sorted(times, reverse=True)
    layouts = setting(whole.graph)
    lowered = lower(whole, replace(layouts, micro_batches=2))
    assert lowered.pricer.micro_batches == 2  # type: ignore[attr-defined]


def test_what_enters_a_piece_is_an_input_with_a_gradient_in_the_layout_of_the_wire() -> None:
    whole = network(3)
    cut = cuts_of(whole, 1)[1]
    pieces = pieces_of(whole, {cut.position: cut}, [Span(cut.position, len(whole.graph.ops))])
    origins = pieces.liveness.origins.items()
    name = next(name for name, origin in origins if origin == (0, cut.sent[0]))
    tensor = pieces.liveness.graph.tensors[name]
    assert tensor.role is Role.INPUT
    assert name in pieces.liveness.gradient
    assert pieces.received == (name,)
    assert wire_layout(tensor, MESH).shards(MESH.sizes)[0] == MESH.size
    pieces.liveness.graph.validate()


def test_a_tensor_that_divides_no_further_is_repeated_on_the_wire() -> None:
    whole = network(1)
    tensor = replace(next(iter(whole.graph.tensors.values())), dims=(3, 5))
    mesh = Mesh((MeshAxis("card", 2, 0),))
    assert wire_layout(tensor, mesh) == replicated(2)


def test_long_intervals_of_equal_layers_follow_from_short_ones() -> None:
    whole = network(24)
    cuts = cuts_of(whole, 1)
    segments = segments_of(whole, cuts)
    assert segments.period
    pricer = IntervalPricer(segments, [3])
    assert len(pricer.spans) < len(pricer.intervals())
    by_position = {cut.position: cut for cut in cuts}
    pieces = pieces_of(whole, by_position, pricer.priced_spans())
    own = setting(whole.graph, in_flight=(2,) * len(pricer.spans))
    lowered = lower(pieces.liveness, setting_of(own, pieces))
    found = solver_by_name("portfolio").solve(lowered.problem, Budget(), None)
    folded = pricer.costs(lowered, found.choice or ())
    intervals = pricer.intervals()[::97]
    assert any(segments.shortened(interval)[1] for interval in intervals)
    spans = [segments.span(interval) for interval in intervals]
    each = costs(whole, spans, in_flight=(2,) * len(spans))
    for number, (i, j) in enumerate(intervals):
        assert folded.time_s[i, j] == pytest.approx(each.time_s[number], rel=1e-9)


def test_a_batch_that_is_scaled_is_the_one_that_is_prepared() -> None:
    def at(batch: int) -> OpGraph:
        return prepare(mlp(3, 64), MACHINE, replace(REQUEST, batch=batch))[0]

    batches = batches_of(at(4), at(8))
    assert batches is not None
    assert batches.at(12).digest() == at(12).digest()
    assert batches_of(at(4), at(12)) is None
