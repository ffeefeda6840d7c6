"""What is known of an operator kind stands in its entry: few other files name the kind.

A kind is named where a text of the source is its name, docstrings and `__all__` aside. Three files
outside its entry may: a front end that writes it, an executor whose form of it is more than a
function, a test of the normal form. A kind of `MORE` is named in more files than that; the list
only gets shorter.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from ir.ops import catalogue

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "cli", "costmodel", "data", "executors", "exporters", "importers", "ir", "planner", "report",
    "service", "topology",
)  # fmt: skip
MOST = 3
MORE: dict[str, int] = {
    "Reshape": 11, "Cast": 10, "Gather": 7, "Identity": 7, "Add": 6, "OneHot": 6, "Attention": 5,
    "MatMul": 5, "Mul": 5, "TopK": 5, "Where": 5, "Concat": 4, "Conv": 4, "RMSNormalization": 4,
    "Transpose": 4,
}  # fmt: skip
"""Files that name a kind today. Arithmetic and moves (`Add`, `Reshape`) are what front ends, the
normal form and formulas write, each in its own files. Products, convolutions, lookups and attention
have kernels of their own in numpy, and some in torch and XLA. Primitives of MindSpore count where
they have the name of a kind."""


def _texts(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    other = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            other |= {id(n) for n in ast.walk(node)}
    texts = (n for n in nodes if isinstance(n, ast.Constant) and id(n) not in other)
    return {n.value for n in texts if isinstance(n.value, str)}


@cache
def _files() -> dict[str, set[str]]:
    """For each kind the files that name it, that of its entry aside."""
    found: dict[str, set[str]] = defaultdict(set)
    known = catalogue()
    quoted = re.compile("['\"](?:" + "|".join(known) + ")['\"]")
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name, source = str(path.relative_to(ROOT)), path.read_text("utf-8")
            if not quoted.search(source):
                continue
            for kind in _texts(source) & set(known):
                if name != f"ir/ops/{known[kind].family}.py":
                    found[kind].add(name)
    return found


def test_few_files_name_a_kind() -> None:
    too_many = {
        kind: sorted(files) for kind, files in _files().items() if len(files) > MORE.get(kind, MOST)
    }
    assert too_many == {}, "read a table derived from the entries instead"


@pytest.mark.slow
def test_the_list_of_kinds_with_more_files_gets_shorter() -> None:
    files = _files()
    assert set(MORE) <= set(catalogue())
    assert {kind: n for kind, n in MORE.items() if len(files[kind]) <= MOST or n <= MOST} == {}
    assert [kind for kind, n in MORE.items() if len(files[kind]) < n - 2] == [], "lower its number"


def test_a_kind_in_a_docstring_is_not_named() -> None:
    assert _texts('"""Softmax"""\nx = {"Softmax": 1}\ny = "of a Relu"') == {"Softmax", "of a Relu"}
    assert _texts('def f():\n    """Softmax"""') == set()
    assert _texts('__all__ = ["Softmax", "Relu"]') == set()
