"""What is installed: extras say their names where they are missing, and the locks have all."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.MULTILINE)


def pins(name: str) -> set[tuple[str, str]]:
    found = PINNED.findall((ROOT / name).read_text())
    return {(package.lower().replace("_", "-"), version) for package, version in found}


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9_.-]+", each) for each in requirements)
    return {each.group().lower().replace("_", "-") for each in found if each}


def test_the_locks_pin_what_the_project_asks_for() -> None:
    core, extras = PROJECT["dependencies"], PROJECT["optional-dependencies"]
    run, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert names([*core, *extras["plot"]]) <= {name for name, _ in run}
    assert names([*core, *extras["dev"]]) <= {name for name, _ in dev}
    assert names(extras["plot"]) <= names(extras["dev"])
    assert run <= dev


@pytest.mark.fast
@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "plan.json", "--plot", "a.svg"),
        ("layouts", "llama3-8b", "--devices", 8, "--batch", 8, "--plot", "a.png"),
        ("whatif", "MODEL", "--devices", "8,16", "--plot", "a.svg"),
        ("topology", "draw", "dgx-a100", "-o", "a.svg"),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_a_picture_without_matplotlib_names_the_extra_before_any_work(
    arguments: tuple[object, ...],
    planner: Planner,
    mlp: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("planner.requests.option_texts.find_spec", lambda _: None)
    run = planner(*(mlp if each == "MODEL" else each for each in arguments))
    assert (run.code, run.out) == (2, "")
    assert "matplotlib is not installed" in run.err
    assert "fix: pip install 'parallel-planner[plot]'" in run.err
    assert list(tmp_path.glob("a.*")) == []


def test_the_planner_runs_as_a_module(planner: Planner) -> None:
    call = [sys.executable, "-m", "planner", "topology", "show", "dgx-a100"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == planner("topology", "show", "dgx-a100").out
