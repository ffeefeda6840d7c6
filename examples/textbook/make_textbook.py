"""Write the textbook nets as ONNX files: their plans are known, see docs/cases.md.

python examples/textbook/make_textbook.py [FOLDER]
"""
# ruff: noqa: INP001

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from onnx import parser

HEADER = '<ir_version: 10, opset_import: ["": 23]>'
STORED = '["location": "textbook.weights"]'
"""The weights are named and not stored: planning needs their shapes alone."""


def two_products(name: str, rows: int, width: int, inner: int, out: int) -> str:
    """Z = (X W) V."""
    return f"""{HEADER}
{name} (bfloat16[{rows}, {width}] x) => (bfloat16[{rows}, {out}] z)
<bfloat16[{width}, {inner}] w = {STORED}, bfloat16[{inner}, {out}] v = {STORED}>
{{
    y = MatMul(x, w)
    z = MatMul(y, v)
}}
"""


DENSE_ATTENTION = f"""{HEADER}
dense_attention (bfloat16[32, 12288] x) => (bfloat16[32, 768] z)
<bfloat16[12288, 128] table = {STORED},
 bfloat16[768, 128] wq = {STORED}, bfloat16[768] bq = {STORED},
 bfloat16[768, 128] wk = {STORED}, bfloat16[768] bk = {STORED},
 bfloat16[768, 128] wv = {STORED}, bfloat16[768] bv = {STORED}>
{{
    embedded = MatMul(x, table)
    dense_q = Gemm <transB = 1> (embedded, wq, bq)
    q = Relu(dense_q)
    dense_k = Gemm <transB = 1> (embedded, wk, bk)
    k = Relu(dense_k)
    dense_v = Gemm <transB = 1> (embedded, wv, bv)
    v = Relu(dense_v)
    turned = Transpose <perm = [1, 0]> (k)
    products = MatMul(q, turned)
    scores = Relu(products)
    weighted = MatMul(scores, v)
    z = Relu(weighted)
}}
"""
"""MindSpore's net of dense layers and attention by products: weights of a layer are out x in."""

NETS: Mapping[str, str] = MappingProxyType(
    {
        "reid": two_products("reid", 16384, 65536, 512, 524288),
        "dlrm": two_products("dlrm", 32768, 65536, 1024, 4096),
        "transformer": two_products("transformer", 16384, 4096, 16384, 4096),
        "dense_attention": DENSE_ATTENTION,
    }
)


def write_nets(folder: Path) -> None:
    """One file for each net."""
    for name, text in NETS.items():
        model = parser.parse_model(text)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    write_nets(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
