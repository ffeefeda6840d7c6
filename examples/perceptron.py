"""A two-layer perceptron as an ONNX file, for the examples that run a plan.

python examples/perceptron.py mlp.onnx
"""
# ruff: noqa: INP001

from __future__ import annotations

import sys
from pathlib import Path

from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
perceptron (float[256, 512] x) => (float[256, 512] y)
<float[512, 2048] up = ["location": "weights"], float[2048, 512] down = ["location": "weights"]>
{
    hidden = MatMul(x, up)
    active = Relu(hidden)
    y = MatMul(active, down)
}
"""
"""The weights are named and not stored: planning needs their shapes alone."""


def main() -> None:
    """Write the model to the file that is named."""
    Path(sys.argv[1]).write_bytes(parser.parse_model(MODEL).SerializeToString())


if __name__ == "__main__":
    main()
