"""Whatever strategy file MindSpore writes, told by what is in it."""

from __future__ import annotations

from pathlib import Path

from exporters import mindspore_groups, mindspore_operator_json, mindspore_strategy
from exporters.mindspore_apply_reading import AppliedStrategies, from_python
from exporters.mindspore_operator_json import OperatorStrategies
from exporters.mindspore_records import StrategyCheckpoint, StrategyFileError
from exporters.strategy_nodes import Node, parsed
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
        return mindspore_strategy.parsed_file(path, lambda data: from_python(data.decode()))
    return mindspore_strategy.parsed_file(path, lambda data: _from_json(data.decode()))


def _from_json(text: str) -> StrategyCheckpoint | OperatorStrategies:
    if Node(parsed(text, _FIX), "the file", _FIX).has("parallel_layout_item"):
        return mindspore_strategy.from_json(text)
    found = mindspore_operator_json.from_json(text)
    # MindSpore leaves the section of layouts out where it has none: then names tell.
    if any("/" in item.key for item in found.strategies):
        return found
    return StrategyCheckpoint(0, found.strategies, ())


def _checkpoint(path: Path) -> StrategyCheckpoint:
    try:
        return mindspore_strategy.read(path)
    except StrategyFileError as error:
        if _holds_groups(path):
            what = "it holds communication groups, no strategies"
            raise StrategyFileError(Violation(what, str(path), _FIX)) from error
        raise


def _holds_groups(path: Path) -> bool:
    try:
        found = mindspore_groups.from_protobuf(mindspore_strategy.file_bytes(path))
    except StrategyFileError:
        return False
    return all(group.name == mindspore_groups.group_name(group.ranks) for group in found.groups)
