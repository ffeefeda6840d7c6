"""Plots of the report as inline SVG. They need no script and no network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from exporters.html_text import Markup, escaped

COLOURS = 10
_WIDTH = 1000
_BAR = 38
_ROW = 26
_LABEL_FROM = 90
"""Width from which a segment holds its name."""
_NAME_WIDTH = 300


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a whole, or one thing beside others."""

    name: str
    amount: float
    colour: int = 0
    """Of bars that stand beside each other."""


def stacked(
    parts: Sequence[Bar], unit: Callable[[float], str], *, limit: float = math.inf
) -> Markup:
    """A bar cut into parts.

    Args:
        parts: what the whole consists of, in order.
        unit: text of an amount.
        limit: where a mark stands; the bar then is so long.
    """
    whole = sum(p.amount for p in parts)
    if not whole > 0 or not math.isfinite(whole):
        return ""
    scale = _WIDTH / max(whole, limit if math.isfinite(limit) else whole)
    return _bar(parts, scale, unit, limit)


def _bar(parts: Sequence[Bar], scale: float, unit: Callable[[float], str], limit: float) -> Markup:
    x, drawn = 0.0, []
    for index, part in enumerate(parts):
        width = part.amount * scale
        colour, title = index % COLOURS, f"{part.name}: {unit(part.amount)}"
        drawn.append(
            f'<rect class="c{colour}" x="{x:.1f}" y="0" width="{max(width - 1, 0.5):.1f}" '
            f'height="{_BAR}"><title>{escaped(title)}</title></rect>'
        )
        if width >= max(_LABEL_FROM, 8 * len(part.name)):
            drawn.append(f'<text class="inside" x="{x + 9:.1f}" y="24">{escaped(part.name)}</text>')
        x += width
    if math.isfinite(limit):
        at = min(limit * scale, _WIDTH - 1)
        drawn.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_BAR + 6}" stroke="var(--ink)" '
            'stroke-width="2" stroke-dasharray="4 3"/>'
            f'<text class="faint" x="{at - 4:.1f}" y="{_BAR + 19}" text-anchor="end">'
            f"limit {escaped(unit(limit))}</text>"
        )
    height = _BAR + (24 if math.isfinite(limit) else 2)
    return f'<svg role="img" viewBox="0 0 {_WIDTH} {height}">{"".join(drawn)}</svg>'


def bars(parts: Sequence[Bar], unit: Callable[[float], str]) -> Markup:
    """One bar for each part, on a common scale."""
    longest = max((p.amount for p in parts), default=0.0)
    if not longest > 0:
        return ""
    drawn = []
    for index, part in enumerate(parts):
        y = index * _ROW
        width = part.amount / longest * (_WIDTH - _NAME_WIDTH - 110)
        colour = part.colour % COLOURS
        drawn.append(
            f'<text x="0" y="{y + 17}">{escaped(_fitted(part.name))}</text>'
            f'<rect class="c{colour}" x="{_NAME_WIDTH}" y="{y + 4}" width="{max(width, 1):.1f}" '
            f'height="17" rx="2"/>'
            f'<text class="faint" x="{_NAME_WIDTH + width + 8:.1f}" y="{y + 17}">'
            f"{escaped(unit(part.amount))}</text>"
        )
    height = len(parts) * _ROW
    return f'<svg role="img" viewBox="0 0 {_WIDTH} {height}">{"".join(drawn)}</svg>'


def _fitted(name: str, most: int = 38) -> str:
    return name if len(name) <= most else f"{name[: most // 2 - 1]}..{name[1 - most // 2 :]}"
