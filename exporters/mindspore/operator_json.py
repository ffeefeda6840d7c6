"""MindSpore's operator-strategy files: JSON that has every operator by its full name with scope.

`set_op_strategy_config(mode="SAVE", path=...)` and `AutoParallel.save_operator_strategy_file` write
them, `mode="LOAD"` and `load_operator_strategy_file` read them.

Source: MindSpore 2.7.0, `frontend/parallel/strategy_loader.cc` and
`strategy_checkpoint/strategy_checkpoint_info.cc`, StrategyJsonInfo.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from exporters.errors import StrategyFileError
from exporters.mindspore.records import StrategyCheckpoint, StrategyItem, require_valid
from exporters.mindspore.strategy_json import (
    STRATEGIES,
    file_text,
    strategy_items,
    strategy_section,
)
from exporters.mindspore.strategy_nodes import Node, parsed
from ir.violations import Violation

RESULTS = "parallel_out_strategy_item"
LAYOUTS = ("parallel_layout_value_item", "parallel_newshape_layout_value_item")
RESULT_LAYOUTS = ("parallel_out_layout_value_item", "parallel_out_newshape_layout_value_item")
_SECTIONS = (STRATEGIES, RESULTS, *LAYOUTS, *RESULT_LAYOUTS)
_FIX = "save the file again with set_op_strategy_config"


@dataclass(frozen=True, slots=True)
class OperatorStrategies:
    """What such a file says."""

    strategies: tuple[StrategyItem, ...]
    """Cuts of the inputs of every operator; those given as layouts are among them."""
    results: tuple[StrategyItem, ...] = ()
    """Cuts of results, where the program gave any."""
    is_compiled: bool = False
    """Whether they are of a compiled graph, in which reshapes have none."""


def to_json(content: OperatorStrategies) -> str:
    """The text that MindSpore writes: one line, keys sorted, empty sections left out.

    Raises:
        StrategyFileError: a name occurs twice, or a number is out of range.
    """
    _require_valid(content)
    sections = {STRATEGIES: content.strategies, RESULTS: content.results}
    return file_text(0, {name: strategy_section(own) for name, own in sections.items() if own})


def from_json(text: str) -> OperatorStrategies:
    """The strategies in a text; sections that are not known are passed over.

    Raises:
        StrategyFileError: it holds none, with the key where that shows.
    """
    root = Node(parsed(text, _FIX), "the file", _FIX)
    if not any(root.has(name) for name in _SECTIONS):
        what = f"none of the sections {', '.join(_SECTIONS[:3])}, ..."
        raise StrategyFileError(Violation(what, "the file", _FIX))
    return _require_valid(
        OperatorStrategies(
            tuple(_items(root, STRATEGIES, LAYOUTS)), tuple(_items(root, RESULTS, RESULT_LAYOUTS))
        )
    )


def _require_valid(content: OperatorStrategies) -> OperatorStrategies:
    for items in (content.strategies, content.results):
        require_valid(StrategyCheckpoint(0, items, ()))
        seen: set[str] = set()
        for item in items:
            if item.key in seen:
                fix = "keep one of them"
                raise StrategyFileError(Violation("it occurs twice", f"key {item.key!r}", fix))
            seen.add(item.key)
    return content


def _items(root: Node, section: str, of_layouts: Iterable[str]) -> Iterator[StrategyItem]:
    """Cuts of operators, and those whose program gave `Layout` objects, as the cuts that these
    are.
    """
    if root.has(section):
        yield from strategy_items(root.at(section))
    for name in of_layouts:
        for key, node in root.at(name).items() if root.has(name) else ():
            inputs = sorted(node.items(), key=lambda pair: (len(pair[0]), pair[0]))
            yield StrategyItem(key, 0, tuple(_cuts_of(layout) for _, layout in inputs))


def _cuts_of(layout: Node) -> tuple[int, ...]:
    matrix = layout.at("dev_matrix").integers()
    out: list[int] = []
    for dim in layout.at("tensor_map").elements():
        axes = [axis for axis in dim.integers() if axis != -1]
        if any(not 0 <= axis < len(matrix) for axis in axes):
            raise dim.fault(f"names an axis that a dev_matrix of {len(matrix)} does not have")
        out.append(math.prod(matrix[-1 - axis] for axis in axes))
    return tuple(out)
