"""Files made to harm: one clear error, nothing executed, little memory."""

from __future__ import annotations

import json
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from importers.errors import ModelError
from importers.size_texts import number_of, symbols_in
from importers.torch_export import constant_values, import_torch
from tests.importers.torch_export.hostile import GRAPH, archive, fx_graph, refused
from tests.importers.torch_export.recorded import DATA

pytestmark = pytest.mark.fast


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    evil = pickle.dumps(Bomb(mark))
    pickle.loads(evil)
    assert mark.exists()
    mark.unlink()
    table = json.loads(zipfile.ZipFile(DATA / "mlp.pt2").read(
        "mlp/data/weights/model_weights_config.json"))  # fmt: skip
    for entry in table["config"].values():
        entry["use_pickle"] = True
    path = archive(
        tmp_path,
        more={
            "mlp/data/sample_inputs/model.pt": evil,
            "mlp/data/weights/model_weights_config.json": json.dumps(table).encode(),
            **{f"mlp/data/weights/weight_{i}": evil for i in range(4)},
        },
    )
    graph = import_torch(path)
    assert constant_values(path, [t.name for t in graph.parameters]) == {}
    assert not mark.exists()


def test_an_entry_that_unpacks_to_far_more_than_it_takes_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, more={GRAPH: b" " * 2**26})
    tracemalloc.start()
    assert "unpacks to" in refused(path).what
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_an_entry_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, more={GRAPH: b" " * 2**22})
    size = struct.pack("<I", 2**22)
    path.write_bytes(path.read_bytes().replace(size, struct.pack("<I", 100)))
    assert "cannot be read" in refused(path).what


def test_a_list_of_entries_without_end_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rfind(b"PK\x05\x06") + 12, 2**31)
    path.write_bytes(data)
    assert "lists its entries" in refused(path).what


@pytest.mark.parametrize("cut", [0, 10, 100, -30, -1])
def test_a_part_of_an_archive_is_refused(tmp_path: Path, cut: int) -> None:
    path = archive(tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    assert "complete archive" in refused(path).what


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model.pt2"
    folder.mkdir()
    assert "folder" in refused(folder).what
    assert "cannot read" in refused(tmp_path / "none.pt2").what
    assert "cannot read" in refused(tmp_path / "none.fx.json").what


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pt2"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", b"")
    assert "no program" in refused(path).what


@pytest.mark.parametrize("depth", [2_000, 1_000_000])
def test_deep_json_is_refused(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.fx.json"
    path.write_text('{"nodes": ' + "[" * depth + "]" * depth + "}")
    assert "too deep" in refused(path).what


def test_json_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.fx.json"
    path.write_bytes(b'{"nodes": [' + b"[]," * 2**22 + b"[]]}")
    tracemalloc.start()
    assert "values in the JSON text" in refused(path).what
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"nodes": 3}', "\xff", '{"nodes": [{}]}'])
def test_json_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.fx.json"
    path.write_bytes(text.encode("latin-1"))
    refused(path)


def test_an_unknown_element_type_is_refused(tmp_path: Path) -> None:
    def change(program: dict[str, Any]) -> None:
        program["graph_module"]["graph"]["tensor_values"]["x"]["dtype"] = 99

    assert "element type 99" in refused(archive(tmp_path, change)).what
    path = fx_graph(tmp_path, lambda r: r["nodes"][0]["val"].update(dtype="float3"))
    assert "element type 'float3'" in refused(path).what


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, lambda p: p["schema_version"].update(major=9))
    assert "schema version 9" in refused(path).what


@pytest.mark.parametrize("size", [-1, 2**62, "__import__('os').abort()", "9**9**9", "(" * 3000])
def test_an_impossible_size_is_refused(tmp_path: Path, size: int | str) -> None:
    refused(fx_graph(tmp_path, lambda r: r["nodes"][0]["val"].update(shape=[size, 4])))


def test_a_size_that_the_operator_does_not_make_is_refused(tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        node = next(n for n in record["nodes"] if n["target"] == "aten.linear.default")
        node["val"]["shape"] = [64, 2049]

    assert "its operator makes" in refused(fx_graph(tmp_path, change)).what


def test_a_value_that_nobody_makes_is_refused(tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        next(n for n in record["nodes"] if n["op"] == "call_function")["args"][0]["ref"] = "nobody"

    assert "'nobody' is read before it is made" in refused(fx_graph(tmp_path, change)).what


def test_a_view_of_itself_ends(tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        relu = next(n for n in record["nodes"] if n["target"] == "aten.relu.default")
        view = {**relu, "target": "aten.alias.default", "args": [{"ref": relu["name"]}]}
        place = record["nodes"].index(relu) + 1
        write = {**relu, "name": "w", "target": "aten.relu_.default", "args": view["args"]}
        record["nodes"][place:place] = [view, write]

    read_or_refused(fx_graph(tmp_path, change))


def test_expressions_are_read_and_never_executed() -> None:
    assert (
        number_of("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))", {"s0": 5}) == 9
    )
    assert number_of("2*s0//3 + s1**2", {"s0": 4, "s1": 3}) == 11
    assert number_of("Eq(Mod(s0, 2), 0)", {"s0": 4}) is True
    assert symbols_in("FloorDiv(Symbol('s0', integer=True), Integer(2))") == {"s0"}
    for text in ("__import__('os')", "s0.real", "[1]", "'a'", "9**9**9", "1/0", "-" * 3000 + "1",
                 "lambda: 1", "s0 if s0 else 1", "9" * 3999):  # fmt: skip
        assert number_of(text, {"s0": 1}) is None, text


def read_or_refused(path: Path) -> None:
    with suppress(ModelError):
        import_torch(path)
