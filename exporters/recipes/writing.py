"""The files of a recipe: settings of a table, in the syntax of the framework."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from ir.recipes.forms import Scalar
from ir.recipes.quantities import Value
from ir.recipes.table import FileKind, Framework

__all__ = ["recipe_files", "scalar_text"]


def recipe_files(
    found: Framework, values: Mapping[str, Value], comments: Sequence[str] = ()
) -> dict[str, str]:
    """The files of a framework by name.

    Args:
        found: the table of the framework.
        values: quantities of the recipe.
        comments: lines that stand at the head of the first file that can have comments.
    """
    settings = found.written(values)
    files = {}
    left = tuple(comments)
    for number, kind in enumerate(found.files):
        own = settings.get(number, {})
        head = (f"{found.title}: {found.release}", *left) if kind.syntax != "json" else ()
        left = left if kind.syntax == "json" else ()
        files[kind.name] = _text(kind, found, own, values, head)
    return files


def _text(
    kind: FileKind,
    found: Framework,
    settings: Mapping[str, Scalar],
    values: Mapping[str, Value],
    head: Sequence[str],
) -> str:
    comments = [f"# {' '.join(line.split())}" for line in head]
    if kind.syntax == "json":
        return json.dumps(_tree(settings), indent=2) + "\n"
    if kind.syntax == "yaml":
        return "\n".join([*comments, *_yaml(_tree(settings), 0)]) + "\n"
    if kind.syntax == "toml":
        return "\n".join([*comments, *_toml(settings)]) + "\n"
    if kind.syntax == "python":
        return "\n".join([*comments, *_python(kind, settings, values)]) + "\n"
    return "\n".join(["#!/bin/bash", *comments, *_script(kind, found, settings, values)]) + "\n"


def _python(
    kind: FileKind, settings: Mapping[str, Scalar], values: Mapping[str, Value]
) -> Iterator[str]:
    """A function that changes a configuration of the framework's own."""
    model = str(values.get("model", ""))
    module, _, base = kind.bases.get(model, "").rpartition(".")
    yield from ("", *kind.imports, "")
    if not base:
        yield f"# The framework has no configuration of {model or 'this model'}: give one."
        module, base = "my_configs", "my_config"
    yield from (f"from {module} import {base}", "", "")
    yield f"def train() -> {kind.returns}:"
    yield f"    config = {base}()"
    for path, value in settings.items():
        yield f"    config.{path} = {scalar_text(value, 'python')}"
    yield "    return config"


def _tree(settings: Mapping[str, Scalar]) -> dict[str, object]:
    """Settings by path as nested mappings."""
    tree: dict[str, object] = {}
    for path, value in settings.items():
        *folders, name = path.split(".")
        here = tree
        for folder in folders:
            inner = here.setdefault(folder, {})
            assert isinstance(inner, dict)
            here = inner
        here[name] = value
    return tree


def _yaml(tree: Mapping[str, object], depth: int) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield f"{'  ' * depth}{name}:"
            yield from _yaml(value, depth + 1)
        else:
            yield f"{'  ' * depth}{name}: {scalar_text(value, 'yaml')}"


def _toml(settings: Mapping[str, Scalar]) -> Iterator[str]:
    tables: dict[str, list[str]] = {}
    for path, value in settings.items():
        table, _, name = path.rpartition(".")
        tables.setdefault(table, []).append(f"{name} = {scalar_text(value, 'toml')}")
    for table, lines in tables.items():
        yield from ("", f"[{table}]", *lines)


def scalar_text(value: object, syntax: str) -> str:
    """A value as a file of a syntax has it.

    >>> scalar_text(True, "yaml"), scalar_text("no", "yaml"), scalar_text(True, "python")
    ('true', '"no"', 'True')
    """
    if syntax == "shell":
        return shlex.quote(str(value).lower() if isinstance(value, bool) else str(value))
    if syntax == "python":
        code = isinstance(value, str) and (value.endswith("()") or value == "null")
        return str(value).replace("null", "None") if code else repr(value)
    return json.dumps(value)


_LAUNCHERS = {
    "torchrun": "torchrun --nnodes {nodes} --nproc-per-node {each} --node-rank ${{NODE_RANK:-0}} "
    "--master-addr ${{MASTER_ADDR:-localhost}} --master-port ${{MASTER_PORT:-29500}}",
    "deepspeed": "deepspeed --num_nodes {nodes} --num_gpus {each}",
    "accelerate": "accelerate launch --config_file accelerate.yaml",
    "msrun": "msrun --worker_num {devices} --local_worker_num {each} --node_rank ${{NODE_RANK:-0}} "
    "--master_addr ${{MASTER_ADDR:-127.0.0.1}} --master_port ${{MASTER_PORT:-8118}}",
    "python3": "python3",
}  # fmt: skip
"""How each starts the processes of a job, on every server."""


def _script(
    kind: FileKind,
    found: Framework,
    settings: Mapping[str, Scalar],
    values: Mapping[str, Value],
) -> Iterator[str]:
    launched = {e.at for e in found.entries if e.launch}
    for variable, without in kind.exports:
        if not (without and all(each.holds(values.get(each.quantity)) for each in without)):
            yield f"export {variable}"

    def whole(name: str) -> int:
        value = values.get(name)
        return int(value) if isinstance(value, Fraction) else 1

    line = _LAUNCHERS[kind.launch].format(
        nodes=whole("nodes"), each=whole("node_devices"), devices=whole("devices")
    )
    parts = [*line.split(" --"), kind.script, *([kind.takes] if kind.takes else [])]
    words = [parts[0], *(f"--{part}" if part in line.split(" --") else part for part in parts[1:])]
    own = {name: value for name, value in settings.items() if name not in launched}
    words += [argument(name, value, equals=kind.equals) for name, value in own.items()]
    yield " \\\n  ".join(words)


def argument(name: str, value: Scalar, *, equals: bool = False) -> str:
    """One argument of a script.

    >>> argument("bf16", True), argument("seq-length", 4096), argument("a_b", 2, equals=True)
    ('--bf16', '--seq-length 4096', 'a_b=2')
    """
    if equals:
        return f"{name}={scalar_text(value, 'shell')}"
    if value is True and "_" not in name:
        return f"--{name}"
    return f"--{name} {scalar_text(value, 'shell')}"
