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
from ir.graph import Op, OpGraph, Role, Tensor
from ir.plan import (
    Bound,
    Estimate,
    NamedLayout,
    Plan,
    PlannedCollective,
    PlannedOperator,
    PlannedTensor,
    Space,
)

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


SERVER_AND_CARD = (("server", "card0", "card1"), ())


def _graph() -> OpGraph:
    tensors = [Tensor("ids", (8, 16), "int64", Role.INPUT)]
    ops = []
    for layer in range(2):
        weight, result = f"m.layers.{layer}.proj.weight", f"h{layer}"
        tensors.append(Tensor(weight, (1024, 1024), "bfloat16", Role.PARAMETER))
        tensors.append(Tensor(result, (8, 16, 1024), "bfloat16"))
        scope = f"m.layers.{layer}.proj"
        ops.append(Op(f"op{layer}", "MatMul", ("ids", weight), (result,), {}, scope))
    ops.append(Op("end", "Softmax", ("h1",), ("y",), {}, "m.head"))
    tensors.append(Tensor("y", (8, 16, 1024), "bfloat16"))
    table = {t.name: t for t in tensors}
    return OpGraph("tiny", table, tuple(ops), ("ids",), ("y",), batch=8)


def _operators(graph: OpGraph) -> tuple[PlannedOperator, ...]:
    data = NamedLayout((("server", "card0", "card1"), (), ()))
    weight = NamedLayout(((), ("card0", "card1")))
    partial = NamedLayout(((), (), ()), ("card0", "card1"))
    out = []
    for op in graph.ops:
        operands = (data, weight) if op.kind == "MatMul" else (data,)
        results = (partial,) if op.kind == "MatMul" else (data,)
        time_s = 0.25 if op.kind == "MatMul" else 0.5
        out.append(
            PlannedOperator(op.name, op.kind, op.label, op.scope, (), operands, results, time_s)
        )
    return tuple(out)


@pytest.fixture
def plan() -> Plan:
    """Two servers of four cards, two equal layers and a head; no two numbers mean the same."""
    graph = _graph()
    rest, used = NamedLayout((("server", "card0"), ("card1",))), NamedLayout(((), ("card1",)))
    parameters = tuple(
        PlannedTensor(t.name, "parameter", t.dims, t.dtype, rest, used) for t in graph.parameters
    )

    def collective(
        kind: str, axes: tuple[str, ...], size: int, nbytes: float, cause: str
    ) -> PlannedCollective:
        tier = "server" if "server" in axes else "card"
        return PlannedCollective(kind, axes, size, nbytes, 2, 0.5, tier, cause, "", "")

    return Plan(
        graph=graph,
        digest="0",
        cluster={
            "name": "pair",
            "chip": {"name": "chip"},
            "tiers": [{"name": "server"}, {"name": "card"}],
        },
        mesh=(("server", 2, 0), ("card0", 2, 1), ("card1", 2, 1)),
        rank_order=tuple(range(8)),
        request={"training": True, "optimizer": "adamw", "target": "generic"},
        operators=_operators(graph),
        tensors=parameters,
        recomputed=("h0", "h1"),
        collectives=(
            collective("all_reduce", ("card0", "card1"), 4, 10.0, "gradient sync"),
            collective("all_gather", ("card1", "card0"), 4, 5.0, "parameter gather"),
            collective("all_gather", ("server",), 2, 100.0, "parameter gather"),
            collective("all_gather", ("server",), 2, 100.0, "forward"),
        ),
        estimate=Estimate(
            step_time_s=3.0,
            time_by_cause={
                "all_reduce in card": 0.5,
                "all_gather in card": 0.5,
                "all_gather in server": 1.0,
                "compute forward": 1.0,
            },
            peak_memory_bytes=3 * 2**30,
            memory_limit_bytes=4 * 2**30,
            memory_by_cause={"activations": 2 * 2**30, "weights": 2**30},
        ),
        space=Space("free", ((("server", 2), ("card", 4)),), 7, 1234, 40, 12.3, 5),
        bound=Bound(2.5, 0.2, "bounded", "portfolio"),
        notes=("a note",),
    )
