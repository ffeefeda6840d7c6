"""`planner sizes`, and models given by their sizes in the other commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]

SMALL = (
    "--layers", 2, "--hidden", 64, "--heads", 8, "--kv-heads", 4, "--ffn", 128, "--vocabulary", 256,
)  # fmt: skip
LAYER = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
PARAMETERS = 2 * LAYER + 2 * 256 * 64 + 64


@pytest.mark.fast
def test_published_models_are_listed(planner: Planner) -> None:
    run = planner("sizes", "--list")
    assert (run.code, run.err) == (0, "")
    assert "llama3-70b" in run.out
    assert max(map(len, run.out.splitlines())) <= 100
    models = planner("sizes", "--list", "--json").json["models"]
    names = [each["name"] for each in models]
    assert names == sorted(names)
    assert models[names.index("deepseek-v3")]["parameters"] == "671 B"


def test_sizes_become_a_file_that_other_commands_take(tmp_path: Path, planner: Planner) -> None:
    path = tmp_path / "mine.json"
    facts = planner("sizes", *SMALL, "--dtype", "fp32", "-o", path, "--json").json
    assert facts["parameters"] == facts["parameters_per_token"] == PARAMETERS
    assert (facts["name"], facts["dtype"], facts["output"]) == ("mine", "float32", str(path))
    assert json.loads(path.read_text()) == facts["config"]
    inspected = planner("inspect", path, "--sequence", 16, "--batch", 8, "--json").json
    assert inspected["parameter_elements"] == PARAMETERS
    assert inspected["inputs"] == {"input_ids": ["int64", [8, 16]]}
    names = [(dim["name"], dim["value"]) for dim in inspected["dynamic_dims"]]
    assert names == [("batch", 8), ("sequence", 16)]
    out = tmp_path / "plan"
    given = (path, "--devices", 4, "--batch", 8, "--sequence", 16, "--target", "jax", "-o", out)
    assert planner("search", *given).code == 0
    run = planner("verify", path, out / "plan.json")
    assert run.code == 0, run.err
    assert "verified on 4 virtual devices" in run.out


def test_a_published_model_is_taken_by_its_name(planner: Planner) -> None:
    facts = planner("inspect", "gpt2", "--sequence", 128, "--json").json
    assert (facts["name"], facts["parameter_elements"]) == ("gpt2", 124_439_808)
    kinds = planner("inspect", "gpt2", "--sequence", 128, "--operators", "--json").json["kinds"]
    assert all(each["known"] for each in kinds)
    found = planner("search", "gpt2", "--devices", 8, "--batch", 8, "--sequence", 128, "--json")
    assert found.json["status"] == "ok"


def test_the_sizes_of_a_published_model_can_be_changed(planner: Planner) -> None:
    facts = planner("sizes", "mixtral-8x7b", "--layers", 2, "--experts", 4, "--json").json
    assert facts["config"]["num_hidden_layers"] == 2
    assert facts["config"]["num_local_experts"] == 4
    idle = 2 * 2 * 3 * 4096 * 14336
    assert facts["parameters"] - facts["parameters_per_token"] == idle
    whole = planner("sizes", "mixtral-8x7b", "--json").json
    assert whole["parameters_per_token"] == 12_879_925_248


@pytest.mark.fast
def test_the_text_is_for_people(planner: Planner) -> None:
    run = planner("sizes", *SMALL)
    assert (run.code, run.err) == (0, "")
    assert f"parameters  {PARAMETERS:,}, " in run.out
    assert "num_hidden_layers" in run.out
    run = planner("inspect", "gpt2", "--sequence", 8)
    assert "  file        published sizes; 462 nodes\n" in run.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no sizes are given"),
        (("--layers", 2), "the configuration gives no size of"),
        ((*SMALL, "--layers", 0), "num_hidden_layers is 0, which is not between 1 and"),
        ((*SMALL, "--experts", 4), "how many experts a token takes is not given"),
        ((*SMALL, "-o", "model.onnx"), "model.onnx is no name of a config.json"),
        ((*SMALL, "--dtype", "int3"), "unknown element type 'int3'"),
        ((*SMALL, "--sequence", 0), "0 is less than 1"),
        (("gpt5",), "did you mean 'gpt2'?"),
        (("nosuch.json",), "cannot read nosuch.json"),
    ],
)
def test_faults_are_status_2(arguments: tuple[Any, ...], message: str, planner: Planner) -> None:
    run = planner("sizes", *arguments)
    assert (run.code, run.out) == (2, "")
    assert message in run.err
    assert "fix: " in run.err


def test_nothing_is_written_after_a_fault(tmp_path: Path, planner: Planner) -> None:
    path = tmp_path / "folder" / "mine.json"
    assert planner("sizes", "--layers", 2, "-o", path).code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_sequence_is_for_models_that_have_one(mlp: Path, planner: Planner) -> None:
    run = planner("inspect", mlp, "--sequence", 8)
    assert run.code == 2
    assert "sequence" in run.err
