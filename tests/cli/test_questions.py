"""Ten questions of engineers, answered from the documentation alone.

The index names a page and a heading for each; what stands there says the words that the answer
needs, its commands have the options that they show, and the quick ones run as they stand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.docs.pages import DOCS, ROOT, anchors

INDEX = (DOCS / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| (How|Why|What)(.*\?) \| \[[\w.-]+\]\(([\w.-]+)#([\w-]+)\) \|$", re.MULTILINE)


class Question(NamedTuple):
    """Its words in the index, what the answer must say, and the commands that run."""

    asked: str
    said: tuple[str, ...]
    run: tuple[str, ...] = ()


QUESTIONS = (
    Question("How do I add an operator?", ("ir/ops", "rule", "tests/operators/examples")),
    Question(
        "How do I add a chip?",
        ("data/chips/", "source", "generation"),
        ("planner topology show h100",),
    ),
    Question(
        "Why is my plan pipeline-parallel?",
        ("--why-not pp=1", "memory", "bubble"),
        ("planner explain staged/plan.json --why-not pp=1",),
    ),
    Question(
        "What is exposed communication?",
        ("hidden", "overlaps", "hidden_s"),
        ("planner show plan/plan.json", "planner simulate plan/plan.json"),
    ),
    Question(
        "How do I hold TP to 8?",
        ("--tp 8", "--pp", "--dp"),
        (
            "planner search MODEL --devices 16 --batch 64 --tp 8",
            "planner explain plan/plan.json --why-not tp=8",
        ),
    ),
    Question("What does the interval mean?", ("90 %", "published", "(uncalibrated)")),
    Question(
        "How do I load a plan into MindSpore?",
        ("load_param_strategy_file", "apply(network)", "strategy.ckpt"),
        ("planner search model.onnx --devices 16 --batch 64 --target mindspore -o plan",),
    ),
    Question(
        "How do I use a plan in torch?",
        ("device_mesh", "distribute", "DTensor"),
        ("planner export plan/plan.json --format torch -o torch_placements.py",),
    ),
    Question(
        "How do I compare two clusters?",
        ("--cluster atlas-800t-a2,dgx-h100", "planner diff"),
        ("planner simulate plan/plan.json --cluster dgx-h100",),
    ),
    Question("What is not modelled?", ("expert", "embedding", "host")),
)


def _answer(question: Question) -> str:
    """The section that the index names, to the next heading of its level."""
    for start, rest, page, anchor in ROW.findall(INDEX):
        if start + rest == question.asked:
            parts = re.split(r"^(#+ .*)$", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)
            found = [
                b for h, b in zip(parts[1::2], parts[2::2], strict=True) if anchors(h) == {anchor}
            ]
            assert len(found) == 1, f"{page} has no heading #{anchor}"
            return found[0]
    raise AssertionError(f"docs/README.md does not ask: {question.asked}")


def _commands(text: str) -> list[str]:
    shown = re.findall(r"^    (planner .*)$", text, re.MULTILINE)
    return [re.sub(r"\s+# .*", "", command) for command in [*shown, *_quoted(text)]]


def _quoted(text: str) -> list[str]:
    return re.findall(r"`(planner [a-z-]+ [^`]*)`", re.sub(r"\n\s*", " ", text))


@pytest.mark.fast(every=True)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.asked)
def test_the_answer_says_what_it_must(question: Question) -> None:
    answer = _answer(question)
    assert [word for word in question.said if word not in answer] == []


def test_the_index_asks_no_other_question() -> None:
    assert [a + b for a, b, _, _ in ROW.findall(INDEX)] == [q.asked for q in QUESTIONS]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.asked)
def test_the_options_of_its_commands_exist(question: Question, planner: Callable[..., Any]) -> None:
    for command in _commands(_answer(question)):
        name, options = command.split()[1], re.findall(r"\s(--?[a-z][a-z-]*)", command)
        words = planner(name, "--help-all" if name == "search" else "--help").out
        assert [o for o in options if o not in words.replace(",", " ").split()] == [], command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory in which the commands of all answers run in turn."""
    made = tmp_path_factory.mktemp("questions")
    (made / "data").symlink_to(ROOT / "data")
    return made


def test_its_quick_commands_run(
    mlp: Path, folder: Path, planner: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = "planner search model.onnx --devices 16 --batch 64 --target mindspore -o plan"
    staged = "planner search model.onnx --devices 8 --global-batch 64 --pipeline 2 -o staged"
    for command in (first, staged, *(c for q in QUESTIONS for c in q.run)):
        words = [str(mlp) if w in {"MODEL", "model.onnx"} else w for w in shlex.split(command)]
        run = planner(*words[1:])
        assert (run.code, run.err.count("error")) == (0, 0), command


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.asked)
def test_its_quick_commands_stand_in_the_answer(question: Question) -> None:
    shown = _commands(_answer(question))
    assert [c for c in question.run if c.replace("staged/", "plan/") not in shown] == []
