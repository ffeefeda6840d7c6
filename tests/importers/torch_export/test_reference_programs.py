"""Programs of real networks: they import, and their plans verify."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from importers.onnx import import_onnx
from importers.torch_export import import_torch
from ir.graph import OpGraph
from ir.ops import is_known
from tests.importers.torch_export.recorded import DATA

BOUND: Mapping[str, Mapping[str, int]] = {
    "mlp_dyn.pt2": {"s77": 64},
    "squeezenet1_1.pt2": {},
    "tiny_llama.pt2": {"s72": 8, "s70": 64},
    "gpt_small_joint_train.fx.json": {},
    "gpt_small_joint_ep.fx.json": {},
}
PARAMETERS = {"mlp_dyn.pt2": 19_210, "squeezenet1_1.pt2": 1_235_496, "tiny_llama.pt2": 139_584}


def program(name: str, folder: Path) -> Path:
    """The file, unpacked if need be."""
    packed = DATA / "reference" / f"{name}.gz"
    if not packed.exists():
        return DATA / "reference" / name
    path = folder / name
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


@pytest.mark.parametrize("name", BOUND)
def test_every_operator_is_known(name: str, tmp_path: Path) -> None:
    graph = import_torch(program(name, tmp_path), dict(BOUND[name]))
    assert [op.kind for op in graph.ops if not is_known(op.kind)] == []
    elements = sum(t.elements for t in graph.parameters)
    assert elements == PARAMETERS.get(name, 4_172_800)
    assert graph.is_training_step == ("joint" in name)
    assert len(graph.gradients) == (29 if "joint" in name else 0)


@pytest.mark.parametrize("name", BOUND)
def test_a_plan_is_found_and_verified(name: str, tmp_path: Path) -> None:
    path, run = program(name, tmp_path), CliRunner().invoke
    bind = [f"--bind={k}={v}" for k, v in BOUND[name].items()]
    found = run(app, ["search", str(path), "--devices", "4", "-o", str(tmp_path / "plan"), *bind])
    assert found.exit_code == 0, found.output
    plan = str(tmp_path / "plan" / "plan.json")
    verdict = run(app, ["verify", str(path), plan, "--json"])
    assert verdict.exit_code == 0, verdict.output
    record = json.loads(verdict.stdout)
    assert record["status"] == "verified"
    delivered = {output["name"] for output in record["outputs"]}
    assert delivered
    graph = import_torch(path, dict(BOUND[name]))
    # Equal layers are left out of the small copy, and their gradients with them.
    assert len(delivered & set(graph.gradients.values())) >= len(graph.gradients) // 2


def test_a_joint_graph_computes_as_much_as_the_same_step_from_onnx(tmp_path: Path) -> None:
    """The exporter to ONNX simplified the same trace: the products are the same."""
    step = import_onnx(DATA.parent / "models" / "gpt_small_train_step.onnx.gz")
    joint = import_torch(program("gpt_small_joint_train.fx.json", tmp_path))
    assert _products(step) == _products(joint)
    weights = [{t.name.removeprefix("param."): t.dims for t in g.parameters} for g in (step, joint)]
    assert weights[0] == weights[1]


def _products(graph: OpGraph) -> list[tuple[tuple[int, ...], ...]]:
    found = [
        tuple(sorted(tuple(sorted(graph.tensors[n].dims)) for n in (*op.inputs, *op.outputs)))
        for op in graph.ops
        if op.kind == "MatMul"
    ]
    return sorted(found)
