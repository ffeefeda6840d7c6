"""`planner recipe` and `planner layouts --recipe`: files in, advice and files out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from importers.recipes.reading import read_recipe
from ir.recipes.table import framework_names

TOML = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "llama3.toml"
    path.write_text(TOML)
    return path


def test_a_recipe_is_priced_and_bettered(planner: Callable[..., Any], recipe: Path) -> None:
    run = planner("recipe", recipe, "--cluster", "h100", "--devices", "64", "--json")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert found["framework"] == "torchtitan"
    assert found["own"]["degrees"]["tp"] == 8
    assert found["own"]["degrees"]["dp"] == 8
    assert found["best"]["step_s"] < found["own"]["step_s"]
    assert all(each["fits"] for each in (*found["changes"], found["best"]))
    assert '-mode = "full"' in found["diff"]


def test_the_text_names_step_memory_and_changes(
    planner: Callable[..., Any], recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = planner("recipe", recipe, "--cluster", "h100", "--devices", "64", "-o", out)
    assert run.code == 0, run.err
    for words in ("torchtitan", "step ", "MFU", "fits with", "Best single changes", "Best of all"):
        assert words in run.out
    changed = out / "llama3.toml"
    again = planner("recipe", changed, "--cluster", "h100", "--devices", "64", "--json")
    assert json.loads(again.out)["best"] is None


def test_the_step_is_that_of_simulate(planner: Callable[..., Any], recipe: Path) -> None:
    """One layout has one price, whatever command names it."""
    recipe.write_text(TOML + "[compile]\nenable = true\n")
    run = planner("recipe", recipe, "--cluster", "h100", "--devices", "64", "--json")
    own = json.loads(run.out)["own"]
    other = planner("simulate", "--layout", own["layout"], "llama3-8b", "--cluster", "h100",
                    "--profile", "torchtitan", "--json")  # fmt: skip
    assert other.code == 0, other.err
    assert json.loads(other.out)["estimate_s"] == pytest.approx(own["step_s"], rel=1e-6)


@pytest.mark.fast
@pytest.mark.parametrize("name", framework_names())
def test_a_row_of_layouts_becomes_files(
    planner: Callable[..., Any], name: str, tmp_path: Path
) -> None:
    hold = "pp=1,ep=1" if name in {"accelerate", "deepspeed"} else "ep=1"
    cluster = "atlas-800t-a2" if name.startswith("mind") else "h100"
    run = planner("layouts", "llama2-7b", "--devices", "16", "--batch", "64", "--cluster", cluster,
                  "--hold", hold, "--recipe", name, "-o", tmp_path, "--json")  # fmt: skip
    assert run.code == 0, run.err
    found = json.loads(run.out)
    recipe = read_recipe(found["files"], name)
    degrees = found["best"][0]["degrees"]
    for degree in ("tp", "cp", "pp", "dp", "ep"):
        assert recipe.values[degree] == degrees[degree]
    heads = [Path(path).read_text() for path in found["files"]]
    assert any("a step of" in head and "GiB" in head for head in heads)


@pytest.mark.fast
def test_one_framework_from_another(
    planner: Callable[..., Any], recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mega"
    run = planner("recipe", recipe, "--cluster", "h100", "--devices", "64", "--to", "megatron",
                  "-o", out)  # fmt: skip
    assert run.code == 0, run.err
    assert read_recipe([str(out / "train.sh")]).values["tp"] == 8


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("recipe", "nothing.toml"), "cannot read"),
        (("recipe", "{}", "--say", "x=1"), "unknown number of a recipe"),
        (("recipe", "{}", "--say", "seq=0"), "no whole number"),
        (("recipe", "{}", "--devices", "12"), "no multiple of tp 8"),
        (("recipe", "{}", "--to", "megatron"), "no folder"),
        (("recipe", "{}", "--cluster", "nowhere"), "machine"),
        (("recipe", "{}", "--framework", "x"), "no framework"),
        (("layouts", "llama2-7b", "--devices", "8", "--batch", "8", "--recipe", "megatron"), "-o"),
        (("layouts", "llama2-7b", "--devices", "8", "--batch", "8", "--row", "99"), "no row"),
    ],
)
def test_one_clear_message(
    planner: Callable[..., Any], recipe: Path, arguments: tuple[str, ...], words: str
) -> None:
    run = planner(*(text.replace("{}", str(recipe)) for text in arguments))
    assert run.code == 2
    assert words in run.err


def test_what_a_framework_cannot_say_is_refused(
    planner: Callable[..., Any], tmp_path: Path
) -> None:
    run = planner("layouts", "llama2-7b", "--devices", "16", "--batch", "64", "--cluster", "h100",
                  "--hold", "pp=2", "--recipe", "accelerate", "-o", tmp_path)  # fmt: skip
    assert run.code == 2
    assert "has no setting for pp 2" in run.err
    assert not list(tmp_path.iterdir())


def test_a_simulated_layout_becomes_files(planner: Callable[..., Any], tmp_path: Path) -> None:
    layout = "tp=4,dp=4,batch=32,micro=2,zero=1,sp"
    run = planner("simulate", "--layout", layout, "llama2-7b", "--cluster", "h100",
                  "--recipe", "megatron", "-o", tmp_path)  # fmt: skip
    assert run.code == 0, run.err
    values = read_recipe([str(tmp_path / "train.sh")]).values
    assert [values[name] for name in ("tp", "dp", "micro", "zero_stage")] == [4, 4, 2, 1]
    refused = planner("simulate", "--layout", layout, "llama2-7b", "--recipe", "megatron")
    assert refused.code == 2
    assert "needs a framework and a folder" in refused.err


def test_variables_of_a_script_are_given(planner: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(
        "torchrun --nproc-per-node 8 p.py --num-layers 8 --hidden-size 512 --seq-length 512 "
        "--num-attention-heads 8 --micro-batch-size 1 --global-batch-size 8 "
        "--tensor-model-parallel-size $TP --bf16 $1\n"
    )
    common = ("recipe", path, "--cluster", "h100", "--json")
    run = planner(*common, "--set", "TP=4", "--set", "1=--sequence-parallel")
    assert run.code == 0, run.err
    found = json.loads(run.out)["quantities"]
    assert (found["tp"], found["sequence_parallel"]) == ("4", "yes")
    plain = planner(*common)
    assert any("has no value" in each for each in json.loads(plain.out)["remarks"])
    wrong = planner(*common, "--set", "TP")
    assert (wrong.code, "is no variable" in wrong.err) == (2, True)
