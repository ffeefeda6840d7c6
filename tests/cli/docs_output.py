"""The output of commands that stands in README and docs, and what they print today.

`make docs` writes it anew. A page shows a command as an indented line or behind `$`, and after it
blocks of its output. A block is cut at `...` and at empty lines into sections; each is known by the
first words of its heading. A section before `...` keeps its number of lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/plans.md", "docs/reading-a-plan.md", "docs/resnet50.md")
SHOWN = re.compile(r"^(?:    |\$ )(planner (?:search|show) .*)$")
HEADING = re.compile(r"^\w+:?(?: [a-z]+\b(?! ms| s\b))*")
CUT = "..."
PATIENCE = ("--time-limit", "900")
"""For searches: a loaded machine must not cut one short and so change what it prints."""


def refreshed(text: str) -> str:
    """The page with what its commands print today."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("data", "tests", "examples"):
            Path(folder, name).symlink_to(ROOT / name)
        return "\n".join(_page(text.split("\n"), Path(folder)))


def _page(lines: list[str], folder: Path) -> Iterator[str]:
    printed: dict[str, list[str]] = {}
    fenced = False
    block: list[str] = []
    for line in lines:
        command = SHOWN.match(line)
        if command:
            printed = _sections(_output(command[1], folder))
        if fenced and line != "```" and not command:
            block.append(line)
            continue
        yield from _block(block, printed)
        block = []
        fenced ^= line == "```"
        yield line


def _block(lines: list[str], printed: dict[str, list[str]]) -> Iterator[str]:
    """A block section by section; one that no command printed stays as it is."""
    start = 0
    for at in range(len(lines) + 1):
        if at < len(lines) and lines[at] not in {"", CUT}:
            continue
        section = lines[start:at]
        heading = HEADING.match(section[0]) if section else None
        new = printed.get(heading[0], section) if heading else section
        yield from new[: len(section)] if at < len(lines) and lines[at] == CUT else new
        yield from lines[at : at + 1]
        start = at + 1


def _sections(output: str) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for section in output.strip("\n").split("\n\n"):
        heading = HEADING.match(section)
        if heading:
            out[heading[0]] = section.split("\n")
    return out


def _output(command: str, folder: Path) -> str:
    program = Path(sys.executable).with_name("planner")
    words = shlex.split(command)[1:]
    return subprocess.run(
        [program, *words, *(PATIENCE if words[0] == "search" else ())],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=os.environ | {"COLUMNS": "100"},
    ).stdout


if __name__ == "__main__":
    for name in PAGES:
        page = ROOT / name
        page.write_text(refreshed(page.read_text()))
