"""Small models, a plan made by hand, and a way to run commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from onnx import parser
from typer.testing import CliRunner

from cli.main import app
from ir.plan import Plan
from tests.plans import tiny_plan

HEADER = '<ir_version: 10, opset_import: ["": 20, "custom": 1]>'
MLP = f"""{HEADER}
mlp (bfloat16[ROWS, 256] x) => (bfloat16[ROWS, 256] y)
<bfloat16[256, 1024] up = ["location": "w"], bfloat16[1024, 256] down = ["location": "w"]>
{{
    hidden = MatMul(x, up)
    active = Relu(hidden)
    y = MatMul(active, down)
}}
"""
UNKNOWN = f"""{HEADER}
strange (float[8, 16] x) => (float[8, 16] y)
<float[16, 16] w = ["location": "w"], float[8, 16] h>
{{
    h = MatMul(x, w)
    y = custom.Twist(h)
}}
"""


@dataclass(frozen=True)
class Run:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The object on stdout; fails if there is anything beside it."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@pytest.fixture
def planner() -> Callable[..., Run]:
    """Runs the `planner` command in this process."""

    def run(*args: object) -> Run:
        result = CliRunner().invoke(app, [str(a) for a in args], prog_name="planner")
        return Run(result.exit_code, result.stdout, result.stderr)

    return run


def _save(text: str, path: Path) -> Path:
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


@pytest.fixture(scope="session")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two products of 64 rows, without weights."""
    return _save(MLP.replace("ROWS", "64"), tmp_path_factory.mktemp("models") / "mlp.onnx")


@pytest.fixture(scope="session")
def dynamic_mlp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a dynamic dimension named `batch`."""
    return _save(MLP.replace("ROWS", "batch"), tmp_path_factory.mktemp("models") / "dynamic.onnx")


@pytest.fixture(scope="session")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an operator that no rule describes."""
    return _save(UNKNOWN, tmp_path_factory.mktemp("models") / "strange.onnx")


@pytest.fixture
def plan() -> Plan:
    """Two servers of four cards, two equal layers and a head; no two numbers mean the same."""
    return tiny_plan()
