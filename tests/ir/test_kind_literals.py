"""What is known of an operator kind stands in its entry: few other files name the kind.

A kind is named where a text of the source is its name, docstrings aside. Three files outside its
entry may: a front end that writes it, an executor whose form of it is more than a function, a test
of the normal form. A kind of `MORE` is named in more files than that; the list only gets shorter.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from ir.ops import catalogue

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "cli", "costmodel", "data", "executors", "exporters", "importers", "ir", "planner", "report",
    "service", "topology",
)  # fmt: skip
MOST = 3
MORE: dict[str, int] = {
    "Reshape": 43, "Add": 42, "Mul": 40, "Gather": 33, "Cast": 31, "Transpose": 31, "Expand":
    26, "MatMul": 25, "Attention": 24, "Squeeze": 24, "Softmax": 23, "Unsqueeze": 23,
    "Identity": 22, "Sub": 22, "Div": 20, "Flatten": 20, "Loss": 20, "Slice": 20, "Concat": 19,
    "Conv": 19, "ReduceSum": 19, "ReduceMean": 18, "Where": 18, "ReduceMax": 16, "GatherND": 15,
    "Max": 15, "Split": 15, "BiasAdd": 14, "Gelu": 14, "MaxPool": 14, "Min": 14, "ReduceMin":
    14, "Sigmoid": 14, "BatchNormalization": 13, "RMSNormalization": 13, "AveragePool": 12,
    "Equal": 12, "LayerNormalization": 12, "LogSoftmax": 12, "Neg": 12, "Pow": 12,
    "ConvTranspose": 12, "Dropout": 11, "ScatterND": 11, "TopK": 11, "OneHot": 10, "Pad": 10,
    "RotaryEmbedding": 10, "ScatterElements": 10, "Sqrt": 10, "Tanh": 10, "Tile": 10,
    "GatherElements": 9, "Greater": 9, "Log": 9, "Not": 9, "Reciprocal": 9, "And": 8, "Combine":
    8, "CumSum": 8, "Dispatch": 8, "Exp": 8, "Less": 8, "LpNormalization": 8, "Mod": 8, "Relu":
    8, "SimplifiedLayerNormalization": 8, "Trilu": 8, "Abs": 7, "ArgMax": 7, "ArgMin": 7,
    "Clip": 7, "FastGelu": 7, "Fused": 7, "Or": 7, "Softplus": 7, "Swish": 7, "CastLike": 6,
    "Erf": 6, "Floor": 6, "LpPool": 6, "PackedMultiHeadAttention": 6, "ReduceL1": 6, "ReduceL2":
    6, "ReduceProd": 6, "SoftmaxCrossEntropyLoss": 6, "Sum": 6, "Ceil": 5, "Constant": 5,
    "CumProd": 5, "DeformConv": 5, "DequantizeLinear": 5, "Elu": 5, "ExpertMatMul": 5,
    "GlobalAveragePool": 5, "GreaterOrEqual": 5, "HardSigmoid": 5, "IsNaN": 5, "LessOrEqual": 5,
    "LinearAttention": 5, "NegativeLogLikelihoodLoss": 5, "Output": 5, "Range": 5,
    "ReduceSumSquare": 5, "Resize": 5, "RoiAlign": 5, "TensorScatter": 5, "AffineGrid": 4,
    "BiasGelu": 4, "CausalConvWithState": 4, "ConstantOfShape": 4, "ConvInteger": 4,
    "GlobalLpPool": 4, "GlobalMaxPool": 4, "GridSample": 4, "GroupNormalization": 4, "LRN": 4,
    "MatMulNBits": 4, "MeanVarianceNormalization": 4, "Mish": 4, "QuantizeLinear": 4,
    "QuickGelu": 4, "RandomNormal": 4, "RandomNormalLike": 4, "RandomUniform": 4,
    "RandomUniformLike": 4, "Scale": 4, "Softsign": 4, "Upsample": 4,
}  # fmt: skip
"""Files that name a kind today. Arithmetic and moves (`Add`, `Reshape`) are what front ends, the
normal form and formulas write, each in its own files. Products, norms, reductions and attention
have a kernel of their own in four executors: numpy, the parts of a device, torch, XLA. MindSpore's
primitives and the order of its searches are tables by kind."""


def _texts(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    docs = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    texts = (n for n in nodes if isinstance(n, ast.Constant) and id(n) not in docs)
    return {n.value for n in texts if isinstance(n.value, str)}


@cache
def _files() -> dict[str, set[str]]:
    """For each kind the files that name it, that of its entry aside."""
    found: dict[str, set[str]] = defaultdict(set)
    known = catalogue()
    quoted = re.compile("['\"](?:" + "|".join(known) + ")['\"]")
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name, source = str(path.relative_to(ROOT)), path.read_text("utf-8")
            if not quoted.search(source):
                continue
            for kind in _texts(source) & set(known):
                if name != f"ir/ops/{known[kind].family}.py":
                    found[kind].add(name)
    return found


def test_few_files_name_a_kind() -> None:
    too_many = {
        kind: sorted(files) for kind, files in _files().items() if len(files) > MORE.get(kind, MOST)
    }
    assert too_many == {}, "read a table derived from the entries instead"


def test_the_list_of_kinds_with_more_files_gets_shorter() -> None:
    files = _files()
    assert set(MORE) <= set(catalogue())
    assert {kind: n for kind, n in MORE.items() if len(files[kind]) <= MOST or n <= MOST} == {}
    assert [kind for kind, n in MORE.items() if len(files[kind]) < n - 2] == [], "lower its number"


def test_a_kind_in_a_docstring_is_not_named() -> None:
    assert _texts('"""Softmax"""\nx = {"Softmax": 1}\ny = "of a Relu"') == {"Softmax", "of a Relu"}
    assert _texts('def f():\n    """Softmax"""') == set()
