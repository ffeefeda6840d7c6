"""Element types by torch's names."""

from __future__ import annotations

from types import MappingProxyType

DTYPES = MappingProxyType(
    {
        "float64": "float64", "float32": "float32", "float16": "float16", "bfloat16": "bfloat16",
        "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8",
        "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "bool": "bool",
        "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2",
        "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2fnuz": "float8e5m2fnuz",
        "float8_e8m0fnu": "float8e8m0", "complex64": "complex64", "complex128": "complex128",
    }
)  # fmt: skip
STORAGES = MappingProxyType(
    {
        "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16",
        "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
        "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    }
)  # fmt: skip
"""Types that have a class of storage of their own; the others lie in an untyped one."""
