"""`planner search --shard FILE`: faults stop it, warnings do not, pins are the record."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]
NETWORKS = Path(__file__).parents[2] / "examples" / "mindspore" / "networks.py"
CALLS = "calls: [{cell: block1, in_strategy: [[1, 8]], out_strategy: [[8, 1]]}]"


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shards") / "blocks.onnx"
    path.write_bytes(runpy.run_path(str(NETWORKS))["network"]("blocks").SerializeToString())
    return path


def test_calls_become_pins(blocks: Path, planner: Planner, tmp_path: Path) -> None:
    (tmp_path / "calls.yaml").write_text(CALLS)
    arguments = ["--devices", "8", "--shard", tmp_path / "calls.yaml", "-o", tmp_path / "plan"]
    run = planner("search", blocks, *arguments, "--pin", "/block1/gelu=((1,8),)", "--json")
    assert run.code == 0, run.err
    assert run.json["status"] != "error"
    assert "warning: W_SHARD_OUT_STRATEGY" in run.err
    request = json.loads((tmp_path / "plan" / "plan.json").read_text())["request"]
    assert ["/block1/dense1/matmul", [[1, 8], [8, 1]]] in request["pins"]
    assert ["/block1/gelu", [[1, 8]]] in request["pins"], "pins of the user's own stay"
    assert request["dataset_strategy"] == "data_parallel"


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (CALLS.replace("[1, 8]", "[1, 3]"), [], "E_SHARD_DIVIDE"),
        (CALLS.replace("block1", "block7"), [], "E_SHARD_TARGET"),
        ("mode: GRAPH_MODE\n" + CALLS, [], "E_SHARD_MODE"),
        ("calls: &a [*a]", [], "E_SHARD_FILE"),
        ("\x00", [], "E_SHARD_FILE"),
        (CALLS, ["--target", "jax"], "shard is MindSpore's"),
        (CALLS, ["--pin", "/block1/dense1/matmul=((8,1),(1,1))"], "is pinned twice"),
    ],
)
def test_faults_stop_the_search(
    text: str, arguments: list[str], words: str, blocks: Path, planner: Planner, tmp_path: Path
) -> None:
    (tmp_path / "calls.yaml").write_text(text)
    run = planner(
        "search", blocks, "--devices", "8", "--shard", tmp_path / "calls.yaml",
        "-o", tmp_path / "plan", *arguments,
    )  # fmt: skip
    assert (run.code, run.out) == (2, "")
    assert words in run.err
    assert "fix:" in run.err
    assert not (tmp_path / "plan").exists()


def test_a_file_that_is_not_there(blocks: Path, planner: Planner) -> None:
    run = planner("search", blocks, "--devices", "8", "--shard", "/no/such/file")
    assert run.code == 2
    assert "cannot read /no/such/file" in run.err
