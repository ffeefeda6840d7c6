"""`planner inspect --operators`: what is known of kinds, of a model or of all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from importers.onnx_coverage import operator_coverage
from ir.ops import catalogue
from tests.cli.operators_page import PAGE, operators_page

Planner = Callable[..., Any]
KEYS = {
    "kind", "domain", "since", "until", "treatment", "family", "becomes", "rule", "remarks",
    "meaning", "splits", "gradient", "known",
}  # fmt: skip
MODEL_KEYS = {
    "kind", "nodes", "operators", "treatment", "family", "becomes", "rule", "can_split",
    "gradient", "known",
}  # fmt: skip


@pytest.mark.fast
def test_every_kind_is_in_the_json(planner: Planner) -> None:
    found = planner("inspect", "--operators", "--json").json
    assert all(set(each) == KEYS for each in found["kinds"])
    kinds = {each["kind"]: each for each in found["kinds"]}
    assert len(kinds) == len(found["kinds"]) == sum(found["counts"].values())
    assert (kinds["MatMul"]["since"], kinds["MatMul"]["rule"]) == (1, "a b c, c d -> a b d")
    assert kinds["Gemm"]["becomes"] == ["MatMul", "Add"]
    assert not kinds["Loop"]["known"]


@pytest.mark.fast
def test_the_text_names_every_kind_within_100_columns(planner: Planner) -> None:
    run = planner("inspect", "--operators")
    assert run.code == 0
    assert max(map(len, run.out.splitlines())) <= 100
    words = set(run.out.replace(",", " ").split())
    assert [e.kind for e in operator_coverage() if len(e.kind) < 40 and e.kind not in words] == []


@pytest.mark.fast
def test_the_kinds_of_a_model_are_counted_unknown_ones_first(
    strange: Path, planner: Planner
) -> None:
    run = planner("inspect", strange, "--operators", "--json")
    assert all(set(each) == MODEL_KEYS for each in run.json["kinds"])
    first, second = run.json["kinds"]
    assert (first["kind"], first["nodes"], first["operators"]) == ("custom::Twist", 1, 1)
    assert (first["treatment"], first["known"], first["can_split"]) == ("repeated", False, 0)
    assert (second["kind"], second["known"], second["can_split"]) == ("MatMul", True, 1)
    assert second["rule"] == "a b, b c -> a c"
    text = planner("inspect", strange, "--operators").out
    assert "1 of 2 kinds of operators are known" in text
    assert "--rule 'custom::Twist: RULE'" in text


def test_a_given_rule_makes_a_kind_known(strange: Path, planner: Planner) -> None:
    rule = ("--rule", "custom::Twist: b s! -> b s!")
    found = planner("inspect", strange, "--operators", *rule, "--batch", 32, "--json").json["kinds"]
    twist = next(each for each in found if each["kind"] == "custom::Twist")
    assert (twist["treatment"], twist["rule"], twist["can_split"]) == ("given", "a b! -> a b!", 1)
    text = planner("inspect", strange, "--operators", *rule).out
    assert "all 2 kinds of operators are known" in text
    assert "given: a b! -> a b!" in text


@pytest.mark.parametrize(
    "arguments", [[], ["--json"], ["--operators", "--batch", "4"], ["--operators", "--bind", "a=1"]]
)
def test_without_a_model_only_the_catalogue_can_be_told(
    arguments: list[str], planner: Planner
) -> None:
    run = planner("inspect", *arguments)
    assert run.code == 2
    assert "no model is named" in run.err
    assert "fix: " in run.err


def test_the_committed_page_is_the_generated_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == operators_page(), "run `make docs`"


def test_the_page_names_every_kind() -> None:
    page = operators_page()
    assert [e.kind for e in operator_coverage() if f"`{e.kind}`" not in page] == []
    assert set(catalogue()) <= {e.kind.rpartition("::")[2] for e in operator_coverage()}
