"""The pages of the documentation as blocks, anchors and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = tuple(sorted([*DOCS.rglob("*.md"), ROOT / "README.md"]))

_ITEM = re.compile(r"^\s*([-*]|\d+\.) ")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    """The page's path from the root of the repository."""
    return str(page.relative_to(ROOT))


def outside_code(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that stand in no code block."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, line


def paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    """First line's number and lines of each paragraph or list item, tables and headings aside."""
    block: list[str] = []
    first = last = 0
    for number, line in outside_code(text):
        ends = not line.strip() or line.startswith(("|", "#", "<")) or number != last + 1
        if block and (ends or _ITEM.match(line)):
            yield first, block
            block = []
        last = number
        if line.strip() and not line.startswith(("|", "#", "<")):
            first = first if block else number
            block = [*block, line]
    if block:
        yield first, block


def anchors(text: str) -> set[str]:
    """What a link may name behind `#`: the headings, as GitHub and mkdocs spell them."""
    heads = (line.lstrip("#").strip() for _, line in outside_code(text) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(text: str) -> list[str]:
    """Targets of the links to files of the repository."""
    prose = "\n".join(line for _, line in outside_code(text))
    return [link for link in _LINK.findall(prose) if "://" not in link]
