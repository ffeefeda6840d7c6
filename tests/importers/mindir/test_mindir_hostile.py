"""Files made to harm: one clear error, little memory, no weights read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from importers.mindir import flattening, wire
from importers.mindir.reading import constant_values, import_mindir
from ir.wire import varint
from tests.importers.mindir.crafted import (
    chunk,
    function,
    message,
    model,
    node,
    refused,
    shape,
    tensor,
    written,
)

pytestmark = pytest.mark.fast

DATA = Path(__file__).parents[2] / "data" / "mindir"
RELU = node("REF::ReLU:1", ["x"], "y", shape(4, 8))


def test_a_file_that_is_written_so_is_read(tmp_path: Path) -> None:
    graph = import_mindir(written(tmp_path, model([RELU])))
    assert [(op.name, op.kind) for op in graph.ops] == [("Default/y-op0", "Relu")]


@pytest.mark.parametrize("cipher", ["AES-GCM", "AES-CBC", "SM4-CBC"])
def test_an_encrypted_file_is_named_as_such(cipher: str) -> None:
    assert f"encrypted ({cipher})" in refused(DATA / f"{cipher.lower()}.mindir").what


@pytest.mark.parametrize("version", [4, 2**40, -1])
def test_a_newer_version_is_refused(tmp_path: Path, version: int) -> None:
    error = refused(written(tmp_path, model([RELU], mind_ir_version=version)))
    assert f"MindIR version {version}" in error.what


def test_numbers_of_a_big_endian_machine_are_refused(tmp_path: Path) -> None:
    assert "big-endian" in refused(written(tmp_path, model([RELU], little_endian=0))).what


def test_every_part_of_a_file_is_refused(tmp_path: Path) -> None:
    whole = (DATA / "mlp.mindir").read_bytes()
    for size in range(0, len(whole), 97):
        refused(written(tmp_path, whole[:size]))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder.mindir"
    folder.mkdir()
    assert "folder" in refused(folder).what
    assert "cannot read" in refused(tmp_path / "none.mindir").what
    assert "empty" in refused(written(tmp_path, b"")).what


@pytest.mark.parametrize("data", [b"\x00" * 50, b"PK\x03\x04" * 20, b"{}", chunk(2, b"\xff")])
def test_another_format_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "MindIR" in refused(written(tmp_path, data)).what


@pytest.mark.parametrize("length", [2**31, 2**63, 2**64 - 1])
def test_a_length_beyond_the_file_is_refused(tmp_path: Path, length: int) -> None:
    assert "bytes where" in refused(written(tmp_path, varint(7 << 3 | 2) + varint(length))).what


def test_an_integer_without_end_is_refused(tmp_path: Path) -> None:
    assert "longer than 64 bits" in refused(written(tmp_path, b"\xff" * 40)).what


def test_deep_messages_are_refused(tmp_path: Path) -> None:
    value = message("AttributeProto", type=7, i=1)
    for _ in range(500):
        value = message("AttributeProto", type=20, values=value)
    constant = node(
        "Constant", [], "c", message("AttributeProto", name="value", type=20, values=value)
    )
    assert "deep" in refused(written(tmp_path, model([constant, RELU]))).what


def test_fields_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FIELDS", 1000)
    monkeypatch.setattr(wire.Budget, "__init__", lambda self: setattr(self, "left", 1000))
    data = model([RELU]) + message("ModelProto", primitives=[b""] * 2000)
    assert "more than 1000 fields" in refused(written(tmp_path, data)).what


def test_weights_are_not_read(tmp_path: Path) -> None:
    weight = tensor(2**11, 2**11, name="w", ref_key="w", raw_data=bytes(2**24))
    graph = function("g", [RELU], ["x"], "y") + message("GraphProto", parameter=weight)
    path = written(tmp_path, model([RELU], graph=graph))
    import_mindir(path)
    tracemalloc.start()
    import_mindir(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


@pytest.mark.parametrize("dims", [(-2, 8), (2**62, 8), (2**40, 2**40)])
def test_sizes_beyond_belief_are_refused(tmp_path: Path, dims: tuple[int, ...]) -> None:
    refused(written(tmp_path, model([node("REF::ReLU:1", ["x"], "y", shape(*dims))])))


@pytest.mark.parametrize("code", [0, 8, 14, 18, 99])
def test_an_unknown_element_type_is_refused(tmp_path: Path, code: int) -> None:
    bad = node("REF::ReLU:1", ["x"], "y", shape(4, 8, code=code))
    assert f"element type {code}" in refused(written(tmp_path, model([bad]))).what


def test_control_flow_is_refused() -> None:
    assert "depends on data" in refused(DATA / "branch.mindir").what


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    first = node("REF::Add:1", ["x", "b"], "a", shape(4, 8))
    second = node("REF::ReLU:1", ["a"], "b", shape(4, 8))
    error = refused(written(tmp_path, model([first, second], "b")))
    assert "'b' is read before it is made" in error.what


def test_a_node_that_reads_itself_is_refused(tmp_path: Path) -> None:
    again = node("REF::Add:1", ["x", "y"], "y", shape(4, 8))
    assert "before it is made" in refused(written(tmp_path, model([again]))).what


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    inner = function("f", [node("REF::f", ["z"], "r", shape(4, 8))], ["z"], "r")
    call = node("REF::f", ["x"], "y", shape(4, 8))
    assert "calls itself" in refused(written(tmp_path, model([call], functions=inner))).what


def _doubling(levels: int) -> list[bytes]:
    """Functions of which each calls the next one twice."""
    made = []
    for level in range(levels):
        calls = [
            node(f"REF::f{level + 1}", [f"z{level}"], f"a{level}", shape(4, 8)),
            node(f"REF::f{level + 1}", [f"a{level}"], f"b{level}", shape(4, 8)),
        ]
        made.append(function(f"f{level}", calls, [f"z{level}"], f"b{level}"))
    last = [node("REF::ReLU:1", ["last"], "r", shape(4, 8))]
    return [*made, function(f"f{levels}", last, ["last"], "r")]


def test_calls_that_double_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flattening, "MAX_STEPS", 5000)
    call = node("REF::f0", ["x"], "y", shape(4, 8))
    path = written(tmp_path, model([call], functions=_doubling(40)))
    assert "more than 5000 nodes" in refused(path).what
    path = written(tmp_path, model([call], functions=_doubling(4)))
    assert len(import_mindir(path).ops) == 16


def test_calls_within_calls_are_counted(tmp_path: Path) -> None:
    deep = [
        function(
            f"f{i}", [node(f"REF::f{i + 1}", [f"z{i}"], f"r{i}", shape(4, 8))], [f"z{i}"], f"r{i}"
        )
        for i in range(200)
    ]
    call = node("REF::f0", ["x"], "y", shape(4, 8))
    assert "deep" in refused(written(tmp_path, model([call], functions=deep))).what


def test_tuples_that_double_are_refused(tmp_path: Path) -> None:
    nodes = [node("REF::MakeTuple:1", ["x", "x"], "t0")]
    nodes += [node("REF::MakeTuple:1", [f"t{i}", f"t{i}"], f"t{i + 1}") for i in range(60)]
    assert "a tuple has more" in refused(written(tmp_path, model(nodes, "t60"))).what


def test_an_item_that_is_not_there_is_refused(tmp_path: Path) -> None:
    index = node("Constant", [], "i", message("AttributeProto", name="value", type=7, i=9))
    item = node("REF::TupleGetItem:1", ["t", "i"], "y")
    nodes = [node("REF::MakeTuple:1", ["x", "x"], "t"), index, item]
    assert "item 9 of a tuple of 2" in refused(written(tmp_path, model(nodes))).what


def test_a_noted_size_that_is_wrong_is_refused(tmp_path: Path) -> None:
    wrong = node("REF::ReLU:1", ["x"], "y", shape(4, 9))
    assert "the file says that" in refused(written(tmp_path, model([wrong]))).what


def test_numbers_beside_the_file_stay_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(128))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "link").symlink_to(tmp_path / "secret")
    for place in ("../secret", str(tmp_path / "secret"), "a/../../secret", "link"):
        outside = message("ExternalDataProto", location=place, offset=0, length=128)
        weight = tensor(4, 8, name="w", ref_key="w", external_data=outside)
        add = node("REF::Add:1", ["x", "w"], "y", shape(4, 8))
        graph = function("g", [add], ["x"], "y") + message("GraphProto", parameter=weight)
        path = written(tmp_path / "model", model([], graph=graph))
        assert [t.name for t in import_mindir(path).parameters] == ["w"]
        assert constant_values(path, ["w"]) == {}
