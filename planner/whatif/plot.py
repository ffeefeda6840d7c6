"""A picture of a sweep: throughput and efficiency over devices, and what each plan costs.

Equal sweeps give equal files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.asking.errors import UserError
from planner.whatif.analysis import along, planned, rate_of, scaling
from planner.whatif.axes import Place, position
from planner.whatif.changes import Change
from planner.whatif.pareto import front
from planner.whatif.prices import Prices
from planner.whatif.sweep import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
MOST_LINES = 12
"""Curves of one panel; of more, every n-th is drawn."""
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
    "#222255", "#ee7733", "#009988", "#994455", "#777777", "#bbccee",
)  # fmt: skip
"""Colours that people with defective colour vision tell apart. Source: Paul Tol, "Colour Schemes",
SRON technical note, 2021."""


def save_plot(
    points: Sequence[Point], prices: Prices, path: Path, kind: str, changes: Sequence[Change] = ()
) -> None:
    """Write the picture.

    Args:
        points: of a sweep.
        prices: of devices.
        path: the file.
        kind: `svg` or `png`.
        changes: of plans; those whose places were found are marked.

    Raises:
        UserError: another kind of file.
    """
    if kind not in FORMATS:
        raise UserError(
            f"cannot write a picture as {kind or 'nothing'!r}", "--plot",
            f"name a file that ends in .{' or .'.join(FORMATS)}",
        )  # fmt: skip
    with saved_figure(path, kind, (10.0, 7.5)) as figure:
        panels = figure.subplots(2, 2)
        # Margins are set by hand: the solver of matplotlib's own layouts rounds by chance.
        figure.subplots_adjust(
            left=0.08, right=0.98, top=0.95, bottom=0.08, hspace=0.32, wspace=0.2
        )
        _throughput(points, panels[0][0])
        _efficiency(points, panels[0][1])
        _pareto(points, prices, panels[1][0])
        _factor(points, panels[1][1], changes)


@contextmanager
def saved_figure(path: Path, kind: str, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure that is written when all is drawn; equal drawings give equal files.

    Args:
        path: the file.
        kind: `svg` or `png`.
        size: width and height in inches.
    """
    import matplotlib as mpl  # noqa: PLC0415  slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": "planner", "font.size": 8, "svg.fonttype": "path"}):
        figure = Figure(figsize=size)
        yield figure
        meta: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(path, format=kind, dpi=130, metadata=meta)


def _throughput(points: Sequence[Point], axes: Axes) -> None:
    for number, curve in _some(scaling(points)):
        x = [p.devices for p in curve.points]
        axes.plot(x, [p.rate for p in curve.points], **_style(number), label=_label(curve.place))
    _logarithmic(axes, "devices", f"{_unit(points)} per second", "throughput")
    if axes.lines:
        axes.legend(frameon=False, fontsize=6)


def _efficiency(points: Sequence[Point], axes: Axes) -> None:
    for number, curve in _some(scaling(points)):
        x = [p.devices for p in curve.points]
        axes.plot(x, [100 * p.efficiency for p in curve.points], **_style(number))
    plain_scale(axes)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("devices")
    axes.set_ylabel("%")
    axes.set_title("work per device, of that on the fewest devices", loc="left")


def _pareto(points: Sequence[Point], prices: Prices, axes: Axes) -> None:
    """All plans, and those that no other beats."""
    known = planned(points)
    best = {point.key for point in front(points, prices)}
    for name, members in (("other plans", False), ("no plan beats them", True)):
        group = [p for p in known if (p.key in best) is members]
        if group:
            memory = [p.result.peak_bytes / 2**30 for p in group]
            axes.scatter(
                memory, [rate_of(p) for p in group], s=14 if members else 8, label=name,
                color=COLOURS[1] if members else "#bbbbbb",
            )  # fmt: skip
    if known:
        axes.set_yscale("log")
        axes.legend(frameon=False)
    axes.set_xlabel("GiB on a device")
    axes.set_ylabel(f"{_unit(points)} per second")
    axes.set_title("time, devices, memory and price", loc="left")


def _factor(points: Sequence[Point], axes: Axes, changes: Sequence[Change]) -> None:
    """Seconds of a step along the axis with most values beside the devices."""
    counts = {
        name: len({p.place.get(name) for p in points if p.place.get(name) is not None})
        for name in sorted({n for p in points for n, _ in p.place.values}, key=position)
        if name not in {"cluster", "devices"}
    }
    name = max(counts, key=lambda n: counts[n], default="")
    if counts.get(name, 0) < 2:
        axes.set_axis_off()
        return
    groups = [(place, planned(group)) for place, group in along(points, name)]
    shown = _some([(p, g) for p, g in groups if g])
    for number, (place, group) in shown:
        for change in changes:
            if change.exact and change.axis == name and change.place == place:
                at = math.sqrt(float(change.before) * float(change.after))
                axes.axvline(at, color=_style(number)["color"], linewidth=0.6, linestyle=":")
        known = sorted((float(p.place.get(name) or 0), p.result.best_s) for p in group)
        axes.plot(
            [x for x, _ in known], [y for _, y in known], **_style(number), label=_label(place)
        )
    _logarithmic(axes, name, "seconds of a step", f"along {name}")
    if axes.lines:
        axes.legend(frameon=False, fontsize=6)


def _some(curves: Sequence[Any]) -> list[tuple[int, Any]]:
    step = -(-len(curves) // MOST_LINES) or 1
    return list(enumerate(curves[::step]))


def _style(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "marker": "o", "markersize": 3}


def _logarithmic(axes: Axes, x: str, y: str, title: str) -> None:
    if axes.lines:
        plain_scale(axes)
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left")


def plain_scale(axes: Axes) -> None:
    """A logarithmic axis that is labelled 8, 16, 32."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.6g}")


def _label(place: Place) -> str:
    return str(place) or "all"


def _unit(points: Sequence[Point]) -> str:
    return "tokens" if any(p.result.tokens for p in points) else "samples"
