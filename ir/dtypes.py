"""Element types and their sizes."""

from __future__ import annotations

from types import MappingProxyType

_BITS = MappingProxyType(
    {
        "bool": 8, "string": 64, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16,
        "int32": 32, "uint32": 32, "int64": 64, "uint64": 64, "float16": 16, "bfloat16": 16,
        "float32": 32, "float64": 64,
        "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8,
        "float8e8m0": 8, "float4e2m1": 4, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2,
        "complex64": 64, "complex128": 128,
    }
)  # fmt: skip

SHORT_NAMES = MappingProxyType({"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"})
"""The spelling of the command line to the spelling inside."""


def short_name(dtype: str) -> str:
    """The spelling of the command line, such as `bf16`, `fp8` or `int8`.

    >>> short_name("bfloat16"), short_name("float8"), short_name("int8")
    ('bf16', 'fp8', 'int8')
    """
    known = {long: short for short, long in SHORT_NAMES.items()}
    return known.get(dtype, dtype.replace("float", "fp"))


def dtype_bits(dtype: str) -> int:
    """Bits of one element.

    Raises:
        ValueError: the type is unknown.
    """
    try:
        return _BITS[dtype]
    except KeyError:
        raise ValueError(f"unknown element type {dtype!r}; known: {', '.join(_BITS)}") from None


def dtype_bytes(dtype: str) -> float:
    """Bytes of one element; half a byte for 4-bit types.

    >>> dtype_bytes("bfloat16")
    2.0
    """
    return dtype_bits(dtype) / 8
