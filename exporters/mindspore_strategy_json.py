"""The JSON form of a MindSpore parameter-strategy checkpoint.

Source: MindSpore 2.10.0, `frontend/parallel/strategy_checkpoint/strategy_checkpoint_info.cc`.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from exporters.mindspore_records import (
    ParameterLayout,
    StrategyCheckpoint,
    StrategyFileError,
    StrategyItem,
    Violation,
    expanded,
    require_valid,
)

_FIX = "save the file again; an operator-strategy file is another format with the same suffix"
_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}
_SPLIT_KEYS = ("param_split_shape", "indices_offset")


def to_json(checkpoint: StrategyCheckpoint) -> str:
    """The text that MindSpore writes for this checkpoint: one line, keys sorted.

    Nested tensor maps are written in expanded form, as MindSpore does; the text cannot hold them.

    Raises:
        StrategyFileError: if a name occurs twice, a shape is missing or a value is out of range.
    """
    require_valid(checkpoint)
    _require_expressible(checkpoint)
    content = {
        "current_stage": checkpoint.current_stage,
        "parallel_strategy_item": {
            item.key: {"stage": item.stage, "parallel_strategy": item.cuts}
            for item in checkpoint.strategies
        },
        "parallel_layout_item": {each.name: _layout_object(each) for each in checkpoint.layouts},
    }
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def from_json(text: str) -> StrategyCheckpoint:
    """The checkpoint that this text holds; top-level keys that are not known are passed over.

    Raises:
        StrategyFileError: if it holds none, with the key where that shows.
    """
    root = _Node(_parsed(text), "the file")
    checkpoint = StrategyCheckpoint(
        root.at("current_stage").integer(),
        tuple(_strategy(key, node) for key, node in root.at("parallel_strategy_item").items()),
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


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise StrategyFileError(Violation(f"not JSON: {error.msg}", place, _FIX)) from error
    except RecursionError as error:
        raise StrategyFileError(Violation("nested too deeply", "the file", _FIX)) from error
    except StrategyFileError:
        raise
    except ValueError as error:  # an integer of more digits than Python converts
        raise StrategyFileError(Violation("a number is too long", "the file", _FIX)) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise StrategyFileError(Violation("a key occurs twice", f"key {twice!r}", "keep one"))
    return content


class _Node:
    """A value of the file that knows its place."""

    __slots__ = ("_place", "_value")

    def __init__(self, value: Any, place: str) -> None:
        self._value = value
        self._place = place

    def _fail(self, what: str) -> StrategyFileError:
        return StrategyFileError(Violation(what, self._place, _FIX))

    def _kind(self) -> str:
        return _KINDS.get(type(self._value), "a number")

    def items(self) -> list[tuple[str, "_Node"]]:
        if not isinstance(self._value, dict):
            raise self._fail(f"{self._kind()} where an object is due")
        return [
            (key, _Node(each, f"{self._place}, key {key!r}")) for key, each in self._value.items()
        ]

    def has(self, key: str) -> bool:
        return isinstance(self._value, dict) and key in self._value

    def at(self, key: str) -> "_Node":
        if not isinstance(self._value, dict):
            raise self._fail(f"{self._kind()} where an object is due")
        if key not in self._value:
            raise self._fail(f"key {key!r} is missing")
        return _Node(self._value[key], f"{self._place}, key {key!r}")

    def elements(self) -> Iterator["_Node"]:
        if not isinstance(self._value, list):
            raise self._fail(f"{self._kind()} where a list is due")
        for index, each in enumerate(self._value):
            yield _Node(each, f"{self._place}, index {index}")

    def integer(self) -> int:
        if type(self._value) is not int:
            raise self._fail(f"{self._kind()} where an integer is due")
        return self._value

    def integers(self) -> tuple[int, ...]:
        if not isinstance(self._value, list) or any(type(each) is not int for each in self._value):
            raise self._fail("something else than a list of integers")
        return tuple(self._value)


def _strategy(key: str, node: _Node) -> StrategyItem:
    cuts = tuple(each.integers() for each in node.at("parallel_strategy").elements())
    return StrategyItem(key, node.at("stage").integer(), cuts)


def _layout(name: str, node: _Node) -> ParameterLayout:
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
