"""A picture of a simulation: the timeline, memory, and where the time goes.

Equal simulations give equal files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.task_graph import Activity
from ir.plan_enums import Cause

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png")
_MAX_DEVICES = 32
_WIDTH_INCHES = 10.0
_GAP_INCHES = 0.75
_REST_INCHES = 6.0
"""Height of all but the timeline."""
_COLOURS = MappingProxyType(
    {
        Cause.COMPUTE_FORWARD: "#4477aa",
        Cause.COMPUTE_BACKWARD: "#66ccee",
        Cause.RECOMPUTE: "#aa3377",
        Cause.UPDATE: "#222255",
        "all-gather": "#ccbb44",
        "reduce-scatter": "#228833",
        "all-reduce": "#ee7733",
        "all-to-all": "#994455",
        "point-to-point": "#009988",
    }
)
"""Colours that people with defective colour vision tell apart. Source: Paul Tol, "Colour Schemes",
SRON technical note, 2021."""
_OTHER = "#777777"
_EDGED = 0.004
"""Bars of a larger share of the step have edges."""
_EXPOSED = "#ee6677"
_HIDDEN = "#bbccee"
_WAITING = "#dddddd"


def save_plot(simulation: Simulation, path: Path, kind: str) -> None:
    """Write the picture.

    Args:
        simulation: what to show.
        path: the file.
        kind: `svg` or `png`.

    Raises:
        SimulationError: another kind of file.
    """
    if kind not in FORMATS:
        raise SimulationError(
            f"cannot write a picture as {kind or 'nothing'!r}\n  at:  --plot\n"
            f"  fix: name a file that ends in .{' or .'.join(FORMATS)}"
        )
    import matplotlib as mpl  # noqa: PLC0415  slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    shown = min(len(simulation.timeline.graph.copies), _MAX_DEVICES)
    rows = max(1.6, 0.28 * shown * (2 if shown == 1 else 1) + 0.9)
    with mpl.rc_context({"svg.hashsalt": "planner", "font.size": 8, "svg.fonttype": "path"}):
        height = rows + _REST_INCHES
        # Margins are set by hand: the solver of matplotlib's own layouts rounds by chance.
        figure = Figure(figsize=(_WIDTH_INCHES, height))
        top, middle, bottom = figure.subplots(3, 1, height_ratios=(rows, 2.0, 1.7))
        longest = max(len(name) for name in _lanes(simulation)[1])
        figure.subplots_adjust(
            left=min(0.35, 0.115 + 0.0062 * max(longest - 12, 0)),
            right=0.82,
            top=1 - 0.3 / height,
            bottom=0.5 / height,
            hspace=_GAP_INCHES * 3 / (rows + 3.7),
        )
        _timeline(simulation, top)
        _memory(simulation, middle)
        _times(simulation, bottom)
        meta: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(path, format=kind, dpi=130, metadata=meta)


def _timeline(simulation: Simulation, axes: Axes) -> None:
    """Streams of the first devices over time; computation below, communication above."""
    graph, timeline = simulation.timeline.graph, simulation.timeline
    lanes, labels = _lanes(simulation)
    kinds: dict[str, list[tuple[int, float, float]]] = {}
    for task, streams in enumerate(graph.streams):
        start, end = float(timeline.start_s[task]), float(timeline.end_s[task])
        if end > start and streams[:1] and streams[0] in lanes:
            stretch = (end - start) / graph.seconds[task]
            for work, seconds in graph.spans_of(task):
                bar = (lanes[streams[0]], start, seconds * stretch)
                kinds.setdefault(_kind(work), []).append(bar)
                start += seconds * stretch
    for name in sorted(kinds, key=_rank):
        rows, starts, widths = (np.array(column) for column in zip(*kinds[name], strict=True))
        colour = _COLOURS.get(name, _OTHER)
        # Thin lines between bars are seen only where bars are wide.
        wide = float(np.median(widths)) > _EDGED * simulation.step_s
        axes.barh(
            rows, widths, left=starts, height=0.8, color=colour, label=name,
            edgecolor="white" if wide else colour, linewidth=0.3 if wide else 0.0,
        )  # fmt: skip
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0, max(simulation.step_s, 1e-12))
    axes.set_xlabel("seconds")
    axes.set_title(f"{simulation.name}: one step in {simulation.step_s:.4g} s", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _kind(work: Activity) -> str:
    """What the legend calls a stretch of work."""
    return work.kind.replace("_", "-") if work.is_communication else work.cause


def _rank(name: str) -> tuple[int, str]:
    """Place in the legend."""
    known = list(_COLOURS)
    return (known.index(name) if name in known else len(known), name)


def _lanes(simulation: Simulation) -> tuple[dict[int, int], list[str]]:
    """Row of each stream that is shown; with many devices only those that compute."""
    graph = simulation.timeline.graph
    many = len(graph.copies) > 1
    used = {streams[0] for streams in graph.streams if streams}
    lanes: dict[int, int] = {}
    labels: list[str] = []
    seen: set[int] = set()
    for stream, device in enumerate(graph.stream_device):
        if device >= _MAX_DEVICES or stream not in used or (many and device in seen):
            continue
        seen.add(device)
        lanes[stream] = len(labels)
        name = graph.device_names[device] if many else graph.stream_names[stream]
        labels.append(name)
    return lanes, labels


def _memory(simulation: Simulation, axes: Axes) -> None:
    """Memory of the device that holds most, and of the others faintly."""
    curves = sorted(simulation.memory, key=lambda c: -c.peak_bytes)[:_MAX_DEVICES]
    for number, curve in reversed(list(enumerate(curves))):
        times = np.append(curve.time_s, simulation.step_s)
        level = np.append(curve.nbytes, curve.nbytes[-1:]) / 2**30
        front = number == 0
        colour = _COLOURS[Cause.COMPUTE_FORWARD] if front else "#bbbbbb"
        axes.step(times, level, where="post", color=colour, linewidth=1.2 if front else 0.6)
        if front:
            axes.fill_between(times, level, step="post", color=colour, alpha=0.25, linewidth=0)
    if simulation.load.memory_bytes:
        limit = simulation.load.memory_bytes / 2**30
        axes.axhline(limit, color=_EXPOSED, linewidth=1)
        axes.annotate("limit ", (simulation.step_s, limit), ha="right", va="top", color=_EXPOSED)
    axes.set_xlim(0, max(simulation.step_s, 1e-12))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GiB")
    name = curves[0].device if curves else ""
    axes.set_title(
        f"memory of {name}, which holds most" if len(curves) > 1 else "memory", loc="left"
    )


def _times(simulation: Simulation, axes: Axes) -> None:
    """One bar for the step of an average device, one for its communication."""
    account = simulation.account
    step = [(cause, s, _COLOURS.get(cause, _OTHER)) for cause, s in account.computing.items()]
    step.append(("exposed communication", account.exposed_s, _EXPOSED))
    step.append(("waiting", account.waiting_s, _WAITING))
    _stack(axes, 0, step)
    moved = [
        ("exposed", account.exposed_s, _EXPOSED),
        ("hidden", account.hidden_s, _HIDDEN),
    ]
    _stack(axes, 1, moved)
    for name, colour in (("exposed", _EXPOSED), ("hidden", _HIDDEN), ("waiting", _WAITING)):
        axes.barh(0, 0, color=colour, label=name)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.set_yticks([0, 1], ["step", "communication"])
    axes.set_xlim(left=0)
    axes.invert_yaxis()
    axes.set_xlabel("seconds of an average device")
    axes.set_title("where the time goes", loc="left")


def _stack(axes: Axes, row: int, parts: Sequence[tuple[str, float, str]]) -> None:
    """Bars one behind the other; the wide ones carry their names."""
    left, whole = 0.0, max(sum(s for _, s, _ in parts), 1e-12)
    room = max(axes.get_xlim()[1], whole)
    for name, seconds, colour in parts:
        axes.barh(row, seconds, left=left, color=colour, height=0.6, linewidth=0)
        if seconds > 0.12 * room:
            text = f"{name}\n{100 * seconds / whole:.1f} %"
            axes.text(left + seconds / 2, row, text, ha="center", va="center", fontsize=7)
        left += seconds
