"""The fast tier, `pytest -m fast`, and the law that it calls every source module.

A test is in it by the marker `fast`, its own or its file's, unless it is marked `slow`; doctests
always are. In the tier files without either are not read, a test of many cases has its first two
(`fast(every=True)`: all), and hypothesis draws a few examples.

While the tier runs, probes keep which modules are called (`tests/probes.py`). A run of the whole
tier that called no function of some source module fails and names it: there is no list to keep, and
a module that is renamed or merged needs nothing. Functions that a module calls while it is loaded
do not count: whether a test loads it or the collection before depends on the order of tests. Only
the tier is asked: among all other tests a function that is cached may have been called by another
test before, whose calls do not count.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.probes import Calls, Finder, callables

_FAST, _SLOW = "fast", "slow"
_CASES, _EXAMPLES = 2, 5


@dataclass
class Run:
    """Files of modules that the fast tests of this run called and loaded; a worker's are handed
    over."""

    calls: Calls = field(default_factory=Calls)
    loaded: set[str] = field(default_factory=set)
    silent: list[str] = field(default_factory=list)

    def gather(self) -> None:
        self.loaded |= {str(getattr(m, "__file__", None)) for m in list(sys.modules.values())}


def packages(root: Path) -> list[Path]:
    """Folders of the source packages."""
    settings_file = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return [root / name for name in settings_file["tool"]["importlinter"]["root_packages"]]


def sources(root: Path, ignored: Iterable[Path]) -> Iterator[Path]:
    """Files of the source packages, but those that only environments of judges can run."""
    away = {path.resolve() for path in ignored}
    for package in packages(root):
        for path in sorted(package.rglob("*.py")):
            if path.name != "__main__.py" and not away & {path, *path.parents}:
                yield path


def silent(root: Path, ignored: Iterable[Path], run: Run) -> list[str]:
    """Source files of which nothing was called, or not even read where there are no functions."""
    return [
        path.relative_to(root).as_posix()
        for path in sources(root, ignored)
        if str(path) not in run.calls.files and (str(path) not in run.loaded or _has_calls(path))
    ]


def _has_calls(path: Path) -> bool:
    return bool(callables(ast.parse(path.read_text(encoding="utf-8"))))


_run: pytest.StashKey[Run] = pytest.StashKey()


def _is_tier(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == _FAST)


def _is_whole(config: pytest.Config) -> bool:
    chosen = config.option.keyword or config.option.deselect or config.option.collectonly
    every = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return every and not chosen and _is_tier(config)


def pytest_configure(config: pytest.Config) -> None:
    run = config.stash[_run] = Run()
    if _is_tier(config):
        sys.meta_path.insert(0, Finder(packages(config.rootpath), run.calls))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not _is_tier(config) or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if "mark.fast" in text or ">>> " in text else True


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.DoctestItem):
        item.add_marker(_FAST)
    test = getattr(item, "obj", None)
    if _is_tier(item.config) and getattr(test, "is_hypothesis_test", False):
        drawn = test._hypothesis_internal_use_settings  # type: ignore[union-attr]
        few = settings(drawn, max_examples=min(drawn.max_examples, _EXAMPLES))
        test._hypothesis_internal_use_settings = few  # type: ignore[union-attr]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _is_tier(config):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker(_SLOW) is None:
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    left = {item for same in cases.values() for item in sorted(same, key=_place)[: _most(same)]}
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = [item for item in items if item in left]


def _most(same: list[pytest.Item]) -> int:
    every = any(mark.kwargs.get("every") for mark in same[0].iter_markers(_FAST))
    return len(same) if every else _CASES


def _place(item: pytest.Item) -> tuple[int, ...]:
    """Where the case stands among those of its test, in whatever order tests are run."""
    case = getattr(item, "callspec", None)
    return tuple(case.indices.values()) if case else ()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not _is_tier(item.config):
        return (yield)
    with item.config.stash[_run].calls:
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    run = node.config.stash[_run]
    called, loaded = getattr(node, "workeroutput", {}).get(_FAST, ((), ()))
    run.calls.files.update(called)
    run.loaded.update(loaded)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config, run = session.config, session.config.stash[_run]
    run.gather()
    if hasattr(config, "workeroutput"):
        config.workeroutput[_FAST] = sorted(run.calls.files), sorted(run.loaded)
    elif exitstatus == pytest.ExitCode.OK and _is_whole(config):
        ignored = [config.rootpath / path for path in config.option.ignore or ()]
        run.silent = silent(config.rootpath, ignored, run)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if run.silent else exitstatus


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for path in config.stash[_run].silent:
        terminalreporter.write_line(f"{path}: no fast test calls a function of it")
