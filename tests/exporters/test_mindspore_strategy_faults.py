"""Strategy files that are damaged, hostile or impossible: one kind of error, which says why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.mindspore import strategy as mindspore_strategy
from exporters.mindspore.strategy import (
    ParameterLayout,
    StrategyCheckpoint,
    StrategyFileError,
    StrategyItem,
    from_json,
    from_protobuf,
    read,
    to_json,
    to_protobuf,
)

SAMPLE_FILES = sorted((Path(__file__).parents[1] / "data" / "mindspore_samples").glob("*.[cj]*"))
MLP_JSON = next(path for path in SAMPLE_FILES if path.name == "mlp_semi.json")


def assert_mendable(error: StrategyFileError) -> None:
    lines = str(error).splitlines()
    assert lines[1].startswith("  at:  ")
    assert lines[2].startswith("  fix: ")


def survives(decode: Callable[[bytes], StrategyCheckpoint], data: bytes) -> None:
    try:
        decode(data)
    except StrategyFileError as error:
        assert_mendable(error)


def decode_text(data: bytes) -> StrategyCheckpoint:
    return from_json(data.decode("utf-8", errors="replace"))


@pytest.mark.parametrize("path", SAMPLE_FILES, ids=lambda path: path.name)
def test_a_file_cut_short_anywhere_is_refused_or_read(path: Path) -> None:
    data = path.read_bytes()
    for end in range(len(data)):
        survives(from_protobuf, data[:end])
        survives(decode_text, data[:end])


@given(st.data(), st.sampled_from(SAMPLE_FILES))
def test_damage_gives_one_kind_of_error(data: st.DataObject, path: Path) -> None:
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    survives(from_protobuf, bytes(damaged))
    survives(decode_text, bytes(damaged))


@given(st.binary(max_size=60))
def test_noise_gives_one_kind_of_error(data: bytes) -> None:
    survives(from_protobuf, data)
    survives(decode_text, data)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.data(), JSON_VALUES)
def test_any_value_in_the_place_of_another_gives_one_kind_of_error(
    data: st.DataObject, value: Any
) -> None:
    root = json.loads(MLP_JSON.read_text())
    node = root
    while True:
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        place = data.draw(st.sampled_from(places))
        if data.draw(st.booleans()) or not isinstance(node[place], dict | list):
            node[place] = value
            break
        node = node[place]
    survives(decode_text, json.dumps(root).encode())


LAYOUT = b"\x0a\x01w\x12"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "current_stage is missing"),
        (b"\x08", "end inside an integer"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "longer than 64 bits"),
        (b"\x08" + b"\xff" * 9 + b"\x02", "longer than 64 bits"),
        (b"\x08\x01\x08\x01", "current_stage occurs 2 times"),
        (b"\x08\xff\xff\xff\xff\x1f", "outside uint32"),
        (b"\x0a\x01\x01", "current_stage is coded as bytes"),
        (b"\x08\x01\x12\xff\xff\xff\xff\x0f", "4294967295 bytes where 0 are left"),
        (b"\x08\x01\x12\x00", "parallel_strategys is missing"),
        (b"\x08\x01\x12\x09\x0a\x01\xff\x12\x04\x08\x00\x12\x00", "node_name is not UTF-8"),
        (b"\x08\x01\x12\x0b\x0a\x01a\x12\x06\x08\x00\x12\x02\x08\x00", "number of cuts .* is 0"),
        (b"\x08\x01\x1a\x06" + LAYOUT + b"\x01\x0a", "end inside an integer"),
        (b"\x08\x01\x1a\x07" + LAYOUT + b"\x02\x0a\x00", "tensor_map is missing"),
        (b"{}", "123 is no tag"),
    ],
)
def test_broken_protobuf_is_refused_with_its_reason(data: bytes, message: str) -> None:
    with pytest.raises(StrategyFileError, match=message) as caught:
        from_protobuf(data)
    assert_mendable(caught.value)


def test_a_message_of_too_many_fields_is_refused() -> None:
    with pytest.raises(StrategyFileError, match="more than 1048576 fields"):
        from_protobuf(b"\x08\x01" * (2**20 + 1))


HALF_A_PAIR = r"""{"current_stage":1,"parallel_layout_item":{},
"parallel_strategy_item":{"\ud800":{"stage":0,"parallel_strategy":[]}}}"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("\ufeff{}", "not JSON"),
        ("[]", "a list where an object is due"),
        ("{}", "'current_stage' is missing"),
        ('{"current_stage":true}', "true or false where an integer is due"),
        ('{"current_stage":1.0}', "a number where an integer is due"),
        ('{"current_stage":1,"current_stage":2}', "a key occurs twice"),
        ('{"current_stage":%s}' % ("9" * 5000), "a number is too long"),
        ("[" * 200_000, "nested too deeply"),
        ('{"current_stage":-1,"parallel_strategy_item":{},"parallel_layout_item":{}}', "is -1"),
        ('{"current_stage":1,"parallel_strategy_item":{}}', "'parallel_layout_item' is missing"),
        (HALF_A_PAIR, "surrogate"),
    ],
    ids=lambda value: value[:24],
)
def test_broken_json_is_refused_with_its_reason(text: str, message: str) -> None:
    with pytest.raises(StrategyFileError, match=message) as caught:
        from_json(text)
    assert_mendable(caught.value)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (ParameterLayout("w", (2, 4), (2,)), "names axis 2 of a dev_matrix of 2"),
        (ParameterLayout("w", (2, 4), (-2,)), "names axis -2"),
        (ParameterLayout("w", (2, 4), (0, 0)), "uses axis 0 twice"),
        (ParameterLayout("w", (2, 4), ((1, 0), (0,))), "uses axis 0 twice"),
        (ParameterLayout("w", (2, 4), ((1, -1),)), "names axis -1"),
        (ParameterLayout("w", (2, 4), ((1,), ())), "lists nothing"),
        (ParameterLayout("w", (2, 0), (0,)), "size in dev_matrix is 0"),
        (ParameterLayout("w", (2, 4), (0,), (6,)), "size 6 does not split 4 ways"),
        (ParameterLayout("w", (2, 4), (0,), (8, 8)), "2 dimensions, tensor_map has 1"),
        (ParameterLayout("w", (2, 4), (0,), (-7,)), "has size -7"),
        (ParameterLayout("w", (2,) * 65, (0,)), "has 65 axes"),
        (ParameterLayout("w", (2,), (0,), field=2**31), "field is 2147483648"),
        (ParameterLayout("w", (2,), (0,), indices_offset=(1,)), "0 parts, indices_offset has 1"),
    ],
)
def test_a_layout_that_no_machine_can_hold_is_refused(
    layout: ParameterLayout, message: str
) -> None:
    checkpoint = StrategyCheckpoint(1, (), (layout,))
    for encode in (to_protobuf, to_json):
        with pytest.raises(StrategyFileError, match=message) as caught:
            encode(checkpoint)
        assert_mendable(caught.value)


