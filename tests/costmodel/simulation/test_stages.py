"""The step of a plan with stages, event by event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.plan_overlap import software_of
from costmodel.schedules.closed_form import pipeline_time_s
from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.plan_step import plan_step
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.step_in_order import in_order_s, in_turn_s
from costmodel.simulation.task_graph import COMPUTE
from costmodel.simulation.trace import trace_json
from costmodel.simulation.variation import Distribution, Variation
from ir.plan import Pipeline, Plan
from ir.plan_enums import Cause
from ir.plan_stages import part_times, retimed, stage_times
from planner.pipeline.space import Configuration
from planner.repricing.other_machine import repriced
from planner.request import RequestError, SearchRequest
from planner.search import search
from tests.builders import mlp
from tests.executors.drawn_stages import drawn_stages
from tests.executors.test_pipeline import tied
from topology.catalogue import named_cluster
from topology.cluster import Cluster

CLOSE = 1e-9


def drawn(shape: Configuration, seed: int = 0, zero: str = "auto") -> Plan:
    return drawn_stages(mlp(8, 4, 512, 1024), 8, shape, "generic", seed, zero)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return drawn(Configuration(4, 4, 8), 3)


def pipeline(plan: Plan) -> Pipeline:
    return plan.pipeline


def alone(plan: Plan) -> Simulation:
    """Nothing overlaps and nothing is shared."""
    return simulate_plan(plan, Effects.none())


def with_times(
    plan: Plan, forward: Sequence[float], backward: Sequence[float], once: Sequence[float]
) -> Plan:
    """The plan whose stages take these seconds for a micro-batch, without communication."""
    times = pipeline(plan).micro_batches
    firsts = {stage.start: number for number, stage in enumerate(pipeline(plan).stages)}
    operators = []
    for index, op in enumerate(plan.operators):
        stage = firsts.get(index, -1)
        there, back = (forward[stage], backward[stage]) if stage >= 0 else (0.0, 0.0)
        operators.append(
            replace(op, compute_s=times * (there + back), backward_s=times * back, recompute_s=0.0)
        )
    seen: set[int] = set()
    tensors = []
    for tensor in plan.tensors:
        first = tensor.role == "parameter" and tensor.stage not in seen
        seen.update({tensor.stage} if first else ())
        update_s = once[tensor.stage] if first else 0.0
        tensors.append(replace(tensor, update_s=update_s, recompute_s=0.0))
    sends = tuple(replace(send, time_s=0.0) for send in pipeline(plan).sends)
    own = replace(pipeline(plan), sends=sends)
    made = replace(
        plan, operators=tuple(operators), tensors=tuple(tensors), collectives=(), pipeline=own
    )
    made = retimed(made)
    step_s = in_order_s(pipeline(made))
    return replace(made, estimate=replace(made.estimate, step_time_s=step_s))


SECONDS = st.floats(0.01, 1.0)


@settings(max_examples=15)
@given(SECONDS, SECONDS, st.floats(0.0, 1.0))
def test_equal_stages_take_the_closed_form(
    plan: Plan, forward: float, backward: float, once: float
) -> None:
    stages, times = len(pipeline(plan).stages), pipeline(plan).micro_batches
    equal = with_times(plan, [forward] * stages, [backward] * stages, [once] * stages)
    found = alone(equal).step_s
    assert found == pytest.approx(equal.estimate.step_time_s, rel=CLOSE)
    assert found == pytest.approx((times + stages - 1) * (forward + backward) + once, rel=CLOSE)


FOUR = st.lists(SECONDS, min_size=4, max_size=4)


@settings(max_examples=15)
@given(FOUR, st.floats(0.1, 4.0))
def test_the_closed_form_is_no_less_where_backward_is_an_equal_share_of_all_stages(
    plan: Plan, forward: list[float], ratio: float
) -> None:
    uneven = with_times(plan, forward, [ratio * f for f in forward], [0.0] * 4)
    found = alone(uneven).step_s
    closed_s = pipeline_time_s(part_times(uneven), pipeline(plan).micro_batches)
    assert found <= closed_s * (1 + CLOSE)
    assert found >= pipeline(plan).micro_batches * max(forward) * (1 + ratio) * (1 - CLOSE)


@settings(max_examples=15)
@given(FOUR, FOUR, FOUR)
def test_the_estimate_is_what_all_passes_take_in_their_order(
    plan: Plan, forward: list[float], backward: list[float], once: list[float]
) -> None:
    uneven = with_times(plan, forward, backward, once)
    assert alone(uneven).step_s == pytest.approx(uneven.estimate.step_time_s, rel=CLOSE)


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize(
    "shape",
    [
        Configuration(2, 4, 4),
        Configuration(4, 4, 6),
        Configuration(4, 4, 4, 2),
        Configuration(2, 4, 40, 2),
        Configuration(3, 4, 4, sizes=(2, 4, 2)),
    ],
    ids=str,
)
def test_a_step_without_overlap_takes_the_estimate(shape: Configuration, target: str) -> None:
    for seed, zero in enumerate(("0", "1", "2", "3", "auto")):
        plan = drawn_stages(mlp(8, 4, 512, 1024), 8, shape, target, seed, zero)
        assert alone(plan).step_s == pytest.approx(in_turn_s(plan), rel=CLOSE)


def test_so_it_does_where_nothing_is_updated_but_gathered_behind_it() -> None:
    """ZeRO 1 without an optimizer: updates take no time."""
    plan = drawn(Configuration(2, 4, 4), 1, "1")
    assert any(item.cause == Cause.UPDATED_PARAMETERS for item in plan.collectives)
    idle = retimed(replace(plan, tensors=tuple(replace(t, update_s=0.0) for t in plan.tensors)))
    assert alone(idle).step_s == pytest.approx(in_order_s(pipeline(idle)), rel=CLOSE)


@pytest.mark.parametrize("sizes", [(), (2, 4, 2)])
def test_so_it_does_where_stages_hold_the_same_parameter(sizes: tuple[int, ...]) -> None:
    shape = Configuration(len(sizes) or 2, 4, 4, sizes=sizes)
    updates = set()
    for seed in range(6):
        plan = drawn_stages(tied(3, 4, 512), 8, shape, "generic", seed)
        (shared,) = pipeline(plan).shared
        updates.add(shared.updates_s[0] == shared.updates_s[1])
        assert alone(plan).step_s == pytest.approx(in_turn_s(plan), rel=CLOSE)
        for number, stage in enumerate(pipeline(plan).stages):
            assert stage_times(plan, number).last_s == pytest.approx(stage.update_s, rel=CLOSE)
    assert updates >= {False}


@settings(max_examples=15)
@given(FOUR, FOUR)
def test_no_stages_take_more_than_equal_ones_of_the_longest_passes(
    plan: Plan, forward: list[float], backward: list[float]
) -> None:
    found = alone(with_times(plan, forward, backward, [0.0] * 4)).step_s
    longest = max(forward) + max(backward)
    assert found <= (pipeline(plan).micro_batches + 3) * longest * (1 + CLOSE)


@pytest.mark.parametrize("zero", ["0", "1", "2", "3"])
@pytest.mark.parametrize(
    "shape",
    [Configuration(1, 4, 4), Configuration(2, 4, 4), Configuration(4, 4, 1), Configuration(8, 4, 8),
     Configuration(3, 4, 4, sizes=(2, 4, 2))],
)  # fmt: skip
def test_the_times_of_stages_are_those_of_their_parts(shape: Configuration, zero: str) -> None:
    plan = drawn(shape, 1, zero)
    for number, stage in enumerate(pipeline(plan).stages):
        own = stage_times(plan, number)
        summed = own.forward_s, own.backward_s, own.once_s, own.sync_s, own.last_s
        told = stage.forward_s, stage.backward_s, stage.once_s, stage.sync_s, stage.update_s
        assert summed == pytest.approx(told, rel=CLOSE, abs=1e-15)


@pytest.mark.parametrize("contention", list(Contention))
def test_overlap_shortens_the_step_and_hides_gradients(contention: Contention) -> None:
    plan = drawn(Configuration(2, 4, 4), 0, "0")
    found = simulate_plan(plan, Effects(contention=contention))
    assert found.step_s < alone(plan).step_s
    busy = max(s.forward_s + s.backward_s for s in pipeline(plan).stages)
    sent = [c for c in found.account.communication if c.cause == "gradient sync"]
    assert sum(c.hidden_s for c in sent) > 0
    assert any(c.kind == "point_to_point" for c in found.account.communication)
    assert found.step_s > busy


@pytest.mark.parametrize("zero", ["0", "1", "2", "3"])
@pytest.mark.parametrize(
    "shape",
    [
        Configuration(4, 4, 1),
        Configuration(4, 4, 6),
        Configuration(2, 4, 2, 2),
        Configuration(3, 4, 4, sizes=(2, 4, 2)),
    ],
    ids=str,
)
def test_a_stage_computes_nothing_before_its_first_micro_batch_comes(
    shape: Configuration, zero: str
) -> None:
    """Also where parameters that the step before has updated travel beside it."""
    timeline = simulate_plan(drawn(shape, 1, zero), Effects()).timeline
    graph = timeline.graph
    computing = [number for number, name in enumerate(graph.stream_names) if name == COMPUTE]
    for stage, stream in enumerate(computing):
        own = [t for t, used in enumerate(graph.streams) if stream in used and graph.seconds[t]]
        begun_s = min(float(timeline.start_s[task]) for task in own)
        sent = [t for t, label in enumerate(graph.labels) if label == f"F0 to stage {stage}"]
        assert len(sent) == (stage > 0)
        assert all(begun_s >= timeline.end_s[task] for task in sent)


@pytest.mark.parametrize("zero", ["0", "1"])
@pytest.mark.parametrize("interleave", ["1", "2"])
def test_what_shows_of_messages_holds_up_all_stages_at_the_same_time(
    interleave: str, zero: str
) -> None:
    """So overlap is no slower than all messages in turn, however little of them hides."""
    asked = SearchRequest(
        global_batch=16, micro_batch="4", pipeline="4", interleave=interleave, zero=zero,
        degrees=(("dp", 2),), target="torch", profile="fsdp",
    )  # fmt: skip
    plan = search(mlp(16, 8, 512, 1024), named_cluster("atlas-800t-a2", 8), asked)
    assert software_of(plan).sync_shown > 0.5
    assert all(stage.sync_s > 0 for stage in pipeline(plan).stages)
    found = simulate_plan(plan, Effects(contention=Contention.NONE)).step_s
    assert found <= alone(plan).step_s * (1 + CLOSE)


def test_a_part_of_the_machine_counts_by_its_devices() -> None:
    """In the whole step, and in what is told apart of its waiting."""
    plan = drawn(Configuration(3, 4, 4, sizes=(2, 4, 2)), 0)
    assert [stage.copies for stage in plan_step(plan).stages] == [2, 4, 2]
    assert simulate_plan(plan, Effects()).timeline.graph.copies == [2, 4, 2]


def test_devices_that_vary_are_refused_where_stages_have_different_numbers_of_them() -> None:
    plan = drawn(Configuration(3, 4, 4, sizes=(2, 4, 2)), 0)
    with pytest.raises(SimulationError, match="leave --jitter"):
        simulate_plan(plan, Effects(), Variation(stragglers=1, straggler_factor=2.0))


def test_parts_that_take_turns_wait_less() -> None:
    """One chunk of two is half a stage, so the pipeline fills in half the time."""
    plain, turns = (drawn(Configuration(2, 4, 8, chunks), 3) for chunks in (1, 2))
    steps = []
    for each in (plain, turns):
        count = len(pipeline(each).stages)
        equal = with_times(each, [1.0 / count] * count, [2.0 / count] * count, [0.0] * count)
        steps.append(alone(equal).step_s)
        assert simulate_plan(each, Effects()).step_s <= alone(each).step_s
    assert steps == pytest.approx([(8 + 1) * 1.5, 8 * 1.5 + 0.75])


def test_memory_peaks_are_those_of_the_plan(plan: Plan) -> None:
    found = simulate_plan(plan, Effects())
    peaks = [curve.peak_bytes for curve in found.memory]
    assert peaks == pytest.approx([s.peak_memory_bytes for s in pipeline(plan).stages])
    assert all(curve.nbytes.min() > 0 for curve in found.memory)


def test_waiting_is_split_into_its_causes(plan: Plan) -> None:
    split = simulate_plan(plan, Effects()).bubble
    assert split is not None
    parts = (split.ideal_s, split.imbalance_s, split.recomputation_s, split.communication_s)
    assert sum(parts) == pytest.approx(split.total_s)
    assert split.ideal_s > 0


def test_the_trace_has_every_pass_and_equal_steps_have_equal_traces(plan: Plan) -> None:
    texts = {trace_json(simulate_plan(plan, Effects())) for _ in range(2)}
    (text,) = texts
    names = [event["name"] for event in json.loads(text)["traceEvents"]]
    assert names.count("F7") == 4
    assert names.count("B0") == 4
    assert names.count("B3 to stage 0") == 1


@pytest.mark.fast
def test_the_same_machine_gives_the_same_plan(plan: Plan) -> None:
    again = repriced(plan, Cluster.from_dict(plan.cluster))
    assert again.operators == plan.operators
    pairs = zip(again.collectives, plan.collectives, strict=True)
    assert all(a == replace(b, hidden_s=a.hidden_s) for a, b in pairs)
    assert again.estimate.hidden_s == pytest.approx(plan.estimate.hidden_s, rel=CLOSE)
    assert again.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=CLOSE)
    assert sum(again.estimate.time_by_cause.values()) == pytest.approx(again.estimate.step_time_s)


@pytest.mark.parametrize("effects", [Effects(), Effects.none()])
def test_a_faster_machine_is_never_slower(plan: Plan, effects: Effects) -> None:
    steps = [
        simulate_plan(
            repriced(plan, Cluster.from_dict(plan.cluster).with_bandwidth("card", factor)),
            effects,
        ).step_s
        for factor in (0.25, 1.0, 4.0)
    ]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] > steps[1]
    with pytest.raises(RequestError, match="tiers"):
        repriced(plan, named_cluster("atlas-800t-a2", 16))


def test_operators_take_the_time_of_the_other_chip(plan: Plan) -> None:
    cluster = Cluster.from_dict(plan.cluster)
    slow = replace(
        cluster.chip,
        peak_flops={name: flops / 4 for name, flops in cluster.chip.peak_flops.items()},
        memory_bandwidth_bytes_per_s=cluster.chip.memory_bandwidth_bytes_per_s / 4,
    )
    found = repriced(plan, replace(cluster, chip=slow))
    for old, new in zip(plan.operators, found.operators, strict=True):
        assert new.compute_s - new.backward_s > old.compute_s - old.backward_s
        assert new.backward_s >= old.backward_s
    updates = [sum(t.update_s for t in each.tensors) for each in (plan, found)]
    assert updates[1] == pytest.approx(4 * updates[0], rel=0.3)
    assert simulate_plan(found, Effects()).step_s > simulate_plan(plan, Effects()).step_s


def test_unequal_devices_make_the_step_longer(plan: Plan) -> None:
    variation = Variation(jitter=Distribution("lognormal", 0.1), samples=3)
    found = simulate_plan(plan, Effects(), variation)
    assert found.varied_s is not None
    assert found.varied_s.min() > found.step_s


def test_what_cannot_be_simulated_is_named(plan: Plan) -> None:
    strange = replace(plan, pipeline=replace(pipeline(plan), schedule="zb-h1"))
    with pytest.raises(SimulationError, match="zb-h1"):
        simulate_plan(strange, Effects())
    first, *rest = pipeline(plan).stages
    longer = replace(first, forward_s=first.forward_s * 2)
    wrong = replace(plan, pipeline=replace(pipeline(plan), stages=(longer, *rest)))
    with pytest.raises(SimulationError, match="stage 0"):
        simulate_plan(wrong, Effects())
