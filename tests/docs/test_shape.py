"""Pages are made to be read: short lines, short paragraphs, links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, links, name_of, outside_code, paragraphs

pytestmark = pytest.mark.fast

COLUMNS, LINES = 160, 5
TOPS = "cli|costmodel|executors|exporters|importers|ir|planner|report|service|tests|topology"
FILE = re.compile(rf"`((?:{TOPS}|benchmarks|data/\w+|docs|examples)/[\w./*-]+)`")
"""A file or folder of the repository, by its path from the root."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_line_outside_tables_and_code_is_long(page: Path) -> None:
    lines = outside_code(page.read_text("utf-8"))
    assert [n for n, line in lines if len(line) > COLUMNS and not line.startswith("|")] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_paragraph_is_long(page: Path) -> None:
    found = paragraphs(page.read_text("utf-8"))
    assert [first for first, block in found if len(block) > LINES] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    wrong = []
    for link in links(page.read_text("utf-8")):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    if page.parent.name == "decisions":
        return  # what was decided then
    named = [name for name in FILE.findall(page.read_text("utf-8")) if "NAME" not in name]
    assert [name for name in named if not any(ROOT.glob(name))] == []


def test_every_page_has_its_place_on_the_site() -> None:
    listed = set((DOCS / "index.rst").read_text("utf-8").split())
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES if DOCS in page.parents}
    numbered = {page for page in pages if page.startswith("decisions/0")}
    assert "decisions/0*" in listed
    assert sorted(pages - numbered - listed) == ["README"]


def test_a_long_paragraph_is_seen() -> None:
    text = "# Head\n\n" + "line\n" * 6 + "\n- item\n- item\n\n```\n" + "code\n" * 9 + "```\n"
    assert [(first, len(block)) for first, block in paragraphs(text)] == [(3, 6), (10, 1), (11, 1)]
