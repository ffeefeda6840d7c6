"""Programs as files: sizes that are symbols, weights, names, in-place calls, unknown operators."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from importers.model_file import import_model_file, model_format
from importers.torch_export import constant_values, import_torch
from ir.graph import Role
from ir.ops import is_described
from ir.symbols import Symbol, with_divisors
from planner.constraints.operator_rules import annotated
from tests.importers.torch_export.hostile import fx_graph, refused
from tests.importers.torch_export.recorded import DATA, array_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("names", [("s77", "s27"), ("x.0", "x.1")])
def test_symbols_are_bound_by_name_or_by_dimension(names: tuple[str, str]) -> None:
    graph = import_torch(DATA / "dynamic.pt2", dict(zip(names, (8, 32), strict=True)))
    assert graph.tensors["x"].dims == (8, 32, 64)
    assert graph.tensors[graph.outputs[0]].dims == (8, 32, 64)
    assert graph.symbols == dict(
        zip(sorted(names), (8, 32) if names[0] == "x.0" else (32, 8), strict=True)
    )


def test_both_forms_have_the_same_sizes() -> None:
    bind = {"s77": 8, "s27": 32}
    graphs = [import_torch(DATA / f"dynamic{end}", bind) for end in (".pt2", ".fx.json")]
    found = [[(op.kind, [g.tensors[n].dims for n in op.outputs]) for op in g.ops] for g in graphs]
    assert found[0] == found[1]


def test_a_range_of_sizes_gives_what_divides_them() -> None:
    bind: dict[str, int | Symbol] = {"s77": Symbol(16, 64, 16), "s27": 128}
    graph = with_divisors(import_torch(DATA / "dynamic.pt2", bind))
    assert graph.tensors["x"].divisors == (16, 128, 64)


def test_a_size_without_a_value_names_the_flag_that_gives_it() -> None:
    error = refused(DATA / "dynamic.pt2", {"s77": 8})
    assert "dimension 's27' has no value" in error.what
    assert "x.1" in error.where
    assert "--bind s27=16" in error.fix


def test_a_size_out_of_the_traced_range_is_refused() -> None:
    error = refused(DATA / "dynamic.pt2", {"s77": 128, "s27": 16})
    assert "from 2 to 64" in error.fix
    assert "no dynamic dimension 's1'" in refused(DATA / "dynamic.pt2", {"s1": 8}).what
    assert "leave --bind out" in refused(DATA / "mlp.pt2", {"s1": 8}).fix


def test_guards_are_conditions_on_sizes() -> None:
    graph = import_torch(DATA / "guarded.pt2", {"s44": 4, "s17": 6})
    assert graph.tensors[graph.outputs[0]].dims == (14, 4)
    assert "from 2 to 32" in refused(DATA / "guarded.pt2", {"s44": 33, "s17": 6}).fix


def test_a_guard_that_does_not_hold_is_told(tmp_path: Path) -> None:
    path = tmp_path / "guarded.pt2"
    with zipfile.ZipFile(DATA / "guarded.pt2") as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if "models/" in name:
                program = json.loads(data)
                program["guards_code"] = ["L['x'].size()[0] % 3 == 0", "what()"]
                data = json.dumps(program).encode()
            target.writestr(name, data)
    error = refused(path, {"s44": 4, "s17": 6})
    assert "L['x'].size()[0] % 3 == 0" in error.what
    assert import_torch(path, {"s44": 3, "s17": 6}).ops


def test_weights_are_read_raw() -> None:
    expected = json.loads((DATA / "weighted.json").read_text())
    graph = import_torch(DATA / "weighted.pt2")
    names = [t.name for t in graph.parameters]
    assert sorted(names) == sorted(expected)
    for name, array in constant_values(DATA / "weighted.pt2", names).items():
        np.testing.assert_allclose(array, array_of(expected[name]), atol=1e-7)
        del expected[name]
    assert not expected


def test_parameters_keep_their_paths_and_operators_their_modules() -> None:
    graph = import_torch(DATA / "transformer.pt2")
    assert "before.weight" in {t.name for t in graph.parameters}
    assert {op.scope for op in graph.ops if op.kind == "LayerNormalization"} == {
        "before",
        "between",
    }


def test_files_are_known_by_name_and_content(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes((DATA / "mlp.fx.json").read_bytes())
    assert len(import_model_file(path).ops) == len(import_model_file(DATA / "mlp.pt2").ops)
    facts = model_format(DATA / "mlp.pt2").facts(DATA / "mlp.pt2")
    assert facts.kinds == {"aten.linear.default": 2, "aten.relu.default": 1}
    assert facts.producer.startswith("torch 2.")


def unknown(record: dict[str, Any]) -> None:
    for node in record["nodes"]:
        if node["target"] == "aten.relu.default":
            node["target"] = "custom.twist.default"


def test_an_operator_that_no_table_has_can_be_given_a_rule(tmp_path: Path) -> None:
    graph = import_torch(fx_graph(tmp_path, unknown))
    assert [op.kind for op in graph.ops if not is_described(op)] == ["custom::twist"]
    ruled = annotated(graph, [("custom::twist", "b h -> b h")])
    assert all(is_described(op) for op in ruled.ops)


def in_place(record: dict[str, Any]) -> None:
    """The activation writes to its operand, which the second layer then reads by its old name."""
    relu = next(n for n in record["nodes"] if n["target"] == "aten.relu.default")
    relu["target"] = "aten.relu_.default"
    second = [n for n in record["nodes"] if n["target"] == "aten.linear.default"][1]
    second["args"][0] = relu["args"][0]


def test_writing_in_place_changes_the_operand(tmp_path: Path) -> None:
    graph = import_torch(fx_graph(tmp_path, in_place))
    assert [op.kind for op in graph.ops if op.kind in {"MatMul", "Relu"}] == [
        "MatMul", "Relu", "MatMul",
    ]  # fmt: skip


def through_a_view(record: dict[str, Any]) -> None:
    in_place(record)
    place = next(i for i, n in enumerate(record["nodes"]) if n["target"] == "aten.relu_.default")
    relu = record["nodes"][place]
    view = {
        **relu, "name": "part", "target": "aten.slice.Tensor", "args": [*relu["args"], 1, 0, 4],
        "val": {"shape": [64, 4], "dtype": "float32"},
    }  # fmt: skip
    relu["args"], relu["val"] = [{"ref": "part"}], view["val"]
    record["nodes"].insert(place, view)


def test_writing_to_a_view_is_refused_where_the_whole_is_read_again(tmp_path: Path) -> None:
    assert "after a view of it was written to" in refused(fx_graph(tmp_path, through_a_view)).what


def buffered(record: dict[str, Any]) -> None:
    record["signature"]["inputs_to_buffers"] = {"x": "state"}
    record["signature"]["buffers_to_mutate"] = {record["nodes"][-1]["args"][0][0]["ref"]: "state"}


def test_a_buffer_that_the_program_writes_is_no_constant(tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        buffered(record)
        output = record["nodes"][-1]["args"][0]
        output.append({"ref": record["nodes"][-3]["name"]})

    graph = import_torch(fx_graph(tmp_path, change))
    assert graph.tensors["state"].role is Role.BUFFER
    assert graph.inputs == ()
    assert any("only update buffers" in note for note in graph.notes)


def test_archives_of_older_versions_are_read(tmp_path: Path) -> None:
    """They have the graph at the top, beside pickles of the state."""
    path = tmp_path / "old.pt2"
    with zipfile.ZipFile(DATA / "mlp.pt2") as source, zipfile.ZipFile(path, "w") as target:
        target.writestr("version", "8.2")
        target.writestr("serialized_state_dict.pt", b"no pickle at all")
        target.writestr("serialized_exported_program.json", source.read("mlp/models/model.json"))
    graph = import_torch(path)
    assert [op.kind for op in graph.ops] == [op.kind for op in import_torch(DATA / "mlp.pt2").ops]
    assert constant_values(path, [t.name for t in graph.parameters]) == {}
