"""The protobuf form of a MindSpore parameter-strategy checkpoint.

Source: MindSpore 2.10.0, `utils/node_strategy.proto` (proto2, package `mindspore.straspb`).
"""

from exporters.errors import StrategyFileError
from exporters.mindspore.records import (
    NestedMap,
    ParameterLayout,
    PlainMap,
    StrategyCheckpoint,
    StrategyItem,
    is_nested,
    require_valid,
)
from exporters.protobuf_wire import (
    INT32,
    INT64,
    UINT32,
    IntegerType,
    Message,
    bytes_field,
    integer_field,
    integer_fields,
)
from ir.violations import Violation
from ir.wire import WireError

_FIX = "save the file again; a strategy in JSON needs a name that ends in .json"


def to_protobuf(checkpoint: StrategyCheckpoint) -> bytes:
    """The bytes that MindSpore writes for this checkpoint; items stay in the order given.

    Raises:
        StrategyFileError: if the checkpoint says something that no such file can.
    """
    require_valid(checkpoint)
    strategies = (bytes_field(2, _encode_strategy(each)) for each in checkpoint.strategies)
    layouts = (bytes_field(3, _encode_layout(each)) for each in checkpoint.layouts)
    return b"".join((integer_field(1, checkpoint.current_stage), *strategies, *layouts))


def from_protobuf(data: bytes) -> StrategyCheckpoint:
    """The checkpoint that these bytes hold; fields that the schema does not name are passed over.

    Raises:
        StrategyFileError: if they hold none, with the byte where that shows.
    """
    try:
        root = Message.parse(data)
        checkpoint = StrategyCheckpoint(
            root.integer(1, "current_stage", UINT32),
            tuple(_strategy(each) for each in root.messages(2, "parallel_strategy_item")),
            tuple(_layout(each) for each in root.messages(3, "parallel_layout_item")),
        )
    except WireError as error:
        raise StrategyFileError(Violation(error.what, f"byte {error.offset}", _FIX)) from error
    return require_valid(checkpoint)


def _encode_strategy(item: StrategyItem) -> bytes:
    inputs = (bytes_field(2, integer_fields(1, cuts)) for cuts in item.cuts)
    strategies = integer_field(1, item.stage) + b"".join(inputs)
    return bytes_field(1, item.key.encode()) + bytes_field(2, strategies)


def _encode_layout(layout: ParameterLayout) -> bytes:
    groups = (
        (1, layout.device_matrix),
        *((2, axes) for axes in _written_maps(layout.tensor_map)),
        (3, layout.param_split_shape),
        (4, layout.indices_offset),
    )
    body = b"".join(bytes_field(number, integer_fields(1, values)) for number, values in groups)
    body += integer_field(5, layout.field)
    body += integer_field(6, layout.opt_weight_shard_step)
    body += integer_field(7, layout.opt_weight_shard_size)
    return bytes_field(1, layout.name.encode()) + bytes_field(2, body)


def _written_maps(tensor_map: PlainMap | NestedMap) -> NestedMap:
    """Readers take two or more maps for the nested form, so an empty one follows a single one."""
    if is_nested(tensor_map):
        return tensor_map if len(tensor_map) > 1 else (*tensor_map, ())
    return (tuple(axis for axis in tensor_map if isinstance(axis, int)),)


def _strategy(item: Message) -> StrategyItem:
    strategies = item.message(2, "parallel_strategys")
    return StrategyItem(
        item.text(1, "node_name"),
        strategies.integer(1, "stage", UINT32),
        _lists(strategies, 2, "parallel_strategy", UINT32),
    )


def _layout(item: Message) -> ParameterLayout:
    body = item.message(2, "parallel_layouts")
    device_matrix = _lists(body, 1, "dev_matrix", UINT32)
    if len(device_matrix) != 1:
        raise WireError(f"{len(device_matrix)} dev_matrix in a layout, not one", body.offset)
    return ParameterLayout(
        name=item.text(1, "param_name"),
        device_matrix=device_matrix[0],
        tensor_map=_tensor_map(body),
        field=body.integer(5, "field", INT32),
        opt_weight_shard_step=body.integer(6, "opt_weight_shard_step", INT32),
        opt_weight_shard_size=body.integer(7, "opt_weight_shard_size", INT32),
        param_split_shape=_at_most_one(body, 3, "param_split_shape"),
        indices_offset=_at_most_one(body, 4, "indices_offset"),
    )


def _tensor_map(body: Message) -> PlainMap | NestedMap:
    maps = _lists(body, 2, "tensor_map", INT32)
    if not maps:
        raise WireError("tensor_map is missing", body.offset)
    if len(maps) == 1:
        return maps[0]
    return maps[:1] if len(maps) == 2 and not maps[1] else maps


def _at_most_one(body: Message, number: int, name: str) -> tuple[int, ...]:
    found = _lists(body, number, name, INT64)
    if len(found) > 1:
        raise WireError(f"{len(found)} {name} in a layout, not one", body.offset)
    return found[0] if found else ()


def _lists(parent: Message, number: int, name: str, kind: IntegerType) -> NestedMap:
    return tuple(each.integers(1, name, kind) for each in parent.messages(number, name))
