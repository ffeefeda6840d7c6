"""A typical node of every kind, as a model of one node: what the catalogue is shown by.

Most kinds treat all elements of their operands alike; their sample follows from ONNX's schema.
Others have theirs beside their entry in the catalogue; here are kinds that the catalogue lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

import onnx
from onnx import parser

from importers.onnx_contrib import OPERATORS
from importers.onnx_foreign import MICROSOFT, Foreign
from ir.ops import lookup

_DIMS = "[2,4,6]"
_TYPES = ("float", "int64", "int32", "bool", "uint8", "int8")
"""Element types of the operands of a sample, the most usual first."""

_SAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "CenterCropPad": "(float[2,4,6] x) => (y) <int64[3] s = {2, 4, 8}> "
        "{y = CenterCropPad(x, s)}",
        "DepthToSpace": "(float[2,12,6,8] x) => (y) {y = DepthToSpace<blocksize=2>(x)}",
        "Gemm": "(float[4,6] x, float[6,8] w, float[8] b) => (y) {y = Gemm(x, w, b)}",
        "Scatter": "(float[2,4] x, int64[2,6] i, float[2,6] u) => (y) "
        "{y = Scatter<axis=1>(x, i, u)}",
        "SpaceToDepth": "(float[2,4,6,8] x) => (y) {y = SpaceToDepth<blocksize=2>(x)}",
        "SwiGLU": "(float[2,4,6] x, float[2,4,6] z) => (y) {y = SwiGLU(x, z)}",
    }
)


def sample(schema: onnx.defs.OpSchema, opset: int) -> onnx.ModelProto | None:
    """A model of one node of a kind of ONNX; None where its operands cannot be guessed."""
    text = _SAMPLES.get(schema.name) or lookup(schema.name).sample or _from_schema(schema)
    return None if text is None else _model(text, opset)


def foreign_sample(kind: str) -> onnx.ModelProto:
    """A model of one node of ONNX Runtime's domain; by default one that keeps size and type."""
    plain = f"(float{_DIMS} x) => (float{_DIMS} y) {{y = {MICROSOFT}.{kind}(x)}}"
    own = OPERATORS.get(kind, Foreign()).sample.replace("*", f"{MICROSOFT}.{kind}")
    text = own or lookup(kind).sample or plain
    return _model(text, onnx.defs.onnx_opset_version())


def _model(text: str, opset: int) -> onnx.ModelProto:
    header = f'<ir_version: 10, opset_import: ["": {opset}, "{MICROSOFT}": 1]>'
    return parser.parse_model(f"{header} sample {text}")


def _from_schema(schema: onnx.defs.OpSchema) -> str | None:
    """All required operands of one size, of the first type that each takes."""
    if any(attribute.required for attribute in schema.attributes.values()):
        return None
    option = onnx.defs.OpSchema.FormalParameterOption
    types: list[str | None] = []
    for operand in schema.inputs:
        count = {option.Single: 1, option.Variadic: 2}.get(operand.option, 0)
        types += [_element_type(operand.types)] * count
    if not types or None in types:
        return None
    operands = ", ".join(f"{each}{_DIMS} x{i}" for i, each in enumerate(types))
    names = [f"x{i}" for i in range(len(types))]
    results = ", ".join(f"y{i}" for i in range(schema.min_output))
    stored = ""
    if any(operand.name == "axes" for operand in schema.inputs):
        names.append("axes")
        stored = "<int64[1] axes = {1}> "
    body = f"{results} = {schema.name}({', '.join(names)})"
    return f"({operands}) => ({results}) {stored}{{{body}}}"


def _element_type(allowed: AbstractSet[str]) -> str | None:
    return next((each for each in _TYPES if f"tensor({each})" in allowed), None)
