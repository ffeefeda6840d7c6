"""`planner export` to every format: what it writes, what it says is lost, what it refuses."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.export import EXPORT_FORMATS
from exporters import jax, torch
from exporters.formats import FORMATS, TARGET_FILES
from exporters.sharding import sharding_of
from ir.dialects import TARGETS
from ir.plan_file import read_plan

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]


@pytest.fixture(scope="module")
def searched(mlp: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan for any target."""
    from typer.testing import CliRunner  # noqa: PLC0415

    from cli.main import app  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("searched")
    arguments = ["search", str(mlp), "--devices", "8", "--target", "jax", "-o", str(folder)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    return folder / "plan.json"


def test_the_command_knows_the_table_of_formats() -> None:
    assert tuple(FORMATS) == EXPORT_FORMATS
    assert set(TARGET_FILES) <= set(TARGETS)
    assert {form for files in TARGET_FILES.values() for form in files.values()} <= set(FORMATS)


def test_help_names_every_format(planner: Planner) -> None:
    words = planner("export", "--help").out.replace(",", " ").split()
    assert [name for name in FORMATS if name not in words] == []


@pytest.mark.slow
@pytest.mark.parametrize(("form", "read"), [("jax", jax.from_json), ("torch", torch.from_json)])
def test_json_comes_back_as_the_layouts_of_the_plan(
    form: str, read: Callable[[str], object], searched: Path, planner: Planner, tmp_path: Path
) -> None:
    target = tmp_path / "deep" / "layouts.json"
    run = planner("export", searched, "--format", form, "-o", target)
    assert (run.code, run.out) == (0, f"{target}\n")
    assert read(target.read_text()) == sharding_of(read_plan(searched))


@pytest.mark.parametrize("form", ["jax", "torch"])
def test_modules_need_no_framework_to_be_imported(
    form: str, searched: Path, planner: Planner, tmp_path: Path
) -> None:
    planner("export", searched, "--format", form, "-o", tmp_path / "layouts.py")
    tree = ast.parse((tmp_path / "layouts.py").read_text())
    assert [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)] == []
    names: dict[str, Any] = {}
    exec(compile(tree, "layouts.py", "exec"), names)
    assert set(names["PARAMETERS"]) == {"up", "down"}


@pytest.mark.parametrize(
    ("form", "name", "start"),
    [
        ("table", "t.csv", "what,name,kind"),
        ("html", "report.html", "<!doctype html>"),
    ],
)
def test_people_get_their_files(
    form: str, name: str, start: str, searched: Path, planner: Planner, tmp_path: Path
) -> None:
    assert planner("export", searched, "--format", form, "-o", tmp_path / name).code == 0
    assert (tmp_path / name).read_text().startswith(start)


def test_losses_are_told_on_stderr(plan: Any, planner: Planner, tmp_path: Path) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from ir.plan_file import plan_to_json  # noqa: PLC0415

    told = replace(plan, digest=plan.graph.digest())
    (tmp_path / "plan.json").write_text(plan_to_json(told))
    run = planner("export", tmp_path / "plan.json", "--format", "jax", "-o", tmp_path / "a.json")
    assert run.code == 0
    assert "note: between operators the plan leaves the terms of a sum apart in 2" in run.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "jax", "-o", "a.txt"], "ends in .json or .py"),
        (["--format", "torch", "-o", "a"], "ends in .json or .py"),
        (["--format", "megatron", "-o", "a"], "the model has no attention"),
        (["--format", "jacks", "-o", "a.json"], "did you mean 'jax'?"),
        (["--format", "jax", "-o", "a.json", "--names", "llama"], "jax takes no names"),
        (["--format", "jax", "-o", "a.json", "--set", "a=b"], "jax takes no settings"),
        (["--format", "launch", "-o", "a", "--set", "prot=1"], "did you mean 'port'?"),
        (["--format", "launch", "-o", "a", "--set", "port"], "write NAME=VALUE"),
    ],
)
def test_what_cannot_be_written_leaves_nothing(
    arguments: list[str],
    words: str,
    searched: Path,
    planner: Planner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = planner("export", searched, *arguments)
    assert (run.code, run.out) == (2, "")
    assert words in run.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_plan_of_a_newer_version_is_refused(
    form: str, searched: Path, planner: Planner, tmp_path: Path
) -> None:
    data = json.loads(searched.read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**data, "version": 2}))
    target = tmp_path / f"x{next(iter(FORMATS[form].suffixes), '.json')}"
    run = planner("export", tmp_path / "plan.json", "--format", form, "-o", target)
    assert (run.code, run.out) == (2, "")
    assert "has version 2, this program reads version 1" in run.err
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
