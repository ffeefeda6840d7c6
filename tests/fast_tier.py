"""The fast tier, `pytest -m fast`, and the law that it calls every source module.

A test is in it by the marker `fast`, its own or its file's, unless it is marked `slow`; doctests
always are. In the tier files without either are not read, a test of many cases has its first two
(`fast(every=True)`: all), and hypothesis draws a few examples.

While the tier runs, a profiler keeps which functions are called. A run of the whole tier that
called no function of some source module fails and names it: there is no list to keep, and a module
that is renamed or merged needs nothing. Functions that a module calls while it is loaded do not
count: whether a test loads it or the collection before depends on the order of tests. Only the tier
is asked: among all other tests a function that is cached may have been called by another test
before, whose calls do not count.
"""

from __future__ import annotations

import ast
import cProfile
import sys
import threading
import tomllib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from hypothesis import settings

_FAST, _SLOW = "fast", "slow"
_CASES, _EXAMPLES = 2, 5
_IS_FUNCTION = 1
"""The flag of a function's code: bodies of modules and classes lack it."""


class Calls:
    """Functions that are called, in this thread and in those that it starts, but on loading."""

    def __init__(self) -> None:
        self._own = cProfile.Profile(builtins=False)
        self._threads: list[cProfile.Profile] = []
        self._of_thread = threading.local()
        self._load = SourceFileLoader.exec_module

    def __enter__(self) -> None:
        threading.setprofile(self._follow)

        def unheard(loader: Any, module: ModuleType) -> None:
            self._unheard(loader, module)

        SourceFileLoader.exec_module = unheard  # type: ignore[assignment, method-assign]
        self._enable(self._own)

    def __exit__(self, *_: object) -> None:
        self._own.disable()
        SourceFileLoader.exec_module = self._load  # type: ignore[method-assign]
        threading.setprofile(None)

    def _enable(self, profile: cProfile.Profile) -> None:
        self._of_thread.profile = profile
        profile.enable()

    def _follow(self, *_: object) -> None:
        self._threads.append(cProfile.Profile(builtins=False))
        self._enable(self._threads[-1])

    def _unheard(self, loader: SourceFileLoader, module: ModuleType) -> None:
        profile = getattr(self._of_thread, "profile", None)
        self._of_thread.profile = None
        if profile:
            profile.disable()
        try:
            self._load(loader, module)
        finally:
            self._of_thread.profile = profile
            if profile:
                profile.enable()

    def functions(self) -> set[tuple[str, str]]:
        """File and name of each."""
        entries = [e for profile in (self._own, *self._threads) for e in profile.getstats()]
        return {
            (entry.code.co_filename, entry.code.co_name)
            for entry in entries
            if isinstance(entry.code, CodeType) and entry.code.co_flags & _IS_FUNCTION
        }


@dataclass
class Run:
    """What the fast tests of this run called, by file and name, and loaded, by file; a worker's is
    handed over."""

    calls: Calls = field(default_factory=Calls)
    called: set[tuple[str, str]] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    silent: list[str] = field(default_factory=list)

    def gather(self) -> None:
        self.called |= self.calls.functions()
        self.loaded |= {str(getattr(m, "__file__", None)) for m in list(sys.modules.values())}


def sources(root: Path, ignored: Iterable[Path]) -> Iterator[Path]:
    """Files of the source packages, but those that only environments of judges can run."""
    settings_file = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    away = {path.resolve() for path in ignored}
    for package in settings_file["tool"]["importlinter"]["root_packages"]:
        for path in sorted((root / package).rglob("*.py")):
            if path.name != "__main__.py" and not away & {path, *path.parents}:
                yield path


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> set[str]:
    """Names of what a test must call one of: none if all are stubs, compiled or run on loading."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [each for each in ast.walk(tree) if isinstance(each, _Function)]
    names = {f.name for f in found if not _is_stub(f) and not _is_compiled(f)}
    return names if names - _run_on_loading(tree) else set()


def _run_on_loading(tree: ast.Module) -> set[str]:
    """Functions of the module that its own statements call, and those that these call."""
    bodies = {each.name: each for each in tree.body if isinstance(each, _Function)}
    statements = [each for each in tree.body if not isinstance(each, _Function | ast.ClassDef)]
    decorators = [line for each in tree.body if isinstance(each, _Function | ast.ClassDef)
                  for line in each.decorator_list]  # fmt: skip
    reached: set[str] = set()
    left: list[ast.AST] = [*statements, *decorators]
    while left:
        part = left.pop()
        calls = [part, *(each.func for each in ast.walk(part) if isinstance(each, ast.Call))]
        named = {call.id for call in calls if isinstance(call, ast.Name)} & bodies.keys()
        left += [bodies[name] for name in named - reached]
        reached |= named
    return reached


def _is_stub(function: _Function) -> bool:
    return all(
        isinstance(line, ast.Raise | ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in function.body
    )


def _is_compiled(function: _Function) -> bool:
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


def silent(root: Path, ignored: Iterable[Path], run: Run) -> list[str]:
    """Source files of which nothing was called, or not even read where there are no functions."""
    called: dict[str, set[str]] = {}
    for file, name in run.called:
        called.setdefault(file, set()).add(name)
    return [
        path.relative_to(root).as_posix()
        for path in sources(root, ignored)
        if not _is_used(path, called.get(str(path), set()), run.loaded)
    ]


def _is_used(path: Path, called: set[str], loaded: set[str]) -> bool:
    asked = functions(path)
    return bool(asked & called) if asked else str(path) in loaded


_run: pytest.StashKey[Run] = pytest.StashKey()


def _is_tier(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == _FAST)


def _is_whole(config: pytest.Config) -> bool:
    chosen = config.option.keyword or config.option.deselect or config.option.collectonly
    every = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return every and not chosen and _is_tier(config)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_run] = Run()


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
    run.called.update((file, name) for file, name in called)
    run.loaded.update(loaded)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config, run = session.config, session.config.stash[_run]
    run.gather()
    if hasattr(config, "workeroutput"):
        config.workeroutput[_FAST] = sorted(run.called), sorted(run.loaded)
    elif exitstatus == pytest.ExitCode.OK and _is_whole(config):
        ignored = [config.rootpath / path for path in config.option.ignore or ()]
        run.silent = silent(config.rootpath, ignored, run)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if run.silent else exitstatus


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for path in config.stash[_run].silent:
        terminalreporter.write_line(f"{path}: no fast test calls a function of it")
