"""Nodes of a graph gathered by the modules that they lie in, where there are too many to read."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import TypeAlias

MOST_NODES = 160
"""Nodes that are shown of a graph, or of a module that is opened; each has room for its name."""
Path: TypeAlias = tuple[str, ...]
Group: TypeAlias = tuple[str, list[int]]
"""Name of a module, empty for a node of its own, and positions of its nodes."""

_NUMBERED = re.compile(r"[./](?=\d+(?:[./]|$))")
"""Before a number: it belongs to the word before it."""


def module_path(block: str, scope: str) -> Path:
    """Modules that an operator lies in, outermost first: its block, then those inside.

    >>> module_path("down.0", "down.0.resnets.1.conv1")
    ('down.0', 'resnets.1', 'conv1')
    >>> module_path("norm, …", "norm")
    ('norm, …', 'norm')
    """
    inside = scope.removeprefix(block).strip("./") if scope.startswith(block) else scope
    joined = _NUMBERED.sub("\0", inside)
    parts = (part.replace("\0", ".") for part in re.split(r"[./]", joined) if part)
    return (block, *parts)


def grouped(paths: Sequence[Path], opened: Container[str], most: int = MOST_NODES) -> list[Group]:
    """The nodes alone where there is room for all, else modules that leave no more than so many.

    Args:
        paths: of each node.
        opened: names of modules whose inside is shown.
        most: of nodes, and of those inside a module that is opened.
    """
    return _split(range(len(paths)), paths, 0, opened, most)


def _split(
    members: Sequence[int], paths: Sequence[Path], depth: int, opened: Container[str], most: int
) -> list[Group]:
    if len(members) <= most:
        return [("", [node]) for node in members]
    found, depth = _modules(members, paths, depth, most)
    out: list[Group] = []
    for name, own in found.items():
        if len(own) == 1:
            out.append(("", own))
        elif name in opened:
            out += _split(own, paths, depth, opened, most)
        else:
            out.append((name, own))
    return out


def _modules(
    members: Sequence[int], paths: Sequence[Path], depth: int, most: int
) -> tuple[dict[str, list[int]], int]:
    """The finest modules of which there are no more than so many, and how deep they lie; nodes in
    a row where their modules say nothing.
    """
    deepest = max(len(paths[node]) for node in members)
    best: tuple[dict[str, list[int]], int] | None = None
    for deep in range(depth + 1, deepest + 1):
        found: dict[str, list[int]] = {}
        for node in members:
            found.setdefault("/".join(paths[node][:deep]), []).append(node)
        if len(found) > most:
            break
        if len(found) > 1:
            best = found, deep
    if best is not None:
        return best
    each = -(-len(members) // most)
    first = "/".join(paths[members[0]][: depth or 1])
    runs = [list(members[start : start + each]) for start in range(0, len(members), each)]
    return {f"{first} #{own[0]}": own for own in runs}, deepest
