"""Pictures of machines: SVG or PNG, the same bytes for the same machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from topology.machine import Machine
from topology.picture import picture_of
from topology.shapes import Box, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_picture"]

_COLOURS = {
    "HCCS": "#c0392b", "SIO": "#922b21", "NVLINK": "#1e8449", "XGMI": "#ca6f1e", "ICI": "#117a65",
    "UB": "#b9770e", "PCIE": "#5d6d7e", "ROCE": "#2471a3", "IB": "#6c3483",
}  # fmt: skip
_OTHER = "#34495e"
_DASHED = ("PCIE",)
_FILLS = {
    "server": ("#fbfcfc", "#bfc9ca"),
    "switch": ("#d5e8d4", "#4d7a4d"),
    "shared": ("#fdebd0", "#af601a"),
    "group": ("#fdf2f0", "#e6b0aa"),
}
_INCHES = 0.62
"""Of one unit of the plan."""

_SETTINGS: Any = {
    "svg.hashsalt": "planner",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "path.simplify": False,
}


def write_picture(machine: Machine, path: Path, *, servers: int | None = None) -> None:
    """Draw a machine.

    Args:
        machine: what to draw.
        path: the suffix `.svg` or `.png` says in which form.
        servers: how many are drawn; `None` for two, or one of each kind.
    """
    import matplotlib as mpl  # noqa: PLC0415  a second to import
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    picture = picture_of(machine, servers)
    left, right, bottom, top = picture.extent()
    margin, head = 0.5, 2.0
    width, height = right - left + 2 * margin, top - bottom + head + 2 * margin
    is_svg = path.suffix.lower() == ".svg"
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width * _INCHES, height * _INCHES), facecolor="white")
        canvas = FigureCanvasSVG(figure) if is_svg else FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(left - margin, right + margin)
        axes.set_ylim(bottom - margin, top + head + margin)
        axes.set_axis_off()
        _draw(axes, picture)
        _draw_head(axes, picture, left, top + head)
        metadata = {"Date": None, "Creator": "planner"} if is_svg else {"Software": "planner"}
        canvas.print_figure(
            str(path), format="svg" if is_svg else "png", dpi=110, metadata=metadata
        )


def _draw(axes: "Axes", picture: Picture) -> None:
    for box in picture.boxes:
        _draw_box(axes, box)
    for line in picture.lines:
        xs, ys = zip(*line.points, strict=True)
        axes.plot(
            xs,
            ys,
            color=_COLOURS.get(line.kind, _OTHER),
            linewidth=line.width,
            linestyle=(0, (4, 2)) if line.kind in _DASHED else "-",
            alpha=0.45 if line.faint else 0.95,
            zorder=2,
            solid_capstyle="round",
        )
    for dot in picture.dots:
        device = dot.kind == "device"
        axes.plot(
            [dot.x],
            [dot.y],
            marker="o" if device else "s",
            markersize=17 if device else 8,
            markerfacecolor="#ffffff" if device else "#d6eaf8",
            markeredgecolor="#1c2833" if device else "#2471a3",
            zorder=4,
        )
        if dot.label and device:
            axes.text(dot.x, dot.y, dot.label, ha="center", va="center", fontsize=8.5, zorder=5)


def _draw_box(axes: "Axes", box: Box) -> None:
    from matplotlib.patches import Ellipse, FancyBboxPatch  # noqa: PLC0415

    fill, edge = _FILLS[box.kind]
    if box.kind == "group":
        ellipse = Ellipse(
            (box.x, box.y), box.width, box.height, facecolor=fill, edgecolor=edge, zorder=1
        )
        axes.add_patch(ellipse)
        place = (box.x - box.width / 2, box.y + box.height / 2 - 0.05)
        axes.text(*place, box.label, fontsize=8.5, color="#922b21", zorder=5)
        return
    server = box.kind == "server"
    axes.add_patch(
        FancyBboxPatch(
            (box.x - box.width / 2, box.y - box.height / 2),
            box.width,
            box.height,
            boxstyle="round,pad=0,rounding_size=0.15",
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.0,
            alpha=0.75 if box.kind == "shared" else 1.0,
            zorder=0 if server else 3,
        )
    )
    if server:
        place = (box.x - box.width / 2, box.y + box.height / 2 + 0.08)
        axes.text(*place, box.label, fontsize=8.5, va="bottom", color="#566573", zorder=5)
    else:
        axes.text(box.x, box.y, box.label, fontsize=7.5, ha="center", va="center", zorder=5)


def _draw_head(axes: "Axes", picture: Picture, left: float, level: float) -> None:
    """Title, and below it what each kind of link is."""
    axes.text(left, level, picture.title, fontsize=11, va="top", weight="bold", color="#1c2833")
    axes.text(left, level - 0.45, picture.subtitle, fontsize=8, va="top", color="#566573")
    x = left
    for kind, told in picture.legend.items():
        colour = _COLOURS.get(kind, _OTHER)
        style = (0, (4, 2)) if kind in _DASHED else "-"
        axes.plot([x, x + 0.6], [level - 1.15] * 2, color=colour, linewidth=2.5, linestyle=style)
        text = f"{kind} {told}"
        axes.text(x + 0.75, level - 1.15, text, fontsize=8, va="center", color="#1c2833")
        x += 1.5 + 0.135 * len(text)
