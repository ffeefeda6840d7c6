"""Which of MindSpore's distributed primitives are known here: a page names the rest."""

from __future__ import annotations

import re
from pathlib import Path

import importers.mindir.reading  # noqa: F401  enters what is known of MindSpore's calls
from importers.traced.table import FrontEnd, table
from ir.mindspore_forms.foreign_kinds import primitive_of
from ir.mindspore_forms.primitives import primitive_form
from ir.ops import OpView, lookup
from tests.mindspore_package.operator_examples import examples

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mindspore-cases.md"


def distributed() -> set[str]:
    text = (ROOT / "tests" / "data" / "mindspore_distributed.txt").read_text()
    return {name for line in text.splitlines() if line[:1] != "#" for name in line.split()}


def judged() -> set[str]:
    """Those whose strategies `make test-mindspore` holds against MindSpore."""
    views = (OpView(graph.ops[0], graph) for graph in examples())
    return {primitive_form(view, lookup(view.op.kind).rule(view)).name for view in views}


def with_a_rule() -> set[str]:
    return {name for name in distributed() if primitive_of(f"mindspore::{name}")}


def row(name: str) -> list[str]:
    """A row of the table on the page: how many, and which."""
    line = next(each for each in PAGE.read_text().splitlines() if each.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("| ").split("|")[1:]]


def test_the_page_counts_what_is_known_and_names_what_is_not() -> None:
    every, read = distributed(), set(table(FrontEnd.MINDIR))
    first = judged() & every
    second = with_a_rule() - first
    third = (read & every) - first - second
    rest = every - first - second - third
    counts = {"judged": first, "with a rule": second, "read as others": third, "unknown": rest}
    for name, own in counts.items():
        assert int(row(name)[0]) == len(own), name
    assert set(re.findall(r"\w+", row("unknown")[1])) == rest
