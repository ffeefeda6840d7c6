"""The law of the fast tier fails a run that leaves a source module silent, and names it."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fast_tier import Run, silent, sources
from tests.probes import Calls, callables, with_probes

ROOT = Path(__file__).parents[1]
FILES = {
    "pyproject.toml": """
[tool.importlinter]
root_packages = ["house"]
[tool.pytest.ini_options]
testpaths = ["checks"]
pythonpath = ["."]
addopts = ["--import-mode=importlib", "--doctest-modules", "-p", "no:cacheprovider"]
markers = ["fast: as here", "slow: as here"]
""",
    "house/called.py": "def one():\n    return 1\n",
    "house/imported.py": "TEN = 10\ndef ten():\n    return TEN\n",
    "house/loading.py": """
def half():
    return 1
def two():
    return 2 * half()
TWO = two()
""",
    "house/mostly.py": "def five():\n    return 5\ndef six():\n    return 6\nFIVE = five()\n",
    "house/names.py": "TWO = 2\n",
    "house/threads.py": "def three():\n    return 3\n",
    "checks/test_some.py": """
import threading, pytest
from hypothesis import given, strategies as st
from house.called import one
from house.names import TWO
import house.imported, house.threads
drawn = []

@pytest.mark.fast
def test_one():
    import house.loading, house.mostly
    assert one() == 1
    thread = threading.Thread(target=house.threads.three)
    thread.start()
    thread.join()

@given(st.integers())
def test_left_out(number):
    raise AssertionError

@pytest.mark.fast
@pytest.mark.parametrize("case", range(9))
def test_has_two_cases(case):
    assert case < 2

@pytest.mark.fast
@given(st.integers())
def test_draws(number):
    drawn.append(number)
    assert len(drawn) <= 5

@pytest.mark.fast
@pytest.mark.slow
def test_waits_for_the_whole_run():
    raise AssertionError
""",
    "checks/test_unread.py": "raise AssertionError\n",
}


def written(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def tier(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-m", "fast", "-p", "tests.fast_tier", *arguments]
    paths = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        command, cwd=folder, env=paths, text=True, capture_output=True, check=False
    )


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_module_that_is_only_imported_fails_the_run(tmp_path: Path, workers: str) -> None:
    found = tier(written(tmp_path), "-n", workers)
    assert found.returncode == pytest.ExitCode.TESTS_FAILED, found.stdout + found.stderr
    named = [line for line in found.stdout.splitlines() if "no fast test calls" in line]
    assert [line.split(":")[0] for line in named] == ["house/imported.py", "house/mostly.py"]
    assert "4 passed" in found.stdout


def test_a_part_of_the_tier_is_not_asked(tmp_path: Path) -> None:
    found = tier(written(tmp_path), "-n", "0", "checks/test_some.py")
    assert found.returncode == pytest.ExitCode.OK, found.stdout + found.stderr


def test_what_was_called_or_has_no_functions_is_not_named(tmp_path: Path) -> None:
    root = written(tmp_path)
    files = {str(path) for path in sources(root, [])}
    assert silent(root, [], Run(Calls(files), files)) == []
    assert silent(root, [], Run(Calls(), files)) == [
        "house/called.py",
        "house/imported.py",
        "house/mostly.py",
        "house/threads.py",
    ]
    assert list(sources(root, [root / "house"])) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    return 1\n", {"f"}),
        ("class A:\n    async def f(self):\n        '''Says.'''\n        return 1\n", {"f"}),
        ("class A:\n    def f(self):\n        '''Says.'''\n", set()),
        ("class A:\n    def f(self): ...\n", set()),
        ("@njit(cache=True)\ndef f():\n    return 1\n", set()),
        ("A = 1\n", set()),
        ("def f():\n    return 1\nA = [f() for _ in (1, 2)]\n", set()),
        ("def f():\n    return g()\ndef g():\n    return 1\nA = f()\n", set()),
        ("def f(g):\n    return g\n@f\ndef g():\n    return 1\n", {"f", "g"}),
    ],
)
def test_what_can_be_called(text: str, found: set[str]) -> None:
    assert {each.name for each in callables(ast.parse(text))} == found


def test_probes_hear_the_first_call_of_a_module_and_change_no_docstring() -> None:
    text = "def f(a):\n    'Says.'\n    return a\n\nasync def g(a):\n    return a\n"
    calls, names = Calls(), dict[str, Any](__silent__=True)
    names["__heard__"] = lambda: calls.hear(names, "some.py")
    exec(compile(with_probes(text), "some.py", "exec"), names)
    assert names["f"](1) == 1
    assert not calls.files
    with calls:
        with calls.unheard():
            assert names["f"](1) == 1
        assert not calls.files
        assert asyncio.run(names["g"](2)) == 2
    assert calls.files == {"some.py"}
    assert (names["__silent__"], names["f"].__doc__) == (False, "Says.")
