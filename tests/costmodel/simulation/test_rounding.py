"""Rounding is no time: differences of sums that should be nothing are nothing."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from costmodel.simulation.accounting import account_of
from costmodel.simulation.engine import run
from costmodel.simulation.task_graph import Activity, TaskGraph
from topology.units import format_seconds, without_rounding


@given(st.floats(-1e-13, 1e-13))
def test_less_than_a_picosecond_is_no_time(seconds: float) -> None:
    assert format_seconds(seconds) == "0 s"


@given(st.floats(1e-12, 1e4))
def test_what_is_more_is_told(seconds: float) -> None:
    assert format_seconds(seconds) != "0 s"
    assert without_rounding(seconds, 1e4) in {0.0, seconds}


def test_a_device_that_is_never_idle_waits_for_nothing() -> None:
    """The step is a sum of other order than its parts: what is left of it is rounding."""
    graph = TaskGraph()
    stream = graph.stream(graph.device("device"), "compute")
    aside = graph.stream(0, "aside")
    for number in range(50):
        graph.add(f"compute {number}", Activity("compute forward"), 0.1, [stream])
    graph.add("moved", Activity("gradient sync", "all_reduce", "card"), 0.3, [aside])
    timeline = run(graph)
    found = account_of(timeline, math.nextafter(timeline.step_s, math.inf))
    assert found.waiting_s == 0.0
    assert [each.exposed_s for each in found.communication] == [0.0]
    assert [each.hidden_s for each in found.communication] == [0.3]
