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


EMBEDDING_ATTENTION = f"""{HEADER}
embedding_attention (int64[32, 64] ids) => (bfloat16[32, 64, 768] y)
<bfloat16[12288, 128] table = {STORED}, bfloat16[128, 768] query = {STORED},
 bfloat16[128, 768] key = {STORED}, bfloat16[128, 768] value = {STORED}>
{{
    x = Gather(table, ids)
    q = MatMul(x, query)
    k = MatMul(x, key)
    v = MatMul(x, value)
    y = Attention <q_num_heads = 12, kv_num_heads = 12> (q, k, v)
}}
"""

NETS: Mapping[str, str] = MappingProxyType(
    {
        "reid": two_products("reid", 16384, 65536, 512, 524288),
        "dlrm": two_products("dlrm", 32768, 65536, 1024, 4096),
        "transformer": two_products("transformer", 16384, 4096, 16384, 4096),
        "embedding_attention": EMBEDDING_ATTENTION,
    }
)


def write_nets(folder: Path) -> None:
    """One file for each net."""
    for name, text in NETS.items():
        model = parser.parse_model(text)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    write_nets(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
