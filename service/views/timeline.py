"""The step as bars on streams: what runs when, and what is idle."""

from __future__ import annotations

from typing import Any

from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import Timeline
from costmodel.simulation.plan_simulation import simulate_plan
from ir.folding import Axes
from ir.json_text import finite
from ir.plan import Plan
from planner.requests.simulations import answer
from report.simulation import parts
from report.tables import Head, plain_parts
from service.views.columns import Interned, rounded

MOST_TASKS = 60_000
"""Bars that are handed out; of a longer step the first ones."""


def timeline_view(plan: Plan) -> dict[str, Any]:
    """The answer to a simulation, its tables, streams, and bars as columns by their start."""
    found = simulate_plan(plan, Effects())
    told = answer(found)
    record: dict[str, Any] = finite(told)
    return record | {
        "streams": _streams(found.timeline, Axes.of(plan)),
        "bars": _bars(found.timeline),
        "report": plain_parts(part for part in parts(told) if not isinstance(part, Head)),
    }


def _streams(timeline: Timeline, axes: Axes) -> list[dict[str, Any]]:
    """Streams that run something of themselves; a port that only queues is none."""
    graph = timeline.graph
    used = {streams[0] for streams in graph.streams if streams}
    return [
        {
            "stream": number,
            "name": _short(name, axes),
            "device": graph.device_names[graph.stream_device[number]],
            "copies": graph.copies[graph.stream_device[number]],
        }
        for number, name in enumerate(graph.stream_names)
        if number in used
    ]


def _short(name: str, axes: Axes) -> str:
    """A stream of a communication group is named by its axes."""
    parts = name.split("*")
    return axes.short(parts) if set(parts) <= {axis for axis, _, _ in axes.mesh} else name


def _bars(timeline: Timeline) -> dict[str, Any]:
    graph, words = timeline.graph, Interned[str]()
    rows = sorted(
        (
            (float(timeline.start_s[task]), float(timeline.end_s[task]), task)
            for task, streams in enumerate(graph.streams)
            if streams and timeline.end_s[task] > timeline.start_s[task]
        ),
    )
    shown = rows[:MOST_TASKS]
    own = [task for _, _, task in shown]
    works = [graph.activities[task] for task in own]
    return {
        "start_s": rounded(start for start, _, _ in shown),
        "end_s": rounded(end for _, end, _ in shown),
        "stream": [graph.streams[task][0] for task in own],
        "label": [words.number(graph.labels[task] or graph.activities[task].cause) for task in own],
        "cause": [words.number(work.cause) for work in works],
        "kind": [words.number(work.kind) for work in works],
        "tier": [words.number(work.tier) for work in works],
        "words": words.values,
        "left_out": len(rows) - len(shown),
    }
