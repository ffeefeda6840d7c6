"""Settings of a Python configuration: its literals, from the syntax tree; nothing is executed.

Read are assignments such as `cfg.model.tensor_model_parallel_size = 4`, keywords of nested calls
such as `parallelism=ParallelismConfig(tensor_parallel_degree=8)`, and constants of the module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from importers.errors import ModelError
from importers.recipes.arithmetic import operation
from ir.recipes.forms import Scalar
from ir.recipes.recipe import Given, RecipeFile, Span

__all__ = ["python_file"]

_CONFIGS = frozenset({"cfg", "config", "self", "recipe"})
_MOST_DEPTH = 16


def python_file(
    name: str, text: str, function: str = "", others: Mapping[str, str] | None = None
) -> RecipeFile:
    """The settings of a file, or of one function of it.

    Args:
        name: of the file.
        text: of the file.
        function: whose settings; all if empty.
        others: further files by name, in which functions that it starts from may be.

    Raises:
        ModelError: no Python, no such function, or one must be chosen.
    """
    tree = _parsed(text, name)
    functions = _functions(tree)
    setting = [each for each, node in functions.items() if _sets(node)]
    if function and function not in functions:
        raise ModelError(
            f"{name} has no function {function}", name,
            f"name one of {', '.join(setting[:12])}" if setting else "name another file",
        )  # fmt: skip
    if not function and sum(map(_is_recipe, setting)) > 1:
        usual = next(each for each in setting if _is_recipe(each))
        raise ModelError(
            f"{name} has {len(setting)} recipes: {', '.join(setting[:12])}", name,
            f"name one, such as {name}:{usual}",
        )  # fmt: skip
    first = _Reading(text, others or {})
    chosen = {function: functions[function]} if function else functions
    reading = _Reading(text, others or {}, known=first.known)
    for each in (first, reading):  # names may be given behind the place where they are used
        each.module(tree)
        for own, node in chosen.items():
            each.function(own, node, 0)
        if not function:
            each.loose(tree)
    return RecipeFile(name, "python", text, tuple(reading.given), tuple(reading.remarks), -1)


def _parsed(text: str, name: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = getattr(error, "msg", None) or str(error)
        raise ModelError(f"{name} is no Python: {what}", name, "mend the file") from error


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _sets(node: ast.FunctionDef) -> bool:
    return any(
        isinstance(line, ast.Assign | ast.Return)
        and isinstance(line.value, ast.Call | ast.Constant)
        for line in ast.walk(node)
    )


def _is_recipe(name: str) -> bool:
    return re.search("[0-9]", name) is not None and not name.startswith("_")


@dataclass(slots=True)
class _Reading:
    text: str
    others: Mapping[str, str]
    given: list[Given] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    known: dict[str, Scalar] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    made: dict[str, ast.Call] = field(default_factory=dict)
    """What variables were set to by a call."""

    def module(self, tree: ast.Module) -> None:
        """Constants of the module."""
        for line in tree.body:
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                self._value(line.targets[0].id, line.value, 0)

    def loose(self, tree: ast.Module) -> None:
        """Calls outside of functions, such as those that a script starts with."""
        for line in tree.body:
            if not isinstance(line, ast.FunctionDef | ast.ClassDef | ast.Assign):
                for call in (n for n in ast.walk(line) if isinstance(n, ast.Call)):
                    for keyword in call.keywords:
                        if keyword.arg:
                            self._value(keyword.arg, keyword.value, 0)

    def function(self, name: str, node: ast.FunctionDef, depth: int) -> None:
        """What a function assigns to a configuration, or returns."""
        self._add("recipe", name, node)
        for line in node.body:
            if isinstance(line, ast.Assign) and len(line.targets) == 1:
                target = _path(line.targets[0])
                if target and target.split(".")[0] in _CONFIGS and "." in target:
                    self._value(target.partition(".")[2], line.value, 0)
                elif isinstance(line.value, ast.Call):
                    self.made[target] = line.value
                    self._start(line.value, depth, whole=target in _CONFIGS)
                elif target and "." not in target:
                    self._value(target, line.value, 0)
            elif isinstance(line, ast.Return) and isinstance(line.value, ast.Call):
                self._start(line.value, depth)
            elif isinstance(line, ast.Expr) and isinstance(line.value, ast.Call):
                called = _path(line.value.func)
                self.remarks.append(f"line {line.lineno}: {called}(...) is not followed")

    def _start(self, call: ast.Call, depth: int, *, whole: bool = True) -> None:
        """A configuration that is made: the one that it starts from, and its keywords.

        What is no whole configuration counts where it is put into one.
        """
        folder, _, called = _path(call.func).rpartition(".")
        numbered = re.search("[0-9]", called) is not None
        if called[:1].islower() and (numbered or re.search("[0-9]", folder)):
            self._add("base", called if numbered else f"{folder}.{called}", call)
        if called[:1].islower() or called.startswith("_"):
            self._follow(called, depth, told=numbered)
        if not whole:
            return
        for inner in (call, *(n for n in ast.walk(call.func) if isinstance(n, ast.Call))):
            for keyword in inner.keywords:
                if keyword.arg:
                    self._value(keyword.arg, keyword.value, 0)

    def _follow(self, called: str, depth: int, *, told: bool) -> None:
        texts = {"": self.text, **self.others}
        for name, text in texts.items() if depth < _MOST_DEPTH else ():
            found = _functions(_parsed(text, name)).get(called)
            if found is not None:
                before = list(self.given)
                self.given.clear()
                own, self.text = self.text, text
                self.starts.clear()
                self.function(called, found, depth + 1)
                self.text = own
                self.starts.clear()
                inner = [
                    g if not name else Given(g.name, g.value, g.line, None) for g in self.given
                ]
                self.given[:] = [*inner, *before]
                return
        if told:
            self.remarks.append(f"settings of {called} are not in the files: name its file too")

    def _value(self, path: str, node: ast.expr, depth: int) -> None:
        """Record a literal, or the keywords of a call under its name."""
        if depth > _MOST_DEPTH:
            return
        if isinstance(node, ast.Call):
            self._made(path, node, depth)
            return
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._value(f"{path}.{key.value}", value, depth + 1)
            return
        if isinstance(node, ast.Name) and node.id in self.made:
            self._value(path, self.made[node.id], depth + 1)
            return
        known, found = self._number(node)
        if known:
            self._add(path, found, node)
            self.known[path.rpartition(".")[2]] = found

    def _made(self, path: str, node: ast.Call, depth: int) -> None:
        """Record what a call makes, and its keywords under its name."""
        literal = node.args[0] if len(node.args) == 1 else None
        if isinstance(literal, ast.Constant):
            self._add(path, _literal(literal), literal)
        else:
            self._add(path, _called(node), node)
        for keyword in node.keywords:
            if keyword.arg:
                self._value(f"{path}.{keyword.arg}", keyword.value, depth + 1)

    def _number(self, node: ast.expr) -> tuple[bool, Scalar]:
        """The value of an expression of literals and known names, and whether it has one."""
        if isinstance(node, ast.Constant):
            return True, _literal(node)
        if isinstance(node, ast.List | ast.Tuple):
            parts = [
                (True, _called(each)) if isinstance(each, ast.Call) else self._number(each)
                for each in node.elts
            ]
            return all(known for known, _ in parts), [value for _, value in parts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            known, value = self._number(node.operand)
            return known and isinstance(value, int | float), (
                -value if isinstance(value, int | float) else None
            )
        if isinstance(node, ast.BinOp):
            one, other = self._number(node.left)[1], self._number(node.right)[1]
            if isinstance(one, int | float) and isinstance(other, int | float):
                found = operation(node.op, one, other)
                return found is not None, found
            return False, None
        if isinstance(node, ast.Name):
            return node.id in self.known, self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            return True, self.known.get(node.attr, node.attr)
        return False, None

    def _add(self, name: str, value: Scalar, node: ast.AST) -> None:
        self.given.append(Given(name, value, getattr(node, "lineno", 1), self._span(node)))

    def _span(self, node: ast.AST) -> Span | None:
        end = getattr(node, "end_col_offset", None)
        if end is None or not isinstance(node, ast.expr):
            return None
        if not self.starts:
            self.starts = list(_line_starts(self.text))
        lines = self.starts
        first, last = lines[node.lineno - 1], lines[(node.end_lineno or node.lineno) - 1]
        return Span(first + node.col_offset, last + end) if self.text.isascii() else None


def _line_starts(text: str) -> Iterator[int]:
    at = 0
    for line in text.split("\n"):
        yield at
        at += len(line) + 1


def _path(node: ast.expr) -> str:
    """Names with dots between, such as `cfg.model.seq_length`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_path(node.value)}.{node.attr}".lstrip(".")
    if isinstance(node, ast.Call):
        return _path(node.func)
    return ""


def _called(node: ast.Call) -> str:
    """What a call makes: `FullAC.Config()` of a class inside another, else the name alone."""
    path = _path(node.func)
    return f"{path}()" if path.endswith(".Config") else path.split(".")[0]


def _literal(node: ast.Constant) -> Scalar:
    value = node.value
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
