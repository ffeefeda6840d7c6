"""Cases of MindSpore's own unit tests, and the operators of ours that they are of.

`tests/data/mindspore_cases.json` is a list of records with `kind`, `source_path`, `input` and
`expected`, read from the tests of MindSpore 2.7.0 (Apache-2.0); docs/mindspore-cases.md says which
of them are held here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ir.graph import AttributeValue
from ir.mindspore_forms.foreign_kinds import foreign_rule
from ir.ops import RULE_ATTRIBUTE, OpView
from tests.mindspore_package.operator_examples import one

PATH = Path(__file__).parents[1] / "data" / "mindspore_cases.json"

Case = Mapping[str, Any]
Dims = tuple[int, ...]
Cuts = tuple[Dims, ...]
Maker = Callable[[Mapping[str, Any], list[Dims]], OpView]


@cache
def all_cases() -> tuple[Case, ...]:
    """In the order of the file."""
    return tuple(json.loads(PATH.read_text()))


def title(number: int) -> str:
    """A name for reports: `13 ops_info matmul_info_test.cc`."""
    case = all_cases()[number]
    return f"{number} {case['kind']} {case['source_path'].rpartition('/')[2]}"


def of_kind(*kinds: str) -> list[int]:
    return [n for n, case in enumerate(all_cases()) if case["kind"] in kinds]


def operator_of(given: Mapping[str, Any]) -> OpView:
    """The operator of a case; KeyError where the catalogue has none that takes these operands."""
    shapes = [tuple(d) for d in shapes_of(given) if isinstance(d, list) and "paddings" not in d]
    return _OPERATORS[given["op"]](given, shapes)


def shapes_of(given: Mapping[str, Any]) -> list[Any]:
    found = given.get("input_shapes") or given.get("shapes") or []
    return list(found.values()) if isinstance(found, dict) else list(found)


def cuts_of(given: Mapping[str, Any]) -> Cuts:
    return tuple(tuple(each) for each in given["strategy"])


def _view(
    kind: str, operands: Sequence[Dims], result: Sequence[int], **more: AttributeValue
) -> OpView:
    graph = one(kind, operands, [tuple(result)], (), (), **more)
    return OpView(graph.ops[0], graph)


def _attribute(given: Mapping[str, Any], key: str, default: int) -> int:
    """From `attrs`, written as in C++ (`static_cast<int64_t>(-2)`), or beside the shapes."""
    value = str(given.get("attrs", {}).get(key, given.get(key, default)))
    if value.lower() in {"true", "false"}:
        return int(value.lower() == "true")
    return int(re.sub(r"int64_t|[^\d-]", "", value))


def _same(kind: str) -> Maker:
    return lambda given, shapes: _view(kind, shapes, shapes[0])


def _along(kind: str, default: int) -> Maker:
    """Element by element but for one axis."""

    def make(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
        axis = _attribute(given, "axis", default)
        return _view(kind, shapes, shapes[0], axis=axis + len(shapes[0]) if axis < 0 else axis)

    return make


def _product(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    a, b = (_attribute(given, key, 0) for key in ("transpose_a", "transpose_b"))
    left, right = shapes
    longer = max(left[:-2], right[:-2], key=len)
    result = (*longer, left[-1] if a else left[-2], right[-2] if b else right[-1])
    return _view("MatMul", shapes, result, trans_a=a, trans_b=b)


def _slopes(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    data, slope = shapes
    return _view("PRelu", [data, (*slope, *(1,) * (len(data) - 2))], data)


def _one_hot(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    (result,) = given["output_shapes"]
    axis = _attribute(given, "axis", -1)
    kept = axis if axis >= 0 else len(shapes[0])
    return _view("OneHot", [shapes[0], (2,)], result, axis=kept)


def _sum(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    """The dimensions that the result lacks, which are the last ones in every case."""
    (result,) = given["output_shapes"]
    return _view("ReduceSum", shapes, result, axes=tuple(range(len(result), len(shapes[0]))))


def _transpose(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    return _view("Transpose", shapes, shapes[0][::-1], perm=tuple(range(len(shapes[0])))[::-1])


def _layer_norm(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    return _view("LayerNormalization", shapes, shapes[0], axis=given["begin_norm_axis"])


def _rms_norm(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    return _view("RMSNormalization", shapes, shapes[0], axis=len(shapes[0]) - len(shapes[1]))


def _convolution(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    """`same` pads to as many windows as the stride leaves positions, less in front."""
    data, weight = shapes
    size, stride = given["kernel"], given["stride"]
    same = given.get("pad_mode") == "same"
    counts = [-(-d // stride) if same else (d - size) // stride + 1 for d in data[2:]]
    pads = [max((n - 1) * stride + size - d, 0) for n, d in zip(counts, data[2:], strict=True)]
    pads = pads if same else [0, 0]
    sides = (*(p // 2 for p in pads), *(p - p // 2 for p in pads))
    more = {"kernel_shape": (size,) * 2, "strides": (stride,) * 2, "group": given["group"]}
    return _view("Conv", shapes, (data[0], weight[0], *counts), **more, pads=sides)


def _slice(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    dims, size = shapes[0], given["size"]
    axes = tuple(i for i in range(len(dims)) if size[i] != dims[i])
    return _view("Slice", shapes, size, axes=axes)


def _pad(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    """Pairs from the last dimension backwards."""
    dims, pads = list(shapes[0]), given["paddings"]
    axes = []
    for place in range(len(pads) // 2):
        before, after = pads[2 * place : 2 * place + 2]
        dims[-1 - place] += before + after
        axes += [len(dims) - 1 - place] if before or after else []
    return _view("Pad", shapes[:1], dims, axes=tuple(sorted(axes)))


def _top_k(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    return _view("TopK", shapes, (*shapes[0][:-1], 4), axis=len(shapes[0]) - 1)


def _gather_nd(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    data, indices = shapes
    return _view("GatherND", shapes, (*indices[:-1], *data[indices[-1] :]), batch_dims=0)


def _gather(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    table, indices = shapes
    return _view("Gather", shapes, (*indices, *table[1:]), axis=0)


def _of_mindspore(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    """What ONNX does not have; any dims that the cuts divide, where the case says none."""
    kind = f"mindspore::{given['op']}"
    operands = shapes or [(16,) * len(own) for own in given["strategy"]]
    result = (*operands[0][:-1], operands[1][-2]) if given["op"] == "Cdist" else operands[0]
    return _view(kind, operands, result, **{RULE_ATTRIBUTE: foreign_rule(kind, operands, [result])})


def _resized(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    """To twice the positions; any dims that the cuts divide."""
    images, *_ = shapes or [(16,) * len(own) for own in given["strategy"]]
    return _view("Resize", [images], (*images[:2], *(2 * size for size in images[2:])))


def _cross_entropy(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    kind, results = f"mindspore::{given['op']}", [tuple(dims) for dims in given["output_shapes"]]
    rule = foreign_rule(kind, shapes, results)
    graph = one(kind, shapes, results, (), (), **{RULE_ATTRIBUTE: rule})
    return OpView(graph.ops[0], graph)


def _reshape(given: Mapping[str, Any], shapes: list[Dims]) -> OpView:
    return _view("Reshape", shapes, given["output_shapes"][0])


_OPERATORS: Mapping[str, Maker] = {
    "Activation": _same("Relu"),
    "Add": _same("Add"),
    "Cdist": _of_mindspore,
    "Conv2D": _convolution,
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "GeLU": _same("Gelu"),
    "InplaceAdd": _of_mindspore,
    "L2Normalize": _along("LpNormalization", 1),
    "LayerNorm": _layer_norm,
    "LogSoftmax": _along("LogSoftmax", -1),
    "MatMul": _product,
    "Mul": _same("Mul"),
    "OneHot": _one_hot,
    "PReLU": _slopes,
    "PadV3": _pad,
    "Pow": _same("Pow"),
    "ReduceSum": _sum,
    "Reshape": _reshape,
    "ResizeBilinear(GPU)": _resized,
    "RmsNorm": _rms_norm,
    "Select": _same("Where"),
    "Slice": _slice,
    "Softmax": _along("Softmax", -1),
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "Tanh": _same("Tanh"),
    "TopK": _top_k,
    "Transpose": _transpose,
}
"""By the name that the cases have for an operator."""
