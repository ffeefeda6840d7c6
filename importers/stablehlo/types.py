"""Types of values as MLIR writes them."""

from __future__ import annotations

import re
from types import MappingProxyType

from importers.errors import ModelError
from importers.onnx_checks import check_dims
from importers.stablehlo.program import TensorType

MAX_RANK = 64
_FLOATS = {f"f{n}": f"float{n}" for n in (16, 32, 64)}
_WHOLE = {f"i{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)}
_SIGNED = {f"si{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)}
_UNSIGNED = {f"ui{n}": f"uint{n}" for n in (2, 4, 8, 16, 32, 64)}
ELEMENT_TYPES = MappingProxyType(
    {
        "i1": "bool", "bf16": "bfloat16", "complex<f32>": "complex64", "complex<f64>": "complex128",
        "f8E4M3FN": "float8e4m3fn", "f8E4M3FNUZ": "float8e4m3fnuz", "f8E5M2": "float8e5m2",
        "f8E5M2FNUZ": "float8e5m2fnuz", "f8E8M0FNU": "float8e8m0", "f4E2M1FN": "float4e2m1",
        **_FLOATS, **_WHOLE, **_SIGNED, **_UNSIGNED,
    }
)  # fmt: skip
_SHAPE = re.compile(r"((?:(?:\d++|\?|\*)x)*+)(.*+)")


def tensor_type(text: str, where: str) -> TensorType:
    """The type that `tensor<8x128xf32>` names.

    Raises:
        ModelError: its element type is unknown, or a size is open.
    """
    inner = text[text.index("<") + 1 : -1].partition(",")[0].strip()
    match = _SHAPE.fullmatch(inner)
    sizes = match[1].split("x")[:-1] if match else []
    name = match[2] if match else inner
    if any(s in "?*" for s in sizes):
        raise ModelError(
            f"{text[:80]} has a size that is open", where,
            "lower the function with sizes: jax.ShapeDtypeStruct((8, 128), ...)",
        )  # fmt: skip
    if name not in ELEMENT_TYPES:
        known = ", ".join(ELEMENT_TYPES)
        raise ModelError(f"unknown element type {name[:40]!r}", where, f"known are {known}")
    if len(sizes) > MAX_RANK or any(len(s) > 18 for s in sizes):
        raise ModelError(f"{text[:80]} is larger than any tensor", where, "check the file")
    dims = tuple(int(s) for s in sizes)
    check_dims(dims, where)
    return TensorType(dims, ELEMENT_TYPES[name])
