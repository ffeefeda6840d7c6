"""A timeline in the Trace Event Format, which Perfetto and chrome://tracing open.

Devices are processes, streams are threads, tasks are complete events; memory is a counter.

Source: "Trace Event Format", Google, document 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.task_graph import TaskGraph

MAX_EVENTS = 2_000_000
"""More make a file that viewers do not open."""
_MICROSECONDS = 1e6


def trace_json(simulation: Simulation) -> str:
    """Text of the trace; equal simulations give equal text.

    Raises:
        SimulationError: too many events.
    """
    count = len(simulation.timeline.graph)
    if count > MAX_EVENTS:
        raise SimulationError(
            f"a trace of {count:,} tasks\n  at:  --trace\n"
            f"  fix: simulate fewer micro-batches: viewers open {MAX_EVENTS:,} events at most"
        )
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in _events(simulation))
    other = json.dumps({"model": simulation.name, "step_s": simulation.step_s})
    return f'{{"traceEvents": [\n{lines}\n],\n"displayTimeUnit": "ms", "otherData": {other}}}\n'


def _events(simulation: Simulation) -> Iterator[dict[str, Any]]:
    graph = simulation.timeline.graph
    yield from _names(graph)
    yield from _tasks(simulation)
    yield from _memory(simulation)


def _names(graph: TaskGraph) -> Iterator[dict[str, Any]]:
    for device, name in enumerate(graph.device_names):
        copies = graph.copies[device]
        title = name if copies == 1 else f"{name} (one of {copies} alike)"
        yield _named("process_name", device, 0, title)
        yield {"ph": "M", "name": "process_sort_index", "pid": device, "tid": 0,
               "args": {"sort_index": device}}  # fmt: skip
    for stream, name in enumerate(graph.stream_names):
        yield _named("thread_name", graph.stream_device[stream], stream, name)


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _tasks(simulation: Simulation) -> Iterator[dict[str, Any]]:
    timeline, graph = simulation.timeline, simulation.timeline.graph
    for task, streams in enumerate(graph.streams):
        start, end = float(timeline.start_s[task]), float(timeline.end_s[task])
        for stream in streams[:1] if end > start else ():
            work = graph.activities[task]
            yield {
                "ph": "X",
                "name": graph.labels[task] or work.cause,
                "cat": work.kind if work.is_communication else work.cause,
                "pid": graph.stream_device[stream],
                "tid": stream,
                "ts": start * _MICROSECONDS,
                "dur": (end - start) * _MICROSECONDS,
                "args": _arguments(graph, task, end - start),
            }


def _arguments(graph: TaskGraph, task: int, seconds: float) -> Mapping[str, object]:
    """What a viewer shows of a task: its cause, or its parts in milliseconds."""
    work, alone = graph.activities[task], graph.seconds[task]
    out: dict[str, object] = {"cause": work.cause}
    sums: dict[str, float] = defaultdict(float)
    if work.tier:
        out["tier"] = work.tier
    if seconds > alone * (1 + 1e-9):
        out["alone_ms"] = alone * 1e3
    for name, parts in (
        ("", graph.spans.get(task, ())),
        ("hidden ", graph.hidden.get(task, ())),
    ):
        for (cause, kind, tier), part_s in parts:
            words = " ".join(word for word in (kind, tier, cause) if word)
            sums[f"{name}{words} (ms)"] += part_s * 1e3
    return out | sums


def _memory(simulation: Simulation) -> Iterator[dict[str, Any]]:
    for device, curve in enumerate(simulation.memory):
        for time_s, nbytes in zip(curve.time_s.tolist(), curve.nbytes.tolist(), strict=True):
            yield {
                "ph": "C",
                "name": "memory (GiB)",
                "pid": device,
                "tid": 0,
                "ts": time_s * _MICROSECONDS,
                "args": {"in use": nbytes / 2**30},
            }
