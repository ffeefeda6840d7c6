"""Which planner this is, so that what another one found is not taken for its own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from parallel_planner import PACKAGES

ANSWERS_FROM = (".py", ".yaml", ".csv", ".json")
"""Suffixes of files that answers follow from: code, and facts about machines and models."""
_OTHERS = frozenset({"__pycache__", "web"})
_ROOT = Path(__file__).resolve().parents[1]


@cache
def planner_version() -> str:
    """The version that is installed."""
    try:
        return version("parallel-planner")
    except PackageNotFoundError:
        return "not installed"


@cache
def planner_code() -> str:
    """The version and a hash of code and facts, which change between two versions too."""
    return f"{planner_version()} {code_hash(_ROOT)}"


def code_hash(root: Path) -> str:
    """SHA-256 of all that the planner below this folder answers from."""
    digest = hashlib.sha256()
    for path in sorted(_sources(root)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    for package in sorted(PACKAGES):
        for folder, below, names in os.walk(root / package):
            below[:] = [name for name in below if name not in _OTHERS]
            yield from (Path(folder, name) for name in names if name.endswith(ANSWERS_FROM))
