"""MindSpore's parameter-strategy checkpoints, held against files of the real package."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from exporters.mindspore.records import expanded
from exporters.mindspore.strategy import (
    ParameterLayout,
    StrategyCheckpoint,
    StrategyFileError,
    StrategyItem,
    from_json,
    from_protobuf,
    read,
    standardise,
    to_json,
    to_protobuf,
    with_shapes,
    write,
)

SAMPLES = Path(__file__).parents[1] / "data" / "mindspore_samples"
PROTOBUF_SAMPLES = sorted(SAMPLES.glob("*.ckpt"))
JSON_SAMPLES = sorted(SAMPLES.glob("*.json"))
ANY_SAMPLE = pytest.mark.parametrize("path", PROTOBUF_SAMPLES + JSON_SAMPLES, ids=lambda p: p.name)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
unsigned = st.integers(0, 2**32 - 1)
small = st.integers(-1, 2**31 - 1)


@st.composite
def layouts(draw: st.DrawFn, *, nested: bool) -> ParameterLayout:
    matrix = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=4)))
    axes = draw(st.permutations(range(len(matrix))))
    maps: list[tuple[int, ...]] = [(axis,) for axis in axes]
    if nested and len(axes) > 2:
        maps = [tuple(axes[:2]), *((axis,) for axis in axes[2:])]
    kept = maps[: draw(st.integers(1 if nested else 0, len(maps)))]
    kept += [(-1,)] * draw(st.integers(0, 2))
    kept = draw(st.permutations(kept))
    shape = tuple(9 * 64 * draw(st.integers(1, 3)) for _ in kept)
    parts = tuple(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)))
    return ParameterLayout(
        name=draw(names),
        device_matrix=matrix,
        tensor_map=tuple(kept) if nested else tuple(axis for (axis,) in kept),
        tensor_shape=shape,
        field=draw(small),
        opt_weight_shard_step=draw(small),
        opt_weight_shard_size=draw(small),
        param_split_shape=parts,
        indices_offset=parts[::-1],
    )


cuts = st.lists(st.integers(1, 2**32 - 1), max_size=4).map(tuple)
items = st.builds(StrategyItem, names, unsigned, st.lists(cuts, max_size=3).map(tuple))


@st.composite
def checkpoints(draw: st.DrawFn, *, nested: bool = False) -> StrategyCheckpoint:
    kinds = st.one_of(layouts(nested=False), layouts(nested=nested))
    return StrategyCheckpoint(
        draw(unsigned),
        tuple(draw(st.lists(items, max_size=3, unique_by=lambda item: item.key))),
        tuple(draw(st.lists(kinds, max_size=3, unique_by=lambda layout: layout.name))),
    )


def without_shapes(checkpoint: StrategyCheckpoint) -> StrategyCheckpoint:
    return from_protobuf(to_protobuf(checkpoint))


def shapes_of(checkpoint: StrategyCheckpoint) -> dict[str, tuple[int, ...]]:
    return {each.name: each.tensor_shape for each in checkpoint.layouts if each.tensor_shape}


SCHEMA = """
ParallelStrategy *u:dim
ParallelStrategys !u:stage *ParallelStrategy:parallel_strategy
ParallelStrategyItem !s:node_name !ParallelStrategys:parallel_strategys
DevMatrix *u:dim
TensorMap *i:dim
ParamSplitShape *l:dim
IndicesOffset *l:dim
ParallelLayouts *DevMatrix:dev_matrix *TensorMap:tensor_map *ParamSplitShape:split \
 *IndicesOffset:offset !i:field !i:opt_weight_shard_step !i:opt_weight_shard_size
ParallelLayoutItem !s:param_name !ParallelLayouts:parallel_layouts
ParallelStrategyMap !u:current_stage *ParallelStrategyItem:parallel_strategy_item \
 *ParallelLayoutItem:parallel_layout_item
