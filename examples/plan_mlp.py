"""Plan a two-layer perceptron through the library, without the command line.

python examples/plan_mlp.py
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import tempfile
from pathlib import Path

from onnx import parser

from importers.onnx import import_onnx
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

MLP = """
<ir_version: 10, opset_import: ["": 20]>
mlp (bfloat16[64, 1024] x) => (bfloat16[64, 1024] y)
<bfloat16[1024, 4096] up = ["location": "mlp.weights"],
 bfloat16[4096, 1024] down = ["location": "mlp.weights"]>
{
    hidden = MatMul(x, up)
    active = Relu(hidden)
    y = MatMul(active, down)
}
"""
"""The weights are named and not stored: planning needs their shapes alone."""


def plan_mlp(devices: int = 8, batch: int = 4096) -> Plan:
    """The fastest way to train the perceptron on one DGX H100."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mlp.onnx")
        path.write_bytes(parser.parse_model(MLP).SerializeToString())
        graph = import_onnx(path)
    request = SearchRequest(batch=batch, target="generic")
    return search(graph, named_cluster("dgx-h100", devices), request)


def main() -> None:
    """Print the step time, its causes, and how each operator is split."""
    plan = plan_mlp()
    print(f"step {plan.estimate.step_time_s * 1e6:.1f} us, bound {plan.bound.bound_s * 1e6:.1f} us")
    for cause, time_s in plan.estimate.time_by_cause.items():
        print(f"  {cause:30} {time_s * 1e6:8.1f} us")
    for op in plan.operators:
        operands = " ".join(str(layout) for layout in op.inputs if layout is not None)
        results = " ".join(str(layout) for layout in op.outputs if layout is not None)
        print(f"  {op.label:8} {operands} -> {results}")


if __name__ == "__main__":
    main()
