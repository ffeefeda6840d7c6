"""The step as bars on streams: what runs when, and what is idle."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import Timeline
from costmodel.simulation.plan_simulation import simulate_plan
from ir.folding import Axes
from ir.plan import Plan
from service.views.columns import Interned, rounded

MOST_TASKS = 60_000
"""Bars that are handed out; of a longer step the first ones."""


def timeline_view(plan: Plan) -> dict[str, Any]:
    """Streams, bars as columns in order of their start, and the account of an average device."""
    found = simulate_plan(plan, Effects())
    timeline, account, bubble = found.timeline, found.account, found.bubble
    return {
        "step_s": timeline.step_s,
        "estimate_s": plan.estimate.step_time_s,
        "streams": _streams(timeline, Axes.of(plan)),
        "tasks": _tasks(timeline),
        "computing": dict(account.computing),
        "communication": [
            asdict(c) | {"hidden_s": c.hidden_s} for c in account.communication if c.total_s > 0
        ],
        "exposed_s": account.exposed_s,
        "waiting_s": account.waiting_s,
        "bubble": None if bubble is None or bubble.total_s <= 0 else asdict(bubble),
        "devices": [asdict(d) for d in account.devices],
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


def _tasks(timeline: Timeline) -> dict[str, Any]:
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
