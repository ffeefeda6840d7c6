"""Whatever strategy file MindSpore writes, told by what is in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from exporters.errors import StrategyFileError
from exporters.mindspore import groups, operator_json, strategy
from exporters.mindspore.apply_reading import AppliedStrategies, from_python
from exporters.mindspore.compiled_graph import from_graph
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.records import StrategyCheckpoint
from exporters.mindspore.strategy_nodes import Node, parsed
from ir.violations import Violation

_FIX = "pass a strategy file of MindSpore"


def read_strategies(path: Path) -> StrategyCheckpoint | OperatorStrategies | AppliedStrategies:
    """The strategies in a file: of parameters, protobuf or JSON, of operators, the Python file
    that applies them, or a graph that MindSpore compiled.

    Raises:
        StrategyFileError: it cannot be read or holds none.
    """
    parse = _TEXTS.get(path.suffix)
    if parse is None:
        return _checkpoint(path)
    return strategy.parsed_file(path, lambda data: parse(data.decode()))


def _from_json(text: str) -> StrategyCheckpoint | OperatorStrategies:
    if Node(parsed(text, _FIX), "the file", _FIX).has("parallel_layout_item"):
        return strategy.from_json(text)
    found = operator_json.from_json(text)
    # MindSpore leaves the section of layouts out where it has none: then names tell.
    if any("/" in item.key for item in found.strategies):
        return found
    return StrategyCheckpoint(0, found.strategies, ())


_TEXTS: dict[str, Callable[[str], StrategyCheckpoint | OperatorStrategies | AppliedStrategies]] = {
    ".json": _from_json,
    ".py": from_python,
    ".ir": from_graph,
}


def _checkpoint(path: Path) -> StrategyCheckpoint:
    try:
        return strategy.read(path)
    except StrategyFileError as error:
        if _holds_groups(path):
            what = "it holds communication groups, no strategies"
            raise StrategyFileError(Violation(what, str(path), _FIX)) from error
        raise


def _holds_groups(path: Path) -> bool:
    try:
        found = groups.from_protobuf(strategy.file_bytes(path))
    except StrategyFileError:
        return False
    return all(group.name == groups.group_name(group.ranks) for group in found.groups)
