"""Whatever strategy file MindSpore writes, told by what is in it."""

from __future__ import annotations

from pathlib import Path

from exporters import mindspore_groups, mindspore_operator_json, mindspore_strategy
from exporters.mindspore_apply_reading import AppliedStrategies, from_python
from exporters.mindspore_operator_json import OperatorStrategies
from exporters.mindspore_records import StrategyCheckpoint, StrategyFileError, Violation
from exporters.strategy_nodes import Node, parsed

_FIX = "pass a strategy file of MindSpore"


def read_strategies(path: Path) -> StrategyCheckpoint | OperatorStrategies | AppliedStrategies:
    """The strategies in a file: of parameters, protobuf or JSON, of operators, or the Python file
    that applies them.

    Raises:
        StrategyFileError: it cannot be read or holds none.
    """
    if path.suffix not in {".json", ".py"}:
        return _checkpoint(path)
    data = mindspore_strategy.file_bytes(path)
    try:
        text = data.decode("utf-8")
        if path.suffix == ".py":
            return from_python(text)
        root = Node(parsed(text, _FIX), "the file", _FIX)
        if root.has("parallel_layout_item"):
            return mindspore_strategy.from_json(text)
        return _by_keys(mindspore_operator_json.from_json(text))
    except UnicodeDecodeError as error:
        where, fix = f"{path}, byte {error.start}", "save the file as UTF-8"
        raise StrategyFileError(Violation("not UTF-8", where, fix)) from error
    except StrategyFileError as error:
        raise error.inside(str(path)) from error


def _by_keys(found: OperatorStrategies) -> StrategyCheckpoint | OperatorStrategies:
    """MindSpore leaves the section of layouts out where it has none: then names tell."""
    if any("/" in item.key for item in found.strategies):
        return found
    return StrategyCheckpoint(0, found.strategies, ())


def _checkpoint(path: Path) -> StrategyCheckpoint:
    try:
        found = mindspore_strategy.read(path)
    except StrategyFileError as error:
        if _holds_groups(path):
            what = "it holds communication groups, no strategies"
            raise StrategyFileError(Violation(what, str(path), _FIX)) from error
        raise
    return found


def _holds_groups(path: Path) -> bool:
    try:
        found = mindspore_groups.from_protobuf(mindspore_strategy.file_bytes(path))
    except StrategyFileError:
        return False
    return all(group.name == mindspore_groups.group_name(group.ranks) for group in found.groups)
