"""Which source modules have a function that was called: probes in functions, not a profiler.

While an import hook is in place, source modules are loaded with one expression more at the head of
each function that tests can call. It costs a look at a flag, where a profiler takes as long as
the calls that it counts. What is compiled so is kept beside the usual bytecode, under a name of its
own.
"""

from __future__ import annotations

import ast
import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef

_PROBE = "__silent__ and __heard__()"
_TAG = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


class Calls:
    """Files of modules a function of which was called, in any thread, while this was entered; what
    a module calls while it is loaded does not count.
    """

    def __init__(self, files: Iterable[str] = ()) -> None:
        self.files = set(files)
        self._entered = False
        self._thread = threading.local()

    def __enter__(self) -> None:
        self._entered = True

    def __exit__(self, *_: object) -> None:
        self._entered = False

    @contextmanager
    def unheard(self) -> Iterator[None]:
        before = getattr(self._thread, "loads", False)
        self._thread.loads = True
        try:
            yield
        finally:
            self._thread.loads = before

    def hear(self, module: dict[str, Any], file: str) -> None:
        if self._entered and not getattr(self._thread, "loads", False):
            self.files.add(file)
            module["__silent__"] = False


class Finder(MetaPathFinder):
    """Finds modules below the folders and loads them with probes."""

    def __init__(self, folders: Sequence[Path], calls: Calls) -> None:
        self._below = tuple(f"{folder}/" for folder in folders)
        self._calls = calls

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        if not spec.loader.path.startswith(self._below):
            return None
        spec.loader = _Loader(fullname, spec.loader.path, self._calls)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, calls: Calls) -> None:
        super().__init__(fullname, path)
        self._calls = calls

    def exec_module(self, module: ModuleType) -> None:
        names = vars(module)
        names["__silent__"] = True
        names["__heard__"] = lambda: self._calls.hear(names, self.path)
        with self._calls.unheard():
            super().exec_module(module)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        return super().source_to_code(with_probes(data), path, _optimize=_optimize)

    def get_data(self, path: str) -> bytes:
        return super().get_data(_own(path))

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        super().set_data(_own(path), data, _mode=_mode)


def _own(path: str) -> str:
    """Where bytecode with probes is kept."""
    return f"{path[: -len('pyc')]}probes-{_TAG}.pyc" if path.endswith(".pyc") else path


def with_probes(source: str | bytes) -> ast.Module:
    """The module, each function of which that tests can call begins with a probe."""
    tree = ast.parse(source)
    for function in callables(tree):
        place = 1 if ast.get_docstring(function, clean=False) is not None else 0
        (probe,) = ast.parse(_PROBE).body
        for part in ast.walk(probe):
            ast.copy_location(part, function.body[place])
        function.body.insert(place, probe)
    return tree


def callables(tree: ast.Module) -> list[Function]:
    """What a test must call one of: none if all are stubs, compiled or run on loading."""
    found = [each for each in ast.walk(tree) if isinstance(each, Function)]
    called = [each for each in found if not _is_stub(each) and not _is_compiled(each)]
    return called if {each.name for each in called} - _run_on_loading(tree) else []


def _run_on_loading(tree: ast.Module) -> set[str]:
    """Functions of the module that its own statements call, and those that these call."""
    bodies = {each.name: each for each in tree.body if isinstance(each, Function)}
    left: list[ast.AST] = list(_statements(tree))
    reached: set[str] = set()
    while left:
        part = left.pop()
        calls = [part, *(each.func for each in ast.walk(part) if isinstance(each, ast.Call))]
        named = {call.id for call in calls if isinstance(call, ast.Name)} & bodies.keys()
        left += [bodies[name] for name in named - reached]
        reached |= named
    return reached


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    for each in tree.body:
        if isinstance(each, Function | ast.ClassDef):
            yield from each.decorator_list
        else:
            yield each


def _is_stub(function: Function) -> bool:
    return all(
        isinstance(line, ast.Raise | ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in function.body
    )


def _is_compiled(function: Function) -> bool:
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)
