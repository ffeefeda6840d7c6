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
    "wished": "soft constraints",
    "nothing_fits": "infeasible",
    "port_of": "layout table",
    "port_elements": "elements of a layout table",
    "of_the_mind": "hypothetical",
    "whole_search": "pipeline search",
    "turns": "breakpoints, or passes in order",
    "halving": "recursive",
    "joint": "pipeline search",
    "posed": "restricted",
    "task": "a task of what",
    "beside": "compared with",
    "fewer": "restricted",
    "wish": "soft constraint",
}
"""Names of modules, public classes and functions, in lower case with underscores. Parts count as
well, but for those of `WHOLE`, which stand for whole names."""
WHOLE = {"posed", "task", "beside", "fewer", "wish"}
PHRASES = (
    r"taking turns", r"take turns", r"other stages at work", r"no say\b", r"arrives repeated",
    r"going round", r"go round", r"micro-batches on the way", r"put off", r"further tokens?",
    r"of the mind", r"inherited from the mean", r"nine of ten", r"in the midst", r"on offer",
    r"seconds of plans", r"nothing is assumed to overlap", r"rests? in the memory of the host",
    r"\d\}? became \{?\d", r"activations made again", r"beside (?:the )?(?:computation|plan)\b",
    r"repeated on every device", r"at nine tenths", r"as nothing else was asked",
    r"in the reserve first", r"by published runs \d", r"kernels take so many times",
    r"is a whole dimension", r"three of four (?:such )?steps", r"upper quarter",
    r"known before\)", r"most work per second", r"ways? to cut a batch",
    r"next best way", r"the price of memory", r"[Dd]earest operators",
)  # fmt: skip
ANY_PHRASE = re.compile("|".join(PHRASES))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@cache
def _sources() -> tuple[tuple[str, str], ...]:
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return tuple((name_of(path), path.read_text("utf-8")) for path in files)


def _names() -> Iterator[tuple[str, str]]:
    for file, source in _sources():
        yield file, Path(file).stem
        for name in re.findall(r"^ *(?:class|(?:async )?def) ([^\W_]\w*)", source, re.MULTILINE):
            yield file, _snake(name)


def test_no_public_name_is_a_house_word() -> None:
    words = [w if w in WHOLE else rf"(?:\w+_)?{w}(?:_\w+)?" for w in NAMES]
    one = re.compile("|".join(words))
    found = {f"{file}: {name}" for file, name in _names() if one.fullmatch(name)}
    assert sorted(found) == []


def _older(tree: ast.Module) -> list[ast.FunctionDef]:
    """`_missing_` of an enum reads the words of files that were written before."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [node for node in functions if node.name == "_missing_"]


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """What the program says: every text of a source that is no docstring."""
    tree = ast.parse(source)
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    read = {id(node) for older in _older(tree) for node in ast.walk(older)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docs | read:
            continue
        if isinstance(node.value, str):
            yield node.lineno, node.value


def _joined(source: str) -> str:
    """A source whose texts over several lines stand on one, to see which is worth parsing."""
    return re.sub(r'"\s*\n\s*f?"', "", source)


@pytest.mark.slow
def test_no_text_says_it_in_house_words() -> None:
    assert len(_sources()) > 900
    found = [
        (file, line, text)
        for file, source in _sources()
        if ANY_PHRASE.search(_joined(source))
        for line, text in _texts(source)
        if ANY_PHRASE.search(text)
    ]
    assert found == []


def test_the_service_page_says_it_in_words_of_the_field() -> None:
    sources = sorted((ROOT / "service" / "web" / "src").glob("*.ts*"))
    assert len(sources) > 30
    assert [s.name for s in sources if ANY_PHRASE.search(s.read_text("utf-8"))] == []


def test_no_page_says_it_in_house_words() -> None:
    pages = [page for page in PAGES if page.parent != DOCS / "decisions"]
    found = []
    for page in pages:
        prose = (line for _, line in outside_code(page.read_text("utf-8")))
        found += [(name_of(page), line) for line in prose if ANY_PHRASE.search(line)]
    assert found == []


def test_a_house_word_is_seen() -> None:
    source = 'f(\n    "chunks take "\n    "turns"\n)\ndef g():\n    """Chunks take turns."""'
    assert ANY_PHRASE.search(_joined(source))
    assert [line for line, text in _texts(source) if ANY_PHRASE.search(text)] == [2]
    assert re.fullmatch(r"(?:\w+_)?both_ways(?:_\w+)?", _snake("SendsBothWays"))
    assert [p for p in PHRASES if re.search(p, "chunks that take turns, layers put off")]
