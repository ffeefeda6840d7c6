"""docs/recipes.md: the settings of every framework, from their tables.

`make docs` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from ir.recipes.entries import Entry
from ir.recipes.quantities import plain
from ir.recipes.table import Framework, framework, readable_names
from tests.cli.docs_output import ROOT

PAGE = ROOT / "docs" / "recipes.md"
_MARK = "<!-- what follows is written by `make docs` -->\n"
_HEAD = "| quantity | setting | default | |\n|---|---|---|---|"


def recipes_page() -> str:
    """The page as it should be."""
    written = PAGE.read_text(encoding="utf-8").partition(_MARK)[0]
    return written + _MARK + "".join(map(_section, readable_names()))


def _section(name: str) -> str:
    found = framework(name)
    lines = [f"\n## {found.title}\n", f"`{name}`: {found.release}. {_way(found)}\n", _HEAD]
    return "\n".join([*lines, *_rows(found)]) + "\n"


def _way(found: Framework) -> str:
    if found.reads_only:
        return "Read, not written."
    return "Written as " + ", ".join(f"`{each.name}`" for each in found.files) + "."


def _rows(found: Framework) -> Iterator[str]:
    for entry in found.entries:
        default = "" if entry.default is None else plain(entry.default)
        default = f"as `{entry.same}`" if entry.same else default
        for setting, way in _settings(entry):
            yield f"| {entry.quantity} | {setting} | {default} | {way} |"
            default = ""


def _settings(entry: Entry) -> Iterator[tuple[str, str]]:
    """What states it, and whether it is only read."""
    read = "" if entry.writes else "read"
    read = read if entry.settings else "written"
    if not (entry.at or entry.cases):
        yield "", "always" if entry.default is not None or entry.same else ""
    elif not entry.cases:
        yield f"`{entry.at}`", read
    for case in entry.cases:
        stated = ", ".join(
            f"no `{name}`" if value is None else f"`{name}` {value}"
            for name, value in case.settings.items()
        )
        yield f"{stated}: {plain(case.value)}", "read" if case.reads else read


if __name__ == "__main__":
    PAGE.write_text(recipes_page(), encoding="utf-8")
