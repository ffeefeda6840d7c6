"""`planner search` from the outside: exit status, what is printed where, which files are left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from exporters.errors import ExportError
from exporters.mindspore.strategy import read
from ir.plan_file import read_plan
from ir.throughput import RATE_NAMES
from ir.violations import Violation
from planner.requests.searches import OWN_TYPE

KEYS = {
    "status", "step_time_s", "bound_s", "gap", "peak_memory_bytes", "memory_limit_bytes",
    "time_by_cause", "memory_by_cause", "baselines", "communicators", "files", "notes", "degrees",
    *RATE_NAMES,
}  # fmt: skip
MORE_WITHOUT_PLAN = {"needed_bytes", "available_bytes", "remedies", "message", "explanation"}

Planner = Callable[..., Any]


def test_a_plan_is_summarised_on_stdout_and_progress_goes_to_stderr(
    mlp: Path, planner: Planner
) -> None:
    run = planner("search", mlp, "--devices", 4)
    assert run.code == 0
    name, step, *_ = run.out.splitlines()
    assert (name, step[:25]) == ("TP 4", "mlp: one training step in")
    headings = ("Time", "Peak memory of a device", "Quality", "Heaviest operators", "Notes")
    assert [h for h in headings if f"\n{h}" not in run.out] == []
    assert "uncalibrated" in run.out
    assert "reading mlp.onnx" in run.err
    assert "reading" not in run.out


def test_the_summary_fits_into_100_columns_without_colour(mlp: Path, planner: Planner) -> None:
    out = planner("search", mlp, "--devices", 8, "--target", "generic").out
    assert max(map(len, out.splitlines())) <= 100
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_json_is_one_object_with_these_keys(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 4, "--json")
    assert run.code == 0
    assert set(run.json) == KEYS
    assert run.json["status"] == "ok"
    assert run.json["files"] == []
    names = {"name", "fits", "step_time_s", "peak_memory_bytes", "reason"}
    assert [set(b) for b in run.json["baselines"]] == [names] * 3
    assert sum(run.json["time_by_cause"].values()) == pytest.approx(run.json["step_time_s"])
    assert sum(run.json["memory_by_cause"].values()) == pytest.approx(run.json["peak_memory_bytes"])
    assert 0 < run.json["bound_s"] <= run.json["step_time_s"]
    assert run.json["peak_memory_bytes"] <= run.json["memory_limit_bytes"]


def test_json_says_which_devices_communicate(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 4, "--json", "--target", "generic")
    assert run.json["communicators"]
    for group in run.json["communicators"]:
        assert set(group) == {"axes", "group_size", "groups", "nbytes_total", "kinds"}
        assert group["group_size"] * group["groups"] == 4
        assert group["nbytes_total"] > 0


def test_one_device_has_nobody_to_talk_to(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 1, "--json")
    assert run.json["communicators"] == []


def test_nothing_fits_is_status_1_with_bytes_and_remedies(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 2, "--memory", "1MiB")
    assert (run.code, run.out) == (1, "")
    assert "available 1 MiB" in run.err
    assert "optimizer state: " in run.err
    assert "what would make it fit:\n    --" in run.err


def test_nothing_fits_is_status_1_in_json_too(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 2, "--memory", "1MiB", "--json")
    assert run.code == 1
    assert set(run.json) == KEYS | MORE_WITHOUT_PLAN
    assert run.json["status"] == "infeasible"
    assert run.json["step_time_s"] is None
    assert run.json["needed_bytes"] > run.json["available_bytes"] == 2**20
    assert run.json["remedies"]


def test_nothing_is_written_when_nothing_fits(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    run = planner("search", mlp, "--devices", 2, "--memory", "1MiB", "-o", tmp_path / "a" / "b")
    assert run.code == 1
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_mindspore_can_be_read_back(
    mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "plan"
    run = planner("search", mlp, "--devices", 8, "-o", folder, "--json")
    names = ["plan.json", "strategy.ckpt", "strategy.json", "apply_mindspore.py"]
    assert run.json["files"] == [str(folder / n) for n in names]
    assert {p.name for p in folder.iterdir()} == set(names)
    assert read_plan(folder / "plan.json").estimate.step_time_s == run.json["step_time_s"]
    layouts = [item.name for item in read(folder / "strategy.ckpt").layouts]
    assert sorted(layouts) == ["down", "up"]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("jax", {"plan.json", "jax_sharding.json", "jax_sharding.py"}),
        ("torch", {"plan.json", "torch_placements.json", "torch_placements.py"}),
        ("generic", {"plan.json"}),
    ],
)
def test_every_target_writes_its_files(
    target: str, names: set[str], mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner("search", mlp, "--devices", 4, "--target", target, "-o", tmp_path)
    assert run.code == 0
    assert {p.name for p in tmp_path.iterdir()} == names
    assert read_plan(tmp_path / "plan.json").request["target"] == target


def test_a_plan_that_the_target_cannot_apply_is_written_with_a_warning(
    mlp: Path, planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ExportError(Violation("cut too fine", "operator 'x'", "plan again"))

    monkeypatch.setattr("exporters.formats.strategy_checkpoint", refuse)
    run = planner("search", mlp, "--devices", 2, "-o", tmp_path, "--json")
    assert run.code == 0
    assert run.json["files"] == [str(tmp_path / "plan.json")]
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
    assert "warning: no strategy file" in run.err
    assert "cut too fine" in run.err


def test_old_files_are_replaced(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("old")
    assert planner("search", mlp, "--devices", 2, "-o", tmp_path).code == 0
    assert json.loads((tmp_path / "plan.json").read_text())["format"] == "parallel-plan"


def test_options_reach_the_request(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    planner(
        "search", mlp, "--devices", 2, "--batch", 128, "--phase", "infer", "--optimizer", "sgd",
        "--dtype", "fp16", "--memory", "3GiB", "--dataset-strategy", "((2,1),)", "--solver",
        "dynamic_programming", "--effort", 2, "--attention", "decomposed", "-o", tmp_path,
    )  # fmt: skip
    plan = read_plan(tmp_path / "plan.json")
    assert dict(plan.request) == dict(plan.request) | {
        "training": False, "optimizer": "sgd", "dtype": "fp16", "batch": 128, "effort": 2,
        "memory_limit_bytes": 3 * 2**30, "dataset_strategy": [[2, 1]], "fused_attention": False,
        "solver": "dynamic_programming", "target": "mindspore",
    }  # fmt: skip
    assert plan.graph.batch == 128
    assert plan.graph.tensors["x"].dims == (128, 256)
    assert plan.graph.tensors["up"].dtype == "float16"


def test_bindings_give_values_to_dynamic_dimensions(
    dynamic_mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner("search", dynamic_mlp, "--devices", 2, "--bind", "batch=32", "-o", tmp_path)
    assert run.code == 0
    plan = read_plan(tmp_path / "plan.json")
    assert plan.graph.tensors["x"].dims == (32, 256)
    assert plan.request["bind"] == [["batch", 32]]


def test_a_range_of_sizes_is_planned_and_verified(
    dynamic_mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    bind = "batch=8..64/8"
    run = planner("search", dynamic_mlp, "--devices", 8, "--bind", bind, "-o", tmp_path)
    assert run.code == 0
    assert "fits every size of batch=8..64/8; times and memory are those of batch=64" in run.out
    plan = read_plan(tmp_path / "plan.json")
    assert plan.graph.tensors["x"].dims == (64, 256)
    assert plan.graph.tensors["x"].divisors == (8, 256)
    assert plan.request["bind"] == [["batch", bind.removeprefix("batch=")]]
    assert planner("verify", dynamic_mlp, tmp_path / "plan.json").code == 0
    options = ("--devices", 8, "--bind", "batch=4..64/4", "--dataset-strategy", "((8,1),)")
    refused = planner("search", dynamic_mlp, *options)
    assert refused.code == 2
    assert "a multiple of 4 of input 'x' does not split 8 ways" in refused.err


def test_an_unbound_dimension_is_named_with_the_option(dynamic_mlp: Path, planner: Planner) -> None:
    run = planner("search", dynamic_mlp, "--devices", 2)
    assert run.code == 2
    assert "'batch'" in run.err
    assert "--bind" in run.err


def test_stdout_of_the_process_is_json_alone(mlp: Path) -> None:
    command = [sys.executable, "-m", "cli", "search", str(mlp), "--devices", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["status"] == "ok"
    assert done.stderr


def test_the_same_input_gives_the_same_bytes(mlp: Path, tmp_path: Path) -> None:
    found: list[dict[str, bytes]] = []
    for hash_seed in ("0", "1"):
        folder = tmp_path / hash_seed
        options = ["--devices", "8", "-o", str(folder)]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "cli", "search", str(mlp), *options]
        subprocess.run(command, capture_output=True, check=True, env=environment)
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_why_nothing_fits_is_said_before_the_look_for_what_would(
    mlp: Path, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who does not wait for the look has seen why."""

    def left(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cli.other_ways.explained", left)
    run = planner("search", mlp, "--devices", 2, "--memory", "1MiB")
    assert run.code == 130
    assert "available 1 MiB" in run.err
    assert "optimizer state: " in run.err


def test_ctrl_c_during_the_look_ends_it_with_what_was_found(
    mlp: Path, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("search", mlp, "--devices", 2, "--memory", "3MiB", "--json")
    whole = planner(*asked)
    monkeypatch.setattr("planner.explain.fixes._more_devices", _interrupted)
    run = planner(*asked)
    assert (run.code, run.json["status"]) == (1, "infeasible")
    explained = run.json["explanation"]
    assert (explained["interrupted"], explained["complete"]) == (True, False)
    assert "interrupted: not everything was tried" in run.err
    assert "interrupted" not in whole.err
    assert whole.json["explanation"]["complete"]
    fixes = [fix for fix in whole.json["explanation"]["fixes"] if fix["kind"] != "devices"]
    assert explained["fixes"] == fixes
    monkeypatch.setattr("planner.explain.fixes._enough_memory", _interrupted)
    run = planner(*asked)
    assert run.json["explanation"]["fixes"] == []
    assert "interrupted: not everything was tried" in run.err
    assert run.json["remedies"]


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", [["--batch", 64], ["--global-batch", 64, "--pipeline", 2]])
def test_a_type_that_nobody_chose_is_said_in_the_first_lines(
    mlp: Path, step: list[object], planner: Planner, tmp_path: Path
) -> None:
    wide = tmp_path / "wide.onnx"
    made = onnx.load(mlp, load_external_data=False)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for tensor in made.graph.initializer:
        tensor.data_type = onnx.TensorProto.FLOAT
    wide.write_bytes(made.SerializeToString())
    run = planner("search", wide, "--devices", 8, *step)
    assert OWN_TYPE in "\n".join(run.out.splitlines()[:6])
    assert "--dtype bf16" in run.out
    assert run.out.count(OWN_TYPE) == 1
    notes = planner("search", wide, "--devices", 8, *step, "--json").json["notes"]
    assert notes[0].startswith(OWN_TYPE)
    assert OWN_TYPE not in planner("search", wide, "--devices", 8, *step, "--dtype", "fp32").out


def test_the_batch_of_a_step_binds_the_open_batch_whether_the_step_is_cut_or_not(
    dynamic_mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    for option in ("--batch", "--global-batch"):
        given = ["search", dynamic_mlp, "--devices", 8, option, 64]
        plans = []
        for number, more in enumerate(([], ["--bind", "batch=64"])):
            folder = tmp_path / f"{option}{number}"
            run = planner(*given, *more, "-o", folder)
            assert run.code == 0, run.err
            plans.append(folder / "plan.json")
        assert plans[0].read_bytes() == plans[1].read_bytes()
        assert planner("verify", dynamic_mlp, plans[0]).code == 0
