"""Joint graphs: recognised as training steps, and their gradients are those of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from importers.torch_export import import_torch
from importers.torch_export.fx_program import fx_program
from importers.torch_export.reading import graph_at
from ir.canonical import canonical_digest
from ir.graph import Role
from ir.ops import is_known
from tests.importers.imported import run_graph
from tests.importers.torch_export.recorded import DATA, array_of, constants_of, recorded

pytestmark = pytest.mark.fast

CASES: Mapping[str, Mapping[str, Any]] = {case["name"]: case for case in recorded("training")}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    case = CASES[name]
    program = fx_program(case["graph"], "case", name)
    graph = graph_at(program, {})
    assert graph.is_training_step
    assert set(graph.gradients) == set(case["weights"]) == {t.name for t in graph.parameters}
    assert [op.kind for op in graph.ops if not is_known(op.kind)] == []
    values = dict(zip(program.inputs, map(array_of, case["operands"]), strict=True))
    values |= {n: array_of(w) for n, w in case["weights"].items()}
    values |= constants_of(graph, program)
    found = dict(zip(graph.outputs, run_graph(graph, values), strict=True))
    loss = next(n for n in graph.outputs if n not in graph.gradients.values())
    np.testing.assert_allclose(found[loss], array_of(case["loss"]), rtol=1e-5)
    for weight, gradient in graph.gradients.items():
        expected = array_of(case["gradients"][weight])
        np.testing.assert_allclose(found[gradient], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n.endswith("_core")])
def test_a_joint_archive_is_the_same_training_step(name: str) -> None:
    graph = import_torch(DATA / f"{name.removesuffix('_core')}_joint.pt2")
    other = graph_at(fx_program(CASES[name]["graph"], "case", name), {})
    assert canonical_digest(graph) == canonical_digest(other)
    assert set(graph.gradients) == set(other.gradients) == set(CASES[name]["weights"])


@pytest.mark.parametrize("form", ["", "_core"])
def test_statistics_that_are_kept_are_no_results(form: str) -> None:
    graph = import_torch(DATA / f"residual_train{form}.pt2")
    still = import_torch(DATA / "residual.pt2")
    assert [op.kind for op in graph.ops] == [op.kind for op in still.ops]
    assert graph.outputs == still.outputs
    assert graph.inputs == ("x",)
    norms = [op for op in graph.ops if op.kind == "BatchNormalization"]
    assert all(op.attributes["training_mode"] for op in norms)
    roles = {graph.tensors[n].role for op in norms for n in op.inputs[3:]}
    assert roles == {Role.BUFFER if form else Role.CONSTANT}
