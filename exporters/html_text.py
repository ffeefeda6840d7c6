"""Markup of the report. Names come from strangers' files: nothing reaches the page unescaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ir.texts import visible
from report.tables import Lines, Table

Markup = str
"""Text that is markup already."""


def escaped(text: object) -> Markup:
    r"""Text for any place of a page; what cannot be seen is shown as its code.

    >>> escaped("<b>\u202e")
    '&lt;b&gt;\\u202e'
    """
    return html.escape(visible(str(text)), quote=True)


def table(made: Table, last: Sequence[Markup] | None = None, keys: int = 0) -> Markup:
    """A table; nothing where it has no rows.

    Args:
        made: its values.
        last: the last cell of each row as markup, in place of the table's own.
        keys: rows that begin with the colour that a plot gives them.
    """
    right = [not unit.is_text for _, unit in made.columns]

    def cells(tag: str, values: Iterable[Markup]) -> str:
        return "".join(
            f'<{tag} class="number">{v}</{tag}>' if number else f"<{tag}>{v}</{tag}>"
            for v, number in zip(values, right, strict=True)
        )

    rows = [list(map(escaped, row)) for row in made.texts]
    if last is not None:
        rows = [[*row[:-1], own] for row, own in zip(rows, last, strict=True)]
    for number, row in enumerate(rows[:keys]):
        row[0] = f'<span class="key c{number % 10}"></span>{row[0]}'
    if made.total is not None:
        rows[made.total] = [f"<b>{cell}</b>" for cell in rows[made.total]]
    head = cells("th", (escaped(heading) for heading, _ in made.columns))
    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    drawn = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
    return (drawn if rows else "") + "".join(map(paragraph, made.after))


def lines(told: Lines) -> Markup:
    """Each sentence as a paragraph."""
    return "\n".join(map(paragraph, told.lines))


def section(title: str, *parts: Markup) -> Markup:
    """A part of the page under its heading; nothing if it is empty."""
    body = "\n".join(p for p in parts if p)
    return f"<section><h2>{escaped(title)}</h2>\n{body}\n</section>\n" if body else ""


def paragraph(text: str) -> Markup:
    """A paragraph of text."""
    return f"<p>{escaped(text)}</p>"


def page(title: str, body: Markup) -> str:
    """A whole page that loads nothing."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n{body}</body>\n</html>\n"
    )


STYLE = """\
:root { --ground: #fff; --ink: #1b1f24; --faint: #5c6670; --line: #dfe3e8; --panel: #f6f8fa;
  --c0: #2f6fb5; --c1: #6aa5dd; --c2: #d9822b; --c3: #2e8b6f; --c4: #b3475a; --c5: #8064a2;
  --c6: #c9a227; --c7: #4aa3a2; --c8: #a0673c; --c9: #7f8c9a; --whole: #eceff2; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --ink: #e4e8ec; --faint: #98a2ad;
  --line: #323a43; --panel: #1c2128; --whole: #2a313a; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1080px; padding: 28px 20px 60px; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums }
h1 { font-size: 24px; margin: 0 0 4px } h2 { font-size: 17px; margin: 34px 0 10px }
p { margin: 6px 0 } .faint { color: var(--faint) } svg { display: block; width: 100%; height: auto }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 12px;
  margin-top: 18px }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: 10px 14px }
.tile b { display: block; font-size: 21px } .tile span { color: var(--faint); font-size: 13px }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; margin: 8px 0 }
th { text-align: left; color: var(--faint); font-weight: 500; font-size: 13px }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top }
.number { text-align: right; white-space: nowrap } td.number { padding-left: 8px }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 7px }
.layouts { display: flex; flex-wrap: wrap; gap: 3px 8px; align-items: center }
.layout { display: inline-flex; font: 12px/1.5 ui-monospace, monospace }
.layout i { font-style: normal; padding: 0 6px; border: 1px solid var(--ground);
  background: var(--whole); border-radius: 3px; min-width: 20px; text-align: center }
.layout i.split { color: #fff } summary { cursor: pointer; color: var(--faint) }
text { font: 13px system-ui, sans-serif; fill: var(--ink) } text.inside { fill: #fff }
text.faint { fill: var(--faint) }
""" + "".join(
    f".c{i} {{ fill: var(--c{i}); background: var(--c{i}) !important }}\n" for i in range(10)
)
