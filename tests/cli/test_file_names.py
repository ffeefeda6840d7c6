"""Files whose names are bytes and no text: what reads and writes them works, and is printed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from importers.model_file import import_model_file

Planner = Callable[..., Any]
SAMPLES = sorted((Path(__file__).parents[1] / "data").glob("[jmt]*/mlp.*"))
BYTES = os.fsdecode(b"net\xff")
SHOWN = "net\\udcff"


@pytest.fixture
def model(mlp: Path, tmp_path: Path) -> Path:
    path = tmp_path / BYTES / f"{BYTES}.onnx"
    try:
        path.parent.mkdir()
    except OSError:
        pytest.skip("file names are text here")
    shutil.copy(mlp, path)
    return path


def test_a_plan_of_such_a_file_goes_everywhere(model: Path, planner: Planner) -> None:
    folder, options = model.parent / "plan", ("--devices", 4, "-o", model.parent / "plan")
    run = planner("search", model, *options, "--json")
    assert run.code == 0, run.err
    assert all(Path(path).is_file() for path in run.json["files"])
    assert json.loads((folder / "plan.json").read_bytes())["graph"]["name"] == SHOWN
    assert SHOWN in planner("search", model, *options).out
    plan = folder / "plan.json"
    for form, suffix in {"jax": ".py", "torch": ".json", "table": ".csv", "html": ".html"}.items():
        run = planner("export", plan, "--format", form, "-o", folder / f"{BYTES}{suffix}")
        assert (run.code, SHOWN in run.out) == (0, True), run.err
        (folder / f"{BYTES}{suffix}").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "MODEL"),
        ("inspect", "MODEL", "--json"),
        ("simulate", "PLAN", "--trace", "NEW.json"),
        ("show", "PLAN"),
        ("diff", "PLAN", "PLAN"),
        ("explain", "PLAN"),
        ("verify", "MODEL", "PLAN"),
        ("sizes", "llama3-8b", "-o", "NEW.json"),
        ("layouts", "llama3-8b", "--devices", "8", "--batch", "8", "--csv", "NEW.csv"),
        (
            "topology",
            "rank-table",
            "--cluster",
            "atlas-800-9000",
            "--devices",
            "8",
            "-o",
            "NEW.json",
        ),
    ],
)
def test_every_command_takes_and_prints_such_names(
    arguments: tuple[str, ...], model: Path, planner: Planner
) -> None:
    planner("search", model, "--devices", 2, "-o", model.parent)
    names = {"MODEL": str(model), "PLAN": str(model.parent / "plan.json")}
    given = [names.get(a, a.replace("NEW", str(model.parent / "new"))) for a in arguments]
    run = planner(*given)
    assert run.code == 0, run.err


@pytest.mark.parametrize("name", ["x.onnx", "x.yaml", "plan.json"])
def test_a_missing_one_is_one_error(name: str, planner: Planner, tmp_path: Path) -> None:
    path = tmp_path / f"{BYTES}{name}"
    found = [
        planner("inspect", path),
        planner("show", path, "--json"),
        planner("search", "llama3-8b", "--devices", 8, "--cluster", path),
    ]
    for run in found:
        assert run.code == 2
        assert "Traceback" not in run.err
        assert SHOWN in run.err


def test_a_name_inside_a_file_that_is_no_text_is_one_error(
    mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    planner("search", mlp, "--devices", 2, "-o", tmp_path)
    plan = tmp_path / "plan.json"
    plan.write_text(plan.read_text().replace('"up"', '"\\ud800"'))
    run = planner("export", plan, "--format", "jax", "-o", tmp_path / "x.json")
    assert run.code == 2
    assert "Traceback" not in run.err
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_way_in_names_a_model_by_text(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{BYTES}{''.join(sample.suffixes)}"
    shutil.copy(sample, path)
    assert import_model_file(path).name == SHOWN