def test_all_faults_of_a_file_are_told_at_once() -> None:
    bad = [ParameterLayout(f"w{index}", (2,), (1,)) for index in range(12)]
    with pytest.raises(StrategyFileError, match=r"w9(.|\n)*and 2 more") as caught:
        to_protobuf(StrategyCheckpoint(1, (), tuple(bad)))
    assert len(caught.value.violations) == 12


def test_json_refuses_a_name_that_occurs_twice() -> None:
    item = StrategyItem("MatMul_w", 0, ((1,),))
    checkpoint = StrategyCheckpoint(1, (item, item), ())
    assert from_protobuf(to_protobuf(checkpoint)) == checkpoint
    with pytest.raises(StrategyFileError, match="'MatMul_w' occurs twice"):
        to_json(checkpoint)


def test_an_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {"a.ckpt": b"\x08", "b.json": b"[]", "c.json": b'"\xff"'}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
    for name in (*cases, "missing.ckpt"):
        with pytest.raises(StrategyFileError, match=name) as caught:
            read(tmp_path / name)
        assert_mendable(caught.value)
    monkeypatch.setattr(mindspore_strategy, "LARGEST_FILE_BYTES", 2)
    with pytest.raises(StrategyFileError, match="more than 2 bytes"):
        read(tmp_path / "c.json")
