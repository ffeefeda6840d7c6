"""No name and no text uses a word of the house where the field has one.

The lists hold identifiers and phrases, not English words: `work` and `held` are fine in a sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, name_of, outside_code

pytestmark = pytest.mark.fast

PACKAGES = (
    "cli", "costmodel", "data", "executors", "exporters", "importers", "ir", "planner", "report",
    "service", "topology",
)  # fmt: skip
NAMES = {
    "evidence": "plan_builder",
    "holding": "live_tensor",
    "holdings": "live_tensors",
    "wishes": "soft constraints",
    "asking": "requests",
    "soon": "feasibility_probe",
    "likeness": "calibration_class",
    "basis_of": "lowering_cache",
    "hunt": "search",
    "menu": "pipeline space",
    "floors": "lower bounds",
    "thinned": "coarsened cuts",
    "port_state": "layout pair",
    "on_the_way": "in flight",
    "going_round": "ring attention",
    "put_off": "deferred",
    "both_ways": "bidirectional",
    "further_tokens": "mtp_layers",
    "further_layers": "mtp_layers",
    "retold": "delegating pricer",
    "at_work": "concurrent",
    "changeover": "migration cost",
    "wants": "takes, or needs",
    "turns": "breakpoints, or passes in order",
    "halving": "recursive",
    "joint": "pipeline search",
    "posed": "restricted",
    "task": "a task of what",
}
"""Names of modules, public classes and functions, in lower case with underscores. Parts count as
well, but for the last two, which stand for whole names."""
WHOLE = {"posed", "task"}
PHRASES = (
    r"taking turns", r"take turns", r"other stages at work", r"no say\b", r"arrives repeated",
    r"going round", r"go round", r"micro-batches on the way", r"put off", r"further tokens?",
    r"of the mind", r"inherited from the mean", r"nine of ten", r"in the midst", r"on offer",
    r"seconds of plans", r"nothing is assumed to overlap", r"rests? in the memory of the host",
    r"\d\}? became \{?\d", r"activations made again", r"beside (?:the )?(?:computation|plan)\b",
    r"repeated on every device", r"at nine tenths",
)  # fmt: skip


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return tuple((name_of(path), ast.parse(path.read_text("utf-8"))) for path in files)


def _names() -> Iterator[tuple[str, str]]:
    for file, tree in _modules():
        yield file, Path(file).stem
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                yield file, _snake(node.name)


@pytest.mark.parametrize("word", NAMES)
def test_no_public_name_is_a_house_word(word: str) -> None:
    whole = rf"{word}" if word in WHOLE else rf"(?:\w+_)?{word}(?:_\w+)?"
    found = {f"{file}: {name}" for file, name in _names() if re.fullmatch(whole, name)}
    assert sorted(found) == []


def _older(tree: ast.Module) -> list[ast.FunctionDef]:
    """`_missing_` of an enum reads the words of files that were written before."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [node for node in functions if node.name == "_missing_"]


def _texts() -> Iterator[tuple[str, str]]:
    """What the program says: every text of the source that is no docstring."""
    for file, tree in _modules():
        docs = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        read = {id(node) for older in _older(tree) for node in ast.walk(older)}
        texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
        for node in texts:
            if isinstance(node.value, str) and id(node) not in docs | read:
                yield f"{file}:{node.lineno}", node.value


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_text_says_it_in_house_words(phrase: str) -> None:
    texts = list(_texts())
    assert len(texts) > 10_000
    assert [where for where, text in texts if re.search(phrase, text)] == []


@pytest.mark.parametrize("phrase", PHRASES)
def test_the_service_page_says_it_in_words_of_the_field(phrase: str) -> None:
    sources = sorted((ROOT / "service" / "web" / "src").glob("*.ts*"))
    assert len(sources) > 30
    assert [s.name for s in sources if re.search(phrase, s.read_text("utf-8"))] == []


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_page_says_it_in_house_words(phrase: str) -> None:
    pages = [page for page in PAGES if page.parent != DOCS / "decisions"]
    found = []
    for page in pages:
        prose = (line for _, line in outside_code(page.read_text("utf-8")))
        found += [name_of(page) for line in prose if re.search(phrase, line)]
    assert found == []


def test_a_house_word_is_seen() -> None:
    assert re.fullmatch(r"(?:\w+_)?both_ways(?:_\w+)?", _snake("SendsBothWays"))
    assert [p for p in PHRASES if re.search(p, "chunks that take turns, layers put off")]
