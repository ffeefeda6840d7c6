"""What is peculiar to a framework stands in its dialect and in packages of its own.

A file mentions MindSpore where its code does: a name, an import or a text; docstrings and comments
aside. Packages and modules that are named for it may, and its front end, and what an entry of the
catalogue says of an operator's names there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ir.dialects import FREE, TARGETS, dialect_named, target_with

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "cli", "costmodel", "data", "executors", "exporters", "importers", "ir", "planner", "report",
    "service", "topology",
)  # fmt: skip
OWN = ("mindspore", "importers/mindir/", "importers/traced/operations/", "ir/ops/")
MOST = 12
"""Files elsewhere that mention it; the number only falls."""


def _words(source: str) -> Iterator[str]:
    nodes = list(ast.walk(ast.parse(source)))
    values = (n.value for n in nodes if isinstance(n, ast.Expr))
    docstrings = {id(value) for value in values if isinstance(value, ast.Constant)}
    for node in nodes:
        if id(node) in docstrings:
            continue
        for field in ("id", "attr", "name", "module", "arg", "value"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield word


def _mentions(source: str) -> bool:
    return any("mindspore" in word.lower() for word in _words(source))


def test_few_files_outside_its_packages_mention_mindspore() -> None:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name, source = str(path.relative_to(ROOT)), path.read_text("utf-8")
            if "mindspore" in source.lower() and not any(own in name for own in OWN):
                found += [name] * _mentions(source)
    assert len(found) <= MOST, found


@pytest.mark.parametrize(
    "source",
    [
        "from ir.mindspore_forms import readers",
        "from ir import mindspore_forms",
        "mindspore = 1",
        "print(x.mindspore)",
        "x.mindspore",
        "f(mindspore=1)",
        "def f(mindspore): ...",
        'x = "of MindSpore"',
        'x = f"MindSpore {y}"',
    ],
)
def test_code_that_names_mindspore_mentions_it(source: str) -> None:
    assert _mentions(source)


def test_a_docstring_mentions_nothing() -> None:
    assert not _mentions('"""MindSpore"""\nx = 1\n"""of MindSpore"""  # MindSpore')


@pytest.mark.parametrize("name", TARGETS)
def test_a_dialect_is_found_by_the_name_that_a_plan_bears(name: str) -> None:
    dialect = TARGETS[name]
    assert dialect_named(dialect.name) == dialect
    assert dialect_named("unheard of") == FREE


def test_only_a_dialect_of_cut_counts_has_a_framework_to_speak_of() -> None:
    for dialect in TARGETS.values():
        assert bool(dialect.framework) == dialect.cut_counts == (dialect.own_cost != "")
    assert TARGETS[target_with(lambda dialect: dialect.cut_counts)].cut_counts
