"""The one style of all text for people: width, colour, tables."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text as RichText

from report.tables import Head, Part, Table, Unit

WIDTH = 100
"""Columns where the output is no terminal."""
MAX_WIDTH = 120
"""Columns on a terminal that is wider."""
NAME_SHARE = 0.46
"""What names may take of the width; longer ones lose their middle."""


@contextmanager
def page(stream: TextIO | None = None) -> Iterator[Console]:
    """Where text for people goes: coloured on a terminal, plain and 100 wide elsewhere."""
    out = sys.stdout if stream is None else stream
    live = out.isatty()
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) if live else WIDTH
    console = Console(
        file=out, width=width, force_terminal=live, highlight=False, emoji=False, markup=False
    )
    if live:
        yield console
        return
    with console.capture() as captured:
        yield console
    out.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def fitted(name: str, out: Console) -> str:
    """A name that fits into the first column of a table; a long one loses its middle."""
    width = int(NAME_SHARE * out.width)
    if len(name) <= width:
        return name
    head = (width - 2) // 2
    return f"{name[:head]}..{name[head + 2 - width :]}"


def tell(parts: Iterable[Part]) -> None:
    """All of an output."""
    with page() as out:
        show(parts, out)


def show(parts: Iterable[Part], out: Console) -> None:
    """Tables and lines, one below the other; empty ones are left out."""
    for part in parts:
        if isinstance(part, Table):
            _show_table(part, out)
            continue
        if isinstance(part, Head):
            out.print(RichText(part.title, style="bold"), soft_wrap=part.soft_wrap)
            for line in filter(None, part.lines):
                out.print(f"  {line}")
            continue
        if part.title and part.lines:
            out.print(RichText(f"\n{part.title}", style="bold"))
        for line in part.lines:
            out.print(RichText(part.bullet + line), soft_wrap=part.soft_wrap)


def _show_table(found: Table, out: Console) -> None:
    if found.rows:
        out.print(RichText(f"\n{found.title}" if found.title else "", style="bold"))
        out.print(_drawn(found, out))
    for line in found.after:
        out.print(line)


def _drawn(found: Table, out: Console) -> RichTable:
    """A table of the one style; the first column holds names, which are not broken."""
    made = RichTable(box=None, pad_edge=False, header_style="dim")
    units = [unit for _, unit in found.columns]
    for index, (heading, unit) in enumerate(found.columns):
        justify: JustifyMethod = "left" if unit.is_text else "right"
        whole = not unit.is_text or index == 0
        made.add_column(heading, justify=justify, no_wrap=whole, overflow="fold")
    for number, row in enumerate(found.texts):
        cells = [
            fitted(cell, out) if unit is Unit.NAME else cell
            for cell, unit in zip(row, units, strict=True)
        ]
        made.add_row(*cells, style="bold" if number == found.total else None)
    return made
