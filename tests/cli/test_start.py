"""The command starts fast, and its help says what there is."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import parallel_planner
from costmodel.memory import Optimizer
from ir.dialects import TARGETS
from planner.solvers import SOLVERS

COMMANDS = ("search", "inspect", "show", "diff", "export")
HEAVY = ("google.protobuf", "networkx", "numpy", "onnx", "ortools", "rich", "yaml")
OURS = ("costmodel", "data", "exporters", "importers", "ir", "report", "service", "topology")
LIGHT = (
    "collector", "errors", "option_texts", "options", "options.explanations", "options.option",
    "options.recipes", "options.searches", "options.simulations", "options.sweeps", "sources",
    "verification",
)  # fmt: skip
"""Modules of planner.requests that check the options' texts."""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def loaded(names: tuple[str, ...]) -> str:
    """Source of an expression: those of the names that are loaded, and what is of the planner
    beside the light modules.
    """
    light = ["planner", "planner.requests", *(f"planner.requests.{name}" for name in LIGHT)]
    return (
        f"[m for m in {names!r} if m in sys.modules] + "
        f"[m for m in sys.modules if m.split('.')[0] == 'planner' and m not in {light!r}]"
    )


def test_importing_the_command_loads_not_even_pydantic() -> None:
    names = (*HEAVY, *OURS, "pydantic")
    assert python(f"import sys, cli.main\nprint({loaded(names)})") == "[]\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["search", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    out = python(
        "import sys\nfrom cli.main import app\n"
        f"try: app({arguments!r})\nexcept SystemExit: pass\n"
        f"print('loaded', {loaded(HEAVY + OURS)})"
    )
    assert out.endswith("loaded []\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_three_examples(
    command: str, planner: Callable[..., Any]
) -> None:
    text = planner(command, "--help").out
    examples = [line for line in text.splitlines() if line.startswith(f"    planner {command} ")]
    assert len(examples) == 3, text
    assert "Exit status" in text


@pytest.mark.fast
def test_every_option_is_explained(planner: Callable[..., Any]) -> None:
    for command in COMMANDS:
        run = planner(command, "--help-all")
        lines = (run if run.code == 0 else planner(command, "--help")).out.splitlines()
        for index, line in enumerate(lines):
            if line.startswith("  -"):
                explained = len(line.split("  ")) > 2 or lines[index + 1].startswith(" " * 20)
                assert explained, line


@pytest.mark.fast
@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("--target", tuple(TARGETS)),
        ("--solver", tuple(SOLVERS)),
        ("--optimizer", tuple(o.value for o in Optimizer)),
    ],
)
def test_help_names_everything_that_is_registered(
    option: str, names: tuple[str, ...], planner: Callable[..., Any]
) -> None:
    text = planner("search", "--help-all").out
    words = text[text.index(option) :].split("--", 2)[1]
    assert [n for n in names if n not in words] == []


def test_version_is_printed(planner: Callable[..., Any]) -> None:
    run = planner("--version")
    assert run.code == 0
    assert run.out.startswith("planner ")


def test_without_a_command_three_things_that_can_be_done_are_shown(
    planner: Callable[..., Any],
) -> None:
    run = planner()
    assert (run.code, run.err) == (0, "")
    commands = [line.split() for line in run.out.splitlines() if line.startswith("    planner ")]
    assert [words[1] for words in commands] == ["search", "layouts", "simulate"]
    assert "planner --help" in run.out


@pytest.mark.parametrize("number", range(3))
def test_what_is_shown_first_runs_as_it_stands(
    number: int, planner: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for line in planner().out.splitlines() if line.startswith("    planner ")]
    run = planner(*lines[number].split()[1:])
    assert run.code == 0, run.err


ROOT = Path(parallel_planner.__file__).parent


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_script_looks_up_every_package_of_the_wheel() -> None:
    found = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*found} == {*parallel_planner.PACKAGES, "parallel_planner.py"}


@pytest.mark.parametrize(
    "code", ["{script}", "import parallel_planner; import service.work.worker"]
)
def test_folders_of_the_same_names_do_not_hide_the_planner(code: str, tmp_path: Path) -> None:
    for name in parallel_planner.PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('the {name} of somebody')")
    module, _, function = project()["project"]["scripts"]["planner"].partition(":")
    script = f"import sys\nfrom {module} import {function}\nsys.exit({function}())"
    done = subprocess.run(
        [sys.executable, "-c", code.format(script=script), "--version"], cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((".", str(ROOT)))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "cli.py").write_text("raise SystemExit('the cli of somebody')")
    command = [sys.executable, "-P", "-m", "parallel_planner", "cli", "--version"]
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("planner "), done.stderr
