"""A picture of a sweep: throughput and efficiency over devices, and what each plan costs.

Equal sweeps give equal files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.requests.errors import UserError
from planner.whatif.analysis import (
    MEDIAN,
    Prices,
    Ranking,
    along,
    front,
    planned,
    rate_of,
    scaling,
)
from planner.whatif.axes import Place, position
from planner.whatif.changes import Change
from planner.whatif.layouts import COLUMNS, BoolArray, FloatArray, PricedLayouts
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
    points: Sequence[Point], prices: Prices, path: Path, kind: str,
    changes: Sequence[Change] = (), ranking: Ranking = MEDIAN,
) -> None:  # fmt: skip
    """Write the picture.

    Args:
        points: of a sweep.
        prices: of devices.
        path: the file.
        kind: `svg` or `png`.
        changes: of plans; those whose places were found are marked.
        ranking: what decides which plans no other beats.

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
        _pareto(points, front(points, prices, ranking), panels[1][0])
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


def _pareto(points: Sequence[Point], unbeaten: Sequence[Point], axes: Axes) -> None:
    """All plans, and those that no other beats."""
    known = planned(points)
    best = {point.key for point in unbeaten}
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
        known = sorted((float(p.place.get(name) or 0), p.result.step_s) for p in group)
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


GIB = 2.0**30
MOST_DRAWN = 20_000
"""Layouts that are drawn; of more, every n-th and all that no other beats."""
SLOWEST = 20.0
"""Layouts that take so many times the fastest are left out."""


def save_layouts(priced: PricedLayouts, path: Path, kind: str) -> None:
    """Write the picture.

    Args:
        priced: layouts of one job.
        path: the file.
        kind: `svg` or `png`.
    """
    with saved_figure(path, kind, (8.0, 5.5)) as figure:
        axes = figure.add_axes((0.09, 0.1, 0.88, 0.84))
        drawn = _drawn(priced)
        tensor = priced.layouts[:, COLUMNS.index("tp")]
        for number, degree in enumerate(np.unique(tensor[drawn]).tolist()):
            own = drawn & (tensor == degree)
            axes.scatter(
                priced.memory_bytes[own] / GIB, priced.step_s[own], s=3,
                color=COLOURS[number % len(COLOURS)], label=f"tp={degree:g}", rasterized=True,
            )  # fmt: skip
        best = np.flatnonzero(_unbeaten(priced.step_s, priced.memory_bytes))
        best = best[priced.memory_bytes[best].argsort()]
        axes.step(priced.memory_bytes[best] / GIB, priced.step_s[best], where="post", lw=1,
                  color="#222222", label="no other is faster with less")  # fmt: skip
        axes.axvline(priced.limit_bytes / GIB, color="#cc3311", ls="--", lw=1, label="limit")
        axes.set(xlabel="memory of a device, GiB", ylabel="step, s", xscale="log", yscale="log")
        axes.legend(markerscale=3, frameon=False, ncols=2)
        axes.grid(visible=True, alpha=0.3)


def _drawn(priced: PricedLayouts) -> BoolArray:
    near = priced.step_s <= SLOWEST * priced.step_s.min()
    every = max(1, int(near.sum()) // MOST_DRAWN)
    some = np.zeros(len(near), dtype=np.bool_)
    some[np.flatnonzero(near)[::every]] = True
    return some | _unbeaten(priced.step_s, priced.memory_bytes)


def _unbeaten(step_s: FloatArray, memory_bytes: FloatArray) -> BoolArray:
    """Layouts that no other beats in both."""
    order = np.lexsort((step_s, memory_bytes))
    before = np.concatenate(([np.inf], np.minimum.accumulate(step_s[order])[:-1]))
    kept = np.zeros(len(step_s), dtype=np.bool_)
    kept[order[step_s[order] < before]] = True
    return kept
