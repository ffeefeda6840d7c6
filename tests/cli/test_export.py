"""`planner export`: the strategy file of a plan, or one clear message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporters.mindspore.strategy import read

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]


@pytest.fixture
def folder(mlp: Path, planner: Planner, tmp_path: Path) -> Path:
    """The output of a search for MindSpore."""
    assert planner("search", mlp, "--devices", 8, "-o", tmp_path / "plan").code == 0
    return tmp_path / "plan"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strategy.ckpt", "strategy.json"])
def test_export_writes_what_search_wrote(name: str, folder: Path, planner: Planner) -> None:
    target = folder.parent / "deep" / name
    run = planner("export", folder / "plan.json", "--format", "mindspore", "-o", target)
    assert (run.code, run.out) == (0, f"{target}\n")
    assert target.read_bytes() == (folder / name).read_bytes()


def test_names_of_the_network_come_from_a_file(
    folder: Path, planner: Planner, tmp_path: Path
) -> None:
    (tmp_path / "names.yaml").write_text(r"[{pattern: '(.*)', name: 'mlp.\1.weight'}]")
    for form, name in (("mindspore", "a.ckpt"), ("mindspore-apply", "a.py")):
        run = planner(
            "export", folder / "plan.json", "--format", form, "--names", tmp_path / "names.yaml",
            "-o", tmp_path / name,
        )  # fmt: skip
        assert run.code == 0
    assert {x.name for x in read(tmp_path / "a.ckpt").layouts} == {
        "mlp.up.weight",
        "mlp.down.weight",
    }
    assert "'mlp.up': {" in (tmp_path / "a.py").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[{pattern: c, name: d}]", "matches no parameter"),
        ("[{pattern: up, name: a}, {pattern: '.*', name: '\\g<0>'}]", "is matched twice"),
        ("[{pattern: '.*', name: one}]", "are both called 'one'"),
        ("[{pattern: up, name: a-b}]", "before a dash"),
        ("{", "neither YAML nor JSON"),
    ],
)
@pytest.mark.parametrize("form", ["mindspore", "mindspore-apply"])
def test_names_that_do_not_fit_write_nothing(
    text: str, what: str, form: str, folder: Path, planner: Planner, tmp_path: Path
) -> None:
    names = tmp_path / "names.yaml"
    names.write_text(text)
    out = tmp_path / "out" / "file"
    run = planner("export", folder / "plan.json", "--format", form, "--names", names, "-o", out)
    assert (run.code, run.out) == (2, "")
    assert what in run.err
    assert f"at:  {names}" in run.err
    assert "fix: " in run.err
    assert not out.parent.exists()


def test_the_step_from_the_checkpoint_alone_is_told(
    folder: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner("export", folder / "plan.json", "-o", tmp_path / "a.ckpt")
    assert "note: from the checkpoint alone a step takes" in run.err
    run = planner(
        "export", folder / "plan.json", "--format", "mindspore-apply", "-o", tmp_path / "a.py"
    )
    assert "alone" not in run.err


def test_the_suffix_chooses_the_form(folder: Path, planner: Planner, tmp_path: Path) -> None:
    planner("export", folder / "plan.json", "-o", tmp_path / "a.json")
    planner("export", folder / "plan.json", "-o", tmp_path / "a.ckpt")
    assert (tmp_path / "a.json").read_text().startswith("{")
    assert {x.name for x in read(tmp_path / "a.ckpt").layouts} == {"up", "down"}


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"format": "parallel-plan"}'])
def test_what_is_no_plan_is_refused(text: str, planner: Planner, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    run = planner("export", tmp_path / "plan.json", "-o", tmp_path / "out" / "strategy.ckpt")
    assert (run.code, run.out) == (2, "")
    assert "plan.json" in run.err
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_a_missing_plan_is_refused(planner: Planner, tmp_path: Path) -> None:
    assert planner("export", tmp_path / "no.json", "-o", tmp_path / "x.ckpt").code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_plan_for_another_target_says_what_is_lost(
    mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    planner("search", mlp, "--devices", 8, "--target", "generic", "-o", tmp_path)
    run = planner("export", tmp_path / "plan.json", "-o", tmp_path / "strategy.ckpt")
    assert run.code == 2
    assert "--target mindspore" in run.err
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_an_unknown_format_is_refused(folder: Path, planner: Planner) -> None:
    run = planner("export", folder / "plan.json", "--format", "mindspor", "-o", folder / "x")
    assert run.code == 2
    assert "did you mean 'mindspore'?" in run.err


def test_a_folder_is_no_output_file(folder: Path, planner: Planner) -> None:
    run = planner("export", folder / "plan.json", "-o", folder)
    assert run.code == 2
    assert "is a folder" in run.err
