"""Whatever strategy file MindSpore writes, told by what is in it."""

from __future__ import annotations

from pathlib import Path

from exporters.errors import StrategyFileError
from exporters.mindspore import groups, operator_json, strategy
from exporters.mindspore.apply_reading import AppliedStrategies, from_python
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.records import StrategyCheckpoint
from exporters.mindspore.strategy_nodes import Node, parsed
from ir.violations import Violation

_FIX = "pass a strategy file of MindSpore"


def read_strategies(path: Path) -> StrategyCheckpoint | OperatorStrategies | AppliedStrategies:
    """The strategies in a file: of parameters, protobuf or JSON, of operators, or the Python file
    that applies them.

    Raises:
        StrategyFileError: it cannot be read or holds none.
    """
    if path.suffix not in {".json", ".py"}:
        return _checkpoint(path)
    if path.suffix == ".py":
        return strategy.parsed_file(path, lambda data: from_python(data.decode()))
    return strategy.parsed_file(path, lambda data: _from_json(data.decode()))


def _from_json(text: str) -> StrategyCheckpoint | OperatorStrategies:
    if Node(parsed(text, _FIX), "the file", _FIX).has("parallel_layout_item"):
        return strategy.from_json(text)
    found = operator_json.from_json(text)
    # MindSpore leaves the section of layouts out where it has none: then names tell.
    if any("/" in item.key for item in found.strategies):
        return found
    return StrategyCheckpoint(0, found.strategies, ())


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
