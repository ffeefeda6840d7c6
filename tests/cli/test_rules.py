"""`--rule` and `--rules`: text from the command line becomes the rules of a plan, or one error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.errors import UserError
from ir.plan_file import read_plan
from planner.requests.option_texts import rules
from planner.requests.sources import Document

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]
TWIST = "custom::Twist: b s -> b s"


def test_rules_of_options_and_file_are_joined() -> None:
    text = f"# ours\n\n  {TWIST}  # the one of our kernels\nMix: a,  b -> a b\n"
    assert rules(["Other: 1 -> 1"], Document("rules.txt", text)) == (
        ("Mix", "a, b -> a b"),
        ("Other", "1 -> 1"),
        ("custom::Twist", "b s -> b s"),
    )
    assert rules([], None) == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [("a::b: x -> x", "a::b"), ("urn:x::b:x->x", "urn:x::b"), (" b :x -> x", "b")],
)
def test_the_last_colon_ends_the_kind(text: str, kind: str) -> None:
    ((found, _),) = rules([text], None)
    assert found == kind


@pytest.mark.parametrize(
    "text", ["", "x -> x", ": x -> x", "custom::Twist", "custom::Twist x -> x", "Twist: x"]
)
def test_a_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="fix: write kind, colon and rule"):
        rules([text], None)


def test_the_line_of_a_fault_in_a_file_is_named() -> None:
    with pytest.raises(UserError, match=r"at:  line 3 of rules\.txt"):
        rules([], Document("rules.txt", f"{TWIST}\n\nnonsense\n"))


def test_a_file_that_is_none_is_refused(strange: Path, planner: Planner, tmp_path: Path) -> None:
    binary, large = tmp_path / "binary", tmp_path / "large"
    binary.write_bytes(b"\xff\xfe\x00")
    large.write_bytes(b"#" * (2**20 + 1))
    for file, what in (
        (tmp_path / "missing", "cannot read"), (tmp_path, "cannot read"),
        (binary, "no text in UTF-8"), (large, "larger than"),
    ):  # fmt: skip
        run = planner("inspect", strange, "--rules", file)
        assert (run.code, what in run.err) == (2, True), run.err
        assert "fix: name a text file with a rule on each line" in run.err


def test_a_plan_with_a_rule_splits_the_operator_and_says_so(
    strange: Path, planner: Planner, tmp_path: Path
) -> None:
    folder = tmp_path / "plan"
    run = planner(
        "search", strange, "--devices", 8, "--batch", 2**22,
        "--rule", TWIST, "-o", folder,
    )  # fmt: skip
    assert run.code == 0, run.err
    assert "operators with a given rule" in run.out
    assert "1 x custom::Twist, such as" in run.out
    plan = read_plan(folder / "plan.json")
    (found,) = [op for op in plan.operators if op.kind == "custom::Twist"]
    assert found.outputs[0] is not None
    assert any(found.outputs[0].dims), "four million rows are worth splitting"
    (op,) = [op for op in plan.graph.ops if op.kind == "custom::Twist"]
    assert op.attributes["sharding_rule"] == "b s -> b s"
    assert "'Twist': [" in (folder / "apply_mindspore.py").read_text()
    shown = planner("show", folder / "plan.json")
    assert "operators with a given rule" in shown.out


def test_the_same_request_gives_the_same_bytes(
    strange: Path, planner: Planner, tmp_path: Path
) -> None:
    file = tmp_path / "rules.txt"
    file.write_text(TWIST)
    options = (("--rule", TWIST), ("--rules", file))
    texts = []
    for index, given in enumerate(options):
        folder = tmp_path / str(index)
        assert planner("search", strange, "--devices", 2, *given, "-o", folder).code == 0
        texts.append((folder / "plan.json").read_text())
    assert texts[0] == texts[1]


def test_inspect_takes_rules_too(strange: Path, planner: Planner) -> None:
    facts = planner("inspect", strange, "--rule", TWIST, "--batch", 32, "--json").json
    assert facts["unknown"] == []
    assert facts["given_rules"] == {"custom::Twist": "b s -> b s"}
    text = planner("inspect", strange, "--rule", TWIST).out
    assert "Operators with a given rule\ncustom::Twist: b s -> b s" in text
    assert "Every operator has a sharding rule." in text


FAULTS = [
    (["--rule", "custom::Twist: b s -> b"], "operator Twist_1 (custom::Twist) does not fit"),
    (["--rule", "custom::Twist: b s, t -> b s"], "2 operands and 1 results"),
    (["--rule", "custom::Twist: b (s -> b s"], "'(' is not closed"),
    (["--rule", "custom::Twist"], "gives no rule"),
    (["--rule", "Twist: b s -> b s"], "did you mean 'custom::Twist'?"),
    (["--rule", "MatMul: a b, b c -> a c"], "the catalogue has a rule for MatMul already"),
    (["--rule", TWIST, "--rule", "custom::Twist: b s! -> b s!"], "has two rules"),
    (["--rule", TWIST, "--rule", TWIST], "has two rules"),
    (["--rules", "no/such/file"], "cannot read no/such/file"),
]


@pytest.mark.parametrize("command", [["search", "--devices", "4"], ["inspect"]])
@pytest.mark.parametrize(("options", "hint"), FAULTS, ids=[" ".join(o)[:40] for o, _ in FAULTS])
def test_a_rule_that_cannot_be_is_status_2_and_one_message(
    command: list[str], options: list[str], hint: str, strange: Path, planner: Planner
) -> None:
    run = planner(command[0], strange, *command[1:], *options, "--json")
    assert run.code == 2, run.err
    assert run.err.count("error: ") == 1
    message = json.loads(run.out)["message"]
    assert hint in message
    assert "fix: " in message
    assert "Traceback" not in run.err
