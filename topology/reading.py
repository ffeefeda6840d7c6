"""Machine files as plain values: YAML or JSON, read with limits on size, depth and repetition."""

import json
from collections.abc import Hashable, Mapping
from typing import Any, TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from topology.errors import ClusterError

__all__ = ["MOST_BYTES", "plain_values"]

MOST_BYTES = 2**20
"""Largest machine file: ranges of names and generators of links keep files small."""

MOST_DEPTH = 32
MOST_VALUES = 200_000
"""Values of a file, those that YAML repeats by reference counted each time."""

_FIX = "mend the line, or start from a file of data/clusters"
_Loader: TypeAlias = Any
_LOADER: _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def plain_values(text: str, where: str) -> Mapping[str, Any]:
    """The mapping in a YAML or JSON text; `where` names the text in errors.

    Raises:
        ClusterError: the text is too large, too deep, repeats itself beyond bounds, names a key
            twice, or is no mapping.
    """
    if len(text) > MOST_BYTES:
        raise ClusterError(
            f"the text is longer than {MOST_BYTES} characters",
            where,
            "use count, ranges of names and generators of links instead of lists",
        )
    found = _as_json(text, where) if text.lstrip()[:1] == "{" else None
    if found is None:
        found = _as_yaml(text, where)
    if not isinstance(found, Mapping):
        raise ClusterError("the file is no mapping of names to values", where, _FIX)
    return found


def _as_json(text: str, where: str) -> object:
    """The value of a JSON text, `None` if it is none; braces begin YAML texts too."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(items)
        if len(record) < len(items):
            names = [name for name, _ in items]
            twice = next(name for name in names if names.count(name) > 1)
            raise _twice(twice, where)
        return record

    try:
        found = json.loads(text, object_pairs_hook=pairs)
    except RecursionError as fault:
        raise _too_deep(where) from fault
    except ValueError as fault:
        if isinstance(fault, ClusterError):
            raise
        return None
    if _json_depth(found) > MOST_DEPTH:
        raise _too_deep(where)
    return found


def _json_depth(found: object) -> int:
    depth, level = 0, [found]
    while level and depth <= MOST_DEPTH:
        depth += 1
        inner = [list(v.values()) if isinstance(v, dict) else v for v in level]
        level = [each for v in inner if isinstance(v, list) for each in v]
    return depth


def _as_yaml(text: str, where: str) -> object:
    try:
        _check_events(text, where)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _Size(where).of(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except ClusterError:
        raise
    # A date or an integer beyond Python's limits is a plain ValueError.
    except (yaml.YAMLError, ValueError, OverflowError) as fault:
        told = " ".join(str(fault).replace(' in "<unicode string>"', "").split())[:400]
        raise ClusterError(f"the text is not YAML: {told}", where, _FIX) from fault


def _check_events(text: str, where: str) -> None:
    """Depth before anything recursive runs over the text."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                raise _too_deep(where)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Size:
    """Values below a node with every reference followed; also finds keys that stand twice."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: dict[int, int] = {}

    def of(self, node: Node) -> int:
        key = id(node)
        if key not in self._known:
            self._known[key] = MOST_VALUES  # what a value that contains itself meets
            self._known[key] = 1 + sum(map(self.of, self._inner(node)))
        if self._known[key] >= MOST_VALUES:
            raise ClusterError(
                f"the text stands for more than {MOST_VALUES} values",
                self._where,
                "repeat less with & and *; use count and generators of links",
            )
        return self._known[key]

    def _inner(self, node: Node) -> list[Node]:
        if isinstance(node, SequenceNode):
            return list(node.value)
        if not isinstance(node, MappingNode):
            return []
        names: set[Hashable] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode):
                if key.value in names:
                    raise _twice(key.value, f"{self._where}, line {key.start_mark.line + 1}")
                names.add(key.value)
        return [each for pair in node.value for each in pair]


def _too_deep(where: str) -> ClusterError:
    return ClusterError(
        f"the text is nested deeper than {MOST_DEPTH} levels",
        where,
        "machine files need about ten; start from a file of data/clusters",
    )


def _twice(name: str, where: str) -> ClusterError:
    return ClusterError(f"the key {name[:80]!r} stands twice", where, "keep one of them")
