"""Recipes that frameworks publish, as facts, and files that say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import data

_FILE = Path(__file__).with_suffix(".yaml")
_SUFFIX = {
    "shell": "sh",
    "yaml": "yaml",
    "toml": "toml",
    "json": "json",
    "python": "py",
    "gin": "gin",
}


@dataclass(frozen=True)
class Published:
    """One recipe."""

    name: str
    framework: str
    syntax: str
    settings: Mapping[str, Any]
    amounts_to: Mapping[str, str]
    contradicts: int

    def files(self) -> dict[str, str]:
        """A file with these settings."""
        return {f"recipe.{_SUFFIX[self.syntax]}": _WRITERS[self.syntax](self.settings)}


def published() -> list[Published]:
    found = data.yaml_values(_FILE.read_text(encoding="utf-8"))["recipes"]
    return [
        Published(
            each["id"], each["framework"], each["syntax"], each["settings"], each["amounts_to"],
            each["contradicts"],
        )
        for each in found
    ]  # fmt: skip


def _tree(settings: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in settings.items():
        here = tree
        *folders, own = path.split(".")
        for folder in folders:
            here = here.setdefault(folder, {})
        here[own] = value
    return tree


def _toml(settings: Mapping[str, Any]) -> str:
    lines: dict[str, list[str]] = {}
    for path, value in settings.items():
        table, _, own = path.rpartition(".")
        lines.setdefault(table, []).append(f"{own} = {json.dumps(value)}")
    return "\n".join(f"[{table}]\n" + "\n".join(own) for table, own in lines.items()) + "\n"


def _shell(settings: Mapping[str, Any]) -> str:
    """A script with variables, in which settings with dots stand in a document."""
    document = {name: value for name, value in settings.items() if "." in name or "train_" in name}
    head = f"cat <<EOT > config.json\n{json.dumps(_tree(document), indent=1)}\nEOT\n"
    plain = {name: value for name, value in settings.items() if name not in document}
    variables = [f"V{i}={value}" for i, value in enumerate(plain.values())]
    arguments = list(_arguments(plain))
    script = "\n".join(variables) + "\nARGS=(\n    " + "\n    ".join(arguments) + "\n)\n"
    return (head if document else "") + script + "torchrun train.py ${ARGS[@]}\n"


def _arguments(plain: Mapping[str, Any]) -> Iterator[str]:
    equals = any(name.startswith(("ici_", "dcn_", "per_device")) for name in plain)
    for i, (name, value) in enumerate(plain.items()):
        if name == "config":
            yield f"$V{i}.yml"
        elif value is True:
            yield f"--{name}"
        else:
            yield f"{name}=$V{i}" if equals else f"--{name} ${{V{i}}}"


def _python(settings: Mapping[str, Any]) -> str:
    lines = [f"    cfg.{n} = {v!r}" for n, v in settings.items() if n not in {"base", "recipe"}]
    base = settings.get("base", "base_config")
    return f"def recipe1():\n    cfg = {base}()\n" + "\n".join(lines) + "\n    return cfg\n"


def _gin(settings: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in settings.items())


_WRITERS = {
    "shell": _shell,
    "yaml": lambda settings: yaml.safe_dump(_tree(settings)),
    "json": lambda settings: json.dumps(_tree(settings), indent=1),
    "toml": _toml,
    "python": _python,
    "gin": _gin,
}
