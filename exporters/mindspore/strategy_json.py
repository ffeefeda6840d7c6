"""The JSON form of a MindSpore parameter-strategy checkpoint.

Source: MindSpore 2.10.0, `frontend/parallel/strategy_checkpoint/strategy_checkpoint_info.cc`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from exporters.errors import StrategyFileError
from exporters.mindspore.records import (
    ParameterLayout,
    StrategyCheckpoint,
    StrategyItem,
    expanded,
    require_valid,
)
from exporters.mindspore.strategy_nodes import Node, parsed
from ir.violations import Violation

_FIX = "save the file again; an operator-strategy file is another format with the same suffix"
STRATEGIES = "parallel_strategy_item"
_SPLIT_KEYS = ("param_split_shape", "indices_offset")


def to_json(checkpoint: StrategyCheckpoint) -> str:
    """The text that MindSpore writes for this checkpoint: one line, keys sorted.

    Nested tensor maps are written in expanded form, as MindSpore does; the text cannot hold them.

    Raises:
        StrategyFileError: if a name occurs twice, a shape is missing or a value is out of range.
    """
    require_valid(checkpoint)
    _require_expressible(checkpoint)
    layouts = {each.name: _layout_object(each) for each in checkpoint.layouts}
    sections = {
        STRATEGIES: strategy_section(checkpoint.strategies),
        "parallel_layout_item": layouts,
    }
    return file_text(checkpoint.current_stage, sections)


def file_text(saved: int, sections: Mapping[str, object]) -> str:
    """The text of a file with these sections, which was saved so often."""
    content = {"current_stage": saved, **sections}
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def strategy_section(items: Iterable[StrategyItem]) -> dict[str, object]:
    """A section of cuts by operator."""
    return {item.key: {"stage": item.stage, "parallel_strategy": item.cuts} for item in items}


def strategy_items(section: Node) -> Iterator[StrategyItem]:
    """The cuts that a section holds."""
    for key, node in section.items():
        cuts = tuple(each.integers() for each in node.at("parallel_strategy").elements())
        yield StrategyItem(key, node.at("stage").integer(), cuts)


def from_json(text: str) -> StrategyCheckpoint:
    """The checkpoint that this text holds; top-level keys that are not known are passed over.

    Raises:
        StrategyFileError: if it holds none, with the key where that shows.
    """
    root = Node(parsed(text, _FIX), "the file", _FIX)
    checkpoint = StrategyCheckpoint(
        root.at("current_stage").integer(),
        tuple(strategy_items(root.at(STRATEGIES))),
        tuple(_layout(name, node) for name, node in root.at("parallel_layout_item").items()),
    )
    return require_valid(checkpoint)


def _layout_object(layout: ParameterLayout) -> dict[str, object]:
    plain = expanded(layout)
    content: dict[str, object] = {
        "dev_matrix": plain.device_matrix,
        "tensor_map": plain.tensor_map,
        "tensor_shape": plain.tensor_shape,
        "field": plain.field,
        "opt_weight_shard_step": plain.opt_weight_shard_step,
        "opt_weight_shard_size": plain.opt_weight_shard_size,
    }
    if plain.param_split_shape:
        content |= {key: getattr(plain, key) for key in _SPLIT_KEYS}
    return content


def _require_expressible(checkpoint: StrategyCheckpoint) -> None:
    violations: list[Violation] = []
    for section, names in (
        ("strategies", [item.key for item in checkpoint.strategies]),
        ("layouts", [layout.name for layout in checkpoint.layouts]),
    ):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                what, fix = f"{name!r} occurs twice", "keep one of them, or write protobuf"
                violations.append(Violation(what, section, fix))
            seen.add(name)
    for layout in checkpoint.layouts:
        if layout.tensor_shape is None:
            fix = "add the shape with with_shapes, or write protobuf, which has no shapes"
            place = f"layout of {layout.name!r}"
            violations.append(Violation("the tensor shape is not known", place, fix))
    if violations:
        raise StrategyFileError(*violations)


def _layout(name: str, node: Node) -> ParameterLayout:
    split, offset = (node.at(key).integers() if node.has(key) else () for key in _SPLIT_KEYS)
    return ParameterLayout(
        name=name,
        device_matrix=node.at("dev_matrix").integers(),
        tensor_map=node.at("tensor_map").integers(),
        tensor_shape=node.at("tensor_shape").integers(),
        field=node.at("field").integer(),
        opt_weight_shard_step=node.at("opt_weight_shard_step").integer(),
        opt_weight_shard_size=node.at("opt_weight_shard_size").integer(),
        param_split_shape=split,
        indices_offset=offset,
    )
