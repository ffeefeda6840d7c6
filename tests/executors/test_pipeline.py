"""Plans with stages, run on virtual devices: the numbers and messages are those promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from executors.reference import given_tensors
from executors.rescaling import rescaled
from executors.shrink import shrunk
from executors.step import batch_graph
from executors.values import numbers
from executors.verdict import Verdict, verify
from ir.graph import OpGraph
from ir.plan import Pipeline, Plan, PlannedCollective
from planner.pipeline.space import Configuration
from tests.builders import GraphBuilder, attention_block, mlp
from tests.cases import nets
from tests.executors.drawn_stages import drawn_stages

NETS: dict[str, Callable[[], OpGraph]] = {
    "perceptron": lambda: mlp(4, 4, 16, 32),
    "attention": lambda: attention_block(4, 4, 4, 4),
}


def encoder(layers: int, batch: int, rows: int, hidden: int) -> OpGraph:
    """Encoder layers that all add the same offset, which has no gradient."""
    build = GraphBuilder("encoder")
    dims = (batch, rows, hidden)
    x, offset = build.input("x", dims), build.op("Relu", (build.input("offset", dims),), dims)
    for layer in range(layers):
        x = build.op("Add", (x, offset), dims)
        x = nets.encoder_layer(build, x, f"layer{layer}", 4, 2 * hidden)
    return build.build(x)


def tied(layers: int, batch: int, width: int) -> OpGraph:
    """Products of which the first and the last have the same weight."""
    build = GraphBuilder("tied")
    x, weight = build.input("x", (batch, width)), build.weight("tied.weight", (width, width))
    x = build.op("Relu", (build.op("MatMul", (x, weight), (batch, width)),), (batch, width))
    for layer in range(layers):
        own = build.weight(f"layers.{layer}.weight", (width, width))
        x = build.op("Relu", (build.op("MatMul", (x, own), (batch, width)),), (batch, width))
    return build.build(build.op("MatMul", (x, weight), (batch, width)))


def verdict_on(plan: Plan) -> Verdict:
    whole = replace(plan, graph=batch_graph(plan))
    return verify(plan, numbers(whole.graph, given_tensors(whole), {}))


def pipeline(plan: Plan) -> Pipeline:
    return plan.pipeline


UNEQUAL = (Configuration(3, 4, 2, sizes=(4, 2, 2)), Configuration(3, 4, 3, sizes=(2, 4, 2)))
"""Stages of 8 devices that differ in theirs."""


@pytest.mark.parametrize(
    "shape",
    [
        Configuration(2, 4, 2),
        Configuration(4, 4, 3),
        Configuration(1, 4, 2),
        Configuration(2, 4, 1),
        *UNEQUAL,
    ],
)
@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize("net", ["perceptron", "attention"])
def test_any_stages_compute_what_the_whole_batch_does_and_send_what_is_listed(
    net: str, target: str, shape: Configuration
) -> None:
    plan = drawn_stages(NETS[net](), 8, shape, target, shape.stages)
    verdict = verdict_on(plan)
    assert not verdict.not_verified
    assert not verdict.mismatches
    assert verdict.passed
    gradients = [o for o in verdict.outputs if o.name.startswith("gradient of ")]
    assert len(gradients) == len(plan.graph.parameters)


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize("zero", ["1", "2", "3"])
def test_optimizer_states_in_parts_change_no_number(zero: str, target: str) -> None:
    shapes = (Configuration(2, 4, 2), Configuration(2, 4, 2), Configuration(2, 4, 2), *UNEQUAL)
    plans = [
        drawn_stages(NETS["perceptron"](), 8, shape, target, seed, zero)
        for seed, shape in enumerate(shapes)
    ]
    assert int(zero) in {t.zero for plan in plans for t in plan.parameters}
    for plan in plans:
        assert verdict_on(plan).passed


def test_stages_that_hold_the_same_weight_add_up_its_gradient() -> None:
    for seed, shape in enumerate((Configuration(2, 4, 2), Configuration(2, 4, 2), *UNEQUAL)):
        plan = drawn_stages(tied(3, 4, 16), 8, shape, "generic", seed)
        assert [shared.tensor for shared in pipeline(plan).shared] == ["tied.weight"]
        assert verdict_on(plan).passed
        alone = verdict_on(replace(plan, pipeline=replace(pipeline(plan), shared=())))
        assert "tied.weight" in alone.not_verified


def test_stages_of_one_size_whose_meshes_differ_hand_on_what_is_read() -> None:
    plan = drawn_stages(
        NETS["perceptron"](), 8, Configuration(3, 4, 2, sizes=(4, 2, 2)), "generic", 1
    )
    *before, last = pipeline(plan).stages
    other = replace(last, mesh=((last.mesh[0][0], 1, 0), ("other", 2, 0)))
    changed = replace(plan, pipeline=replace(pipeline(plan), stages=(*before, other)))
    found = verdict_on(changed)
    assert max(output.error for output in found.outputs) <= found.tolerance


def test_chunks_that_take_turns_compute_the_same() -> None:
    plan = drawn_stages(mlp(6, 4, 16, 32), 8, Configuration(2, 4, 4, 2), "generic", 1)
    assert pipeline(plan).schedule == "interleaved"
    assert verdict_on(plan).passed


@pytest.mark.parametrize("shape", [Configuration(4, 4, 2), *UNEQUAL])
@pytest.mark.parametrize("target", ["generic", "mindspore"])
def test_a_tensor_without_gradient_goes_through_the_stages(
    target: str, shape: Configuration
) -> None:
    plan = drawn_stages(encoder(2, 4, 4, 16), 8, shape, target, 1)
    assert len(pipeline(plan).sends) >= shape.stages
    assert any(not send.backward for send in pipeline(plan).sends)
    assert verdict_on(plan).passed


def test_a_small_copy_keeps_stages_and_sends() -> None:
    plan = drawn_stages(encoder(5, 4, 4, 16), 8, Configuration(2, 4, 4), "generic", 3)
    small = rescaled(shrunk(plan).plan, plan)
    assert pipeline(small).micro_batches == 2
    assert len(pipeline(small).sends) == len(pipeline(plan).sends)
    assert len(small.graph.ops) < len(plan.graph.ops)
    assert verdict_on(small).passed


def _with_send(plan: Plan, send: PlannedCollective) -> Plan:
    _, *rest = pipeline(plan).sends
    return replace(plan, pipeline=replace(pipeline(plan), sends=(send, *rest)))


def _first(wanted: Callable[[Plan], bool], micro_batches: int) -> Plan:
    """The first plan drawn of which something holds."""
    shape = Configuration(2, 4, micro_batches)
    plans = (drawn_stages(NETS["perceptron"](), 8, shape, "generic", s) for s in range(12))
    return next(plan for plan in plans if wanted(plan))


def test_a_send_that_is_listed_wrongly_is_found() -> None:
    plan = drawn_stages(NETS["perceptron"](), 8, Configuration(2, 4, 2), "generic", 0)
    send = pipeline(plan).sends[0]
    wrong = (
        replace(send, nbytes=send.nbytes + 4),
        replace(send, count=send.count + 1),
        replace(send, backward=0),
    )
    for each in wrong:
        found = verdict_on(_with_send(plan, each))
        assert not found.passed
        assert [m.tensor for m in found.mismatches] == [send.tensor]
    missing = replace(plan, pipeline=replace(pipeline(plan), sends=()))
    assert verdict_on(missing).not_verified


def test_a_collective_that_runs_too_often_is_found() -> None:
    plan = _first(lambda p: any(c.count == 2 for c in p.collectives), 2)
    number = next(i for i, c in enumerate(plan.collectives) if c.count == 2)
    items = list(plan.collectives)
    items[number] = replace(items[number], count=6)
    found = verdict_on(replace(plan, collectives=tuple(items)))
    assert [m.tensor for m in found.mismatches] == [items[number].tensor]


def test_gradients_that_are_reduced_once_are_reduced_once() -> None:
    """A replicated parameter of a stage that splits its batch costs one all-reduce for a step."""

    def once(plan: Plan) -> list[PlannedCollective]:
        return [c for c in plan.collectives if c.cause == "gradient sync" and c.count == 1]

    plan = _first(lambda p: bool(once(p)), 3)
    assert verdict_on(plan).passed
    left_out = once(plan)[0]
    without = tuple(c for c in plan.collectives if c is not left_out)
    found = verdict_on(replace(plan, collectives=without))
    assert left_out.tensor in {m.tensor for m in found.mismatches}
