"""The examples run and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from importers.onnx import import_onnx

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    environment = {"PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_the_perceptron_is_planned() -> None:
    lines = run("plan_mlp.py").splitlines()
    assert lines[0].startswith("step ")
    assert [line.split()[0] for line in lines[-4:]] == ["MatMul", "Relu", "MatMul", "Loss"]


def test_every_cluster_is_compared(mlp: Path) -> None:
    lines = run("compare_clusters.py", str(mlp), "64").splitlines()
    assert [line.split()[:2] for line in lines] == [
        [cluster, devices]
        for cluster in ("atlas-800t-a2", "dgx-a100", "dgx-h100")
        for devices in ("8", "16")
    ]
    assert all(" ms " in line for line in lines)


def test_the_perceptron_to_run_is_a_model(tmp_path: Path) -> None:
    run("perceptron.py", str(tmp_path / "mlp.onnx"))
    graph = import_onnx(tmp_path / "mlp.onnx")
    assert [t.name for t in graph.parameters] == ["up", "down"]


def test_no_example_is_forgotten() -> None:
    tested = Path(__file__).read_text()
    assert [p.name for p in EXAMPLES.glob("*.py") if f'"{p.name}"' not in tested] == []