"""
"""Messages with their fields in order: `*` repeated, `!` required; u, i, l, s are scalars."""


def schema() -> Any:
    """The published schema, for the protobuf library to judge our bytes with."""
    file = descriptor_pb2.FileDescriptorProto(name="s.proto", package="s", syntax="proto2")
    kinds = {"u": 13, "i": 5, "l": 3, "s": 9}
    for line in SCHEMA.strip().splitlines():
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields, start=1):
            kind, field_name = field[1:].split(":")
            added = message.field.add(name=field_name, number=number)
            added.label = added.LABEL_REPEATED if field[0] == "*" else added.LABEL_REQUIRED
            if kind in kinds:
                added.type = kinds[kind]  # type: ignore[assignment]
            else:
                added.type, added.type_name = added.TYPE_MESSAGE, f".s.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("s.ParallelStrategyMap")
    return message_factory.GetMessageClass(found)


STRATEGY_MAP = schema()


@pytest.mark.parametrize("path", PROTOBUF_SAMPLES, ids=lambda path: path.name)
def test_a_real_protobuf_file_is_written_again_byte_for_byte(path: Path) -> None:
    assert to_protobuf(read(path)) == path.read_bytes()


@pytest.mark.parametrize("path", JSON_SAMPLES, ids=lambda path: path.name)
def test_a_real_json_file_is_written_again_byte_for_byte(path: Path) -> None:
    assert to_json(read(path)).encode() == path.read_bytes()


def test_all_samples_are_there() -> None:
    assert (len(PROTOBUF_SAMPLES), len(JSON_SAMPLES)) == (4, 3)


def test_a_real_file_says_what_mindspore_said() -> None:
    checkpoint = read(SAMPLES / "mlp_semi_auto.ckpt")
    assert checkpoint.current_stage == 2
    assert checkpoint.strategies[0] == StrategyItem("MatMul_w1", 0, ((2, 1), (1, 4)))
    assert checkpoint.layouts[0] == ParameterLayout("w1", (2, 4), (-1, 0))


@ANY_SAMPLE
def test_the_two_forms_carry_the_same_apart_from_shapes(path: Path) -> None:
    checkpoint = read(path)
    shapes = shapes_of(checkpoint) or {each.name: (4096, 4096) for each in checkpoint.layouts}
    shaped = with_shapes(checkpoint, shapes)
    assert with_shapes(from_protobuf(to_protobuf(shaped)), shapes) == shaped
    ordered = from_json(to_json(shaped))
    assert set(ordered.layouts) == set(shaped.layouts)
    assert set(ordered.strategies) == set(shaped.strategies)


def test_the_json_and_the_protobuf_of_one_network_agree() -> None:
    binary, text = (read(SAMPLES / f"mlp_sp_all.{suffix}") for suffix in ("ckpt", "json"))
    assert set(with_shapes(binary, shapes_of(text)).layouts) == set(text.layouts)
    assert set(binary.strategies) == set(text.strategies)


@given(checkpoints(nested=True))
def test_protobuf_read_back_is_what_was_written_apart_from_shapes(ckpt: StrategyCheckpoint) -> None:
    back = from_protobuf(to_protobuf(ckpt))
    assert all(layout.tensor_shape is None for layout in back.layouts)
    assert with_shapes(back, {each.name: each.tensor_shape or () for each in ckpt.layouts}) == ckpt


@given(checkpoints())
def test_json_read_back_is_what_was_written_in_sorted_order(ckpt: StrategyCheckpoint) -> None:
    back = from_json(to_json(ckpt))
    assert back.current_stage == ckpt.current_stage
    assert list(back.strategies) == sorted(ckpt.strategies, key=lambda item: item.key)
    assert list(back.layouts) == sorted(ckpt.layouts, key=lambda layout: layout.name)


@given(checkpoints(nested=True))
def test_a_nested_layout_in_json_keeps_the_size_of_the_parameter(ckpt: StrategyCheckpoint) -> None:
    sizes = [shape_product(layout) for layout in ckpt.layouts]
    assert [shape_product(expanded(layout)) for layout in ckpt.layouts] == sizes
    assert len(from_json(to_json(ckpt)).layouts) == len(sizes)


def shape_product(layout: ParameterLayout) -> int:
    product = 1
    for size in layout.tensor_shape or ():
        product *= size
    return product


@given(checkpoints(nested=True))
def test_the_protobuf_library_reads_our_bytes_and_writes_the_same(ckpt: StrategyCheckpoint) -> None:
    message = STRATEGY_MAP.FromString(to_protobuf(ckpt))
    assert message.SerializeToString() == to_protobuf(ckpt)
    assert [each.node_name for each in message.parallel_strategy_item] == [
        item.key for item in ckpt.strategies
    ]
    assert [
        tuple(each.parallel_layouts.dev_matrix[0].dim) for each in message.parallel_layout_item
    ] == [layout.device_matrix for layout in ckpt.layouts]


def test_packed_integers_and_unknown_fields_are_read() -> None:
    item = b"\x0a\x01a\x12\x08\x08\x00\x12\x04\x0a\x02\x02\x04"
    data = b"\x08\x01\x12" + bytes([len(item)]) + item + b"\x7a\x02hi\x79" + bytes(8)
    assert from_protobuf(data).strategies == (StrategyItem("a", 0, ((2, 4),)),)


@pytest.mark.parametrize(
    ("matrix", "tensor_map", "expected"),
    [
        ((16, 1, 1), (2, 0), ((16,), (0, -1))),
        ((1, 16, 1), (2, 1), ((16,), (-1, 0))),
        ((1, 8), (-1, 0), ((8,), (-1, 0))),
        ((2, 4, 8), (2, 0), ((2, 4, 8), (2, 0))),
        ((1, 1), (1, 0), ((1,), (-1, -1))),
        ((8, 1), (-1, -1), ((8,), (-1, -1))),
    ],
)
def test_standardising_removes_axes_of_size_one(
    matrix: tuple[int, ...],
    tensor_map: tuple[int, ...],
    expected: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    assert standardise(matrix, tensor_map) == expected
    assert standardise(*expected) == expected


def test_a_layout_of_several_axes_expands_as_mindspore_documents() -> None:
    layout = ParameterLayout("w", (8, 2, 4), ((2,), (1, 0)), (512, 1024))
    assert expanded(layout) == ParameterLayout("w", (8, 2, 4), (2, 1, 0), (512, 2, 512))


def test_a_nested_map_of_one_dimension_is_followed_by_an_empty_one() -> None:
    layout = ParameterLayout("w", (2, 4), ((1, 0),))
    data = to_protobuf(StrategyCheckpoint(1, (), (layout,)))
    message = STRATEGY_MAP.FromString(data).parallel_layout_item[0].parallel_layouts
    assert [list(each.dim) for each in message.tensor_map] == [[1, 0], []]
    assert from_protobuf(data).layouts == (layout,)


def test_a_file_is_written_whole_with_the_mode_of_any_file(tmp_path: Path) -> None:
    checkpoint = read(SAMPLES / "mlp_sp_all.json")
    usual = tmp_path / "usual"
    usual.touch()
    for name in ("new/s.json", "new/s.ckpt"):
        write(tmp_path / name, checkpoint)
        written = tmp_path / name
        assert written.stat().st_mode == usual.stat().st_mode
        expected = checkpoint if name.endswith("json") else without_shapes(checkpoint)
        assert read(written) == expected
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["s.ckpt", "s.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "s.json"
    target.write_text("old")
    with pytest.raises(StrategyFileError, match="shape is not known"):
        write(target, read(SAMPLES / "mlp_semi_auto.ckpt"))
    assert target.read_text() == "old"
    (tmp_path / "folder").mkdir()
    with pytest.raises(StrategyFileError, match="cannot be written"):
        write(tmp_path / "folder", read(SAMPLES / "mlp_semi_auto.ckpt"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "s.json"]
