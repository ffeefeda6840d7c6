"""Laws of the event loop: order, shared resources, deadlock."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.simulation.engine import DeadlockError, Timeline, run, waits_of
from costmodel.simulation.sharing import fair_rates
from costmodel.simulation.task_graph import Activity, Span, TaskGraph, Use, fuse

FLOW = Activity("flow", "all_gather", "server")


@st.composite
def task_graphs(draw: st.DrawFn) -> TaskGraph:
    """Tasks on a few streams that wait for earlier ones and share a few ports."""
    graph = TaskGraph()
    device = graph.device("device")
    streams = [graph.stream(device, str(i)) for i in range(draw(st.integers(1, 4)))]
    ports = [graph.resource(draw(st.sampled_from([0.5, 1.0, 2.0]))) for _ in range(2)]
    for number in range(draw(st.integers(1, 12))):
        needs = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        uses = draw(st.lists(st.tuples(st.sampled_from(ports), st.sampled_from([0.3, 1.0])),
                             max_size=2, unique_by=lambda u: u[0]))  # fmt: skip
        graph.add(
            f"t{number}", FLOW, draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
            [draw(st.sampled_from(streams))], needs, [Use(*u) for u in uses],
        )  # fmt: skip
    return graph


def flows(count: int, seconds: float = 1.0, share: float = 1.0) -> Timeline:
    """So many tasks on streams of their own that use the same port."""
    graph = TaskGraph()
    device = graph.device("device")
    port = graph.resource()
    for number in range(count):
        stream = graph.stream(device, str(number))
        graph.add("flow", FLOW, seconds, [stream], (), [Use(port, share)])
    return run(graph)


@given(task_graphs(), st.booleans())
def test_tasks_keep_the_order_of_streams_and_needs(graph: TaskGraph, contention: bool) -> None:
    timeline = run(graph, contention=contention)
    assert sorted(timeline.order.tolist()) == list(range(len(graph)))
    for task, before in enumerate(waits_of(graph).before):
        for other in before:
            assert timeline.start_s[task] >= timeline.end_s[other] - 1e-12


@given(task_graphs())
def test_sharing_never_makes_a_task_shorter_than_it_is_alone(graph: TaskGraph) -> None:
    timeline = run(graph)
    taken = timeline.end_s - timeline.start_s
    assert (taken >= np.array(graph.seconds) * (1 - 1e-9)).all()
    alone = run(graph, contention=False)
    assert timeline.step_s >= alone.step_s * (1 - 1e-9)
    assert alone.end_s - alone.start_s == pytest.approx(graph.seconds)


@given(task_graphs(), st.data())
def test_without_sharing_a_shorter_task_never_delays_another(
    graph: TaskGraph, data: st.DataObject
) -> None:
    before = run(graph, contention=False)
    task = data.draw(st.integers(0, len(graph) - 1))
    graph.seconds[task] *= data.draw(st.floats(0, 1))
    after = run(graph, contention=False)
    assert (after.end_s <= before.end_s + 1e-12).all()


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.floats(0.05, 3)), min_size=1, max_size=3,
                      unique_by=lambda u: u[0]), min_size=1, max_size=6)
)  # fmt: skip
def test_rates_fill_resources_and_nobody_can_gain(wanted: list[list[tuple[int, float]]]) -> None:
    capacity = [1.0, 0.5, 2.0]
    uses = {i: [Use(*u) for u in own] for i, own in enumerate(wanted)}
    rates = fair_rates(uses, capacity)
    load = [
        sum(rates[t] * u.share for t, own in uses.items() for u in own if u.resource == r)
        for r in range(3)
    ]
    assert all(have <= most * (1 + 1e-9) for have, most in zip(load, capacity, strict=True))
    for task, own in uses.items():
        if rates[task] < 1 - 1e-9:
            tight = [
                u.resource for u in own if load[u.resource] >= capacity[u.resource] * (1 - 1e-9)
            ]
            beside = [
                max(rates[t] for t, o in uses.items() if any(u.resource == r for u in o))
                for r in tight
            ]
            assert any(rates[task] >= most * (1 - 1e-9) for most in beside)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_flows_through_one_port_take_turns_in_effect(count: int) -> None:
    assert flows(count).end_s == pytest.approx([float(count)] * count)


def test_a_flow_that_uses_half_a_port_leaves_room_for_another() -> None:
    assert flows(2, share=0.5).step_s == pytest.approx(1.0)
    assert flows(3, share=0.5).step_s == pytest.approx(1.5)


def test_a_flow_speeds_up_when_its_neighbour_is_done() -> None:
    graph = TaskGraph()
    device = graph.device("device")
    port = graph.resource()
    for number, seconds in enumerate((1.0, 3.0)):
        stream = graph.stream(device, str(number))
        graph.add("flow", FLOW, seconds, [stream], (), [Use(port, 1.0)])
    # Both at half speed until 2; the long one has 2 left, alone.
    assert run(graph).end_s == pytest.approx([2.0, 4.0])


@pytest.mark.parametrize("shared", [False, True])
def test_only_where_transfers_share_a_port_can_a_faster_one_delay_what_matters(
    shared: bool,
) -> None:
    """What follows the faster transfer meets the one that a long computation waits for."""
    steps = []
    for seconds in (2.0, 1.0):
        graph = TaskGraph()
        device = graph.device("device")
        compute, first, second = (graph.stream(device, name) for name in "abc")
        uses = [Use(graph.resource(), 1.0)] if shared else []
        graph.add("faster", FLOW, seconds, (first,))
        graph.add("behind it", FLOW, 4.0, (first,), (), uses)
        made = graph.add("makes", FLOW, 1.0, (compute,))
        sent = graph.add("matters", FLOW, 1.0, (second,), (made,), uses)
        graph.add("waits", FLOW, 9.0, (compute,), (sent,))
        steps.append(run(graph).step_s)
    assert steps == pytest.approx([11.0, 12.0] if shared else [11.0, 11.0])


def test_a_task_of_two_streams_starts_when_it_is_first_in_both() -> None:
    graph = TaskGraph()
    one, two = graph.device("one"), graph.device("two")
    left, right = graph.stream(one, "compute"), graph.stream(two, "compute")
    graph.add("a", Activity("a"), 1.0, [left])
    graph.add("b", Activity("b"), 3.0, [right])
    both = graph.add("both", Activity("c"), 1.0, [left, right])
    after = graph.add("after", Activity("d"), 1.0, [left])
    timeline = run(graph)
    assert timeline.start_s[both] == pytest.approx(3.0)
    assert timeline.start_s[after] == pytest.approx(4.0)


@pytest.mark.parametrize("contention", [True, False])
def test_a_circle_of_waiting_tasks_is_named(contention: bool) -> None:
    graph = TaskGraph()
    stream = graph.stream(graph.device("device"), "compute")
    port = graph.resource()
    first = graph.add("first", Activity("a"), 1.0, [stream], (), [Use(port, 1.0)])
    second = graph.add("second", Activity("b"), 1.0, [stream])
    graph.need(first, second)
    with pytest.raises(DeadlockError, match="2 tasks wait for one another, among them first"):
        run(graph, contention=contention)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_refused(seconds: float) -> None:
    graph = TaskGraph()
    stream = graph.stream(graph.device("device"), "compute")
    with pytest.raises(ValueError, match="task 'x' takes"):
        graph.add("x", Activity("a"), seconds, [stream])


def test_a_folded_task_takes_as_long_as_its_parts() -> None:
    graph = TaskGraph()
    stream = graph.stream(graph.device("device"), "compute")
    parts = [Span(Activity("a"), 1.0), Span(Activity("b"), 2.5)]
    task = graph.add_fused("both", fuse(parts), [stream])
    assert graph.seconds[task] == pytest.approx(3.5)
    assert graph.spans_of(task) == tuple(parts)
    assert all(a.end_s[0] == b.end_s[0] for a, b in pairwise([run(graph), run(graph)]))
