"""MindSpore takes the exported scripts, in its old and its new interface, as they are meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What MindSpore says of all scripts, in one process of its own."""
    cases: Path = request.config.getoption("--cases")
    folder = cases.with_name(f"{cases.name}-scripts")
    work = tmp_path_factory.mktemp("scripts")
    tool = work / "msrun"
    tool.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    tool.chmod(0o755)
    path = f"{work}{os.pathsep}{os.environ['PATH']}"
    script = ["bash", str(folder / "launch" / "run_msrun.sh"), "1"]
    said = subprocess.run(
        script, capture_output=True, text=True, check=True, env=os.environ | {"PATH": path}
    )
    (folder / "launch" / "msrun.txt").write_text(said.stdout)
    module = "tests.mindspore_package.run_scripts"
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder), "16", str(work / "found.json")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=work,  # MindSpore leaves folders behind
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((work / "found.json").read_text())


def test_the_old_interface_holds_what_was_set(found: Any) -> None:
    old = {name: each["old"] for name, each in found["contexts"].items()}
    modes = {name: (each["parallel_mode"], each["search_mode"]) for name, each in old.items()}
    assert modes["plain"][0] == "semi_auto_parallel"
    assert modes["propagation"] == ("auto_parallel", "sharding_propagation")
    assert modes["recursive"] == ("auto_parallel", "recursive_programming")
    assert modes["dynamic_programming"] == ("auto_parallel", "dynamic_programming")
    assert modes["data"][0] == "data_parallel"
    assert modes["hybrid"][0] == "hybrid_parallel"
    assert modes["alone"][0] == "stand_alone"
    assert {each["device_num"] for name, each in old.items() if name != "alone"} == {16}
    assert old["recursive"]["dataset_strategy"] == "full_batch"
    assert old["labels"]["dataset_strategy"] == [[16, 1], [16, 1]]
    assert old["propagation"]["parameter_broadcast"] is True
    assert old["dynamic_programming"]["gradients_mean"] is False
    assert old["plain"]["enable_alltoall"] is True
    assert old["optimizer"]["enable_parallel_optimizer"] is True
    assert old["pipeline"]["pipeline_stages"] == 2
    assert old["plain"]["strategy_ckpt_config"]["load_file"].endswith("strategy.ckpt")


def test_older_names_and_parameters_of_a_search_are_taken(found: Any) -> None:
    older, search = found["contexts"]["older"], found["contexts"]["search"]
    assert older["old"]["dataset_strategy"] == "full_batch"
    assert older["old"]["strategy_ckpt_config"]["load_file"].endswith("strategy.ckpt")
    assert "new" not in older
    assert search["search"]["elementwise_op_strategy_follow"] is True
    assert search["search"]["tensor_slice_align_size"] == 32
    assert older["search"]["elementwise_op_strategy_follow"] is False


def test_fusion_is_taken(found: Any) -> None:
    held = {name: each["old"]["comm_fusion"] for name, each in found["contexts"].items()}
    assert held["data"]["allreduce"] == {"mode": "index", "config": [1]}
    assert held["size_fusion"]["allreduce"] == {"mode": "size", "config": 32}
    assert held["size_fusion"]["allgather"] == {"mode": "size", "config": 16}
    assert held["auto_fusion"]["reducescatter"] == {"mode": "auto", "config": None}
    assert held["no_fusion"]["openstate"] is False


def test_the_new_interface_says_the_same(found: Any) -> None:
    new = {name: each["new"] for name, each in found["contexts"].items() if "new" in each}
    old = {"dynamic_programming", "data", "hybrid", "alone", "older", "search"}
    assert old == set(found["contexts"]) - set(new)
    assert new["propagation"]["_parallel_mode"] == "sharding_propagation"
    assert new["labels"]["_dataset_strategy_config"] == [[16, 1], [16, 1]]
    assert new["size_fusion"]["_comm_fusion_config"]["allreduce"] == {"mode": "size", "config": 32}
    assert new["plain"]["_gradients_mean"] is True
    assert (new["pipeline"]["_pipeline_stages"], new["pipeline"]["_pipeline_scheduler"]) == (
        2,
        "gpipe",
    )
    assert new["optimizer"]["_enable_parallel_optimizer"] is True
    assert new["plain"]["_load_strategy_file_path"].endswith("strategy.ckpt")


def test_symbols_are_those_of_one_rank(found: Any) -> None:
    (shape,) = found["contexts"]["symbols"]["inputs"]
    assert "'divisor': 4" in shape
    assert "'max': 16" in shape
    assert found["contexts"]["symbols"]["jit"] == {"jit_level": "O0"}


def test_slices_are_marked(found: Any) -> None:
    missing, count, marked = found["contexts"]["hybrid"]["slices"]
    assert (missing, marked) == ([], True)
    assert count > 0


def test_msrun_reads_its_script(found: Any) -> None:
    read = found["msrun"]
    assert (read["worker_num"], read["local_worker_num"], read["node_rank"]) == (16, 8, 1)
    assert (read["master_port"], read["cluster_time_out"], read["join"]) == (8118, 120, True)
    assert read["task_script"].endswith("train.py")


def test_this_release_has_the_roles_but_takes_no_parameters(found: Any) -> None:
    switched, said = found["servers"]
    assert switched is True
    assert "2.10 does not" in said


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("E_SHARD_ASSIGNED_TO_CELL", "TypeError"),
        ("E_SHARD_PLAN_OF_FUNCTION", "TypeError"),
        ("E_SHARD_DIVIDE", "cannot be divisible"),
        ("E_SHARD_RANK", "is not equal to param_shape len"),
        ("W_SHARD_PARAMETER_UNKNOWN", ""),
        ("W_SHARD_OUT_STRATEGY", ""),
    ],
)
def test_mindspore_refuses_what_the_planner_refuses(code: str, words: str, found: Any) -> None:
    said = found["shard"][code]
    assert words in said
    assert bool(said) == code.startswith("E_")
