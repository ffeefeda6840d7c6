"""Numbers of constants: `dense<…>` becomes an array, as far as there are not too many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from importers.errors import ModelError
from importers.stablehlo.program import Dense, TensorType
from importers.stablehlo.tokens import AGAIN
from ir.dtypes import dtype_bits

MAX_BYTES = 2**26
"""Of a larger constant only the dims are read."""
_NUMPY = {"bfloat16": "float32", "bool": "bool"}


def numpy_type(dtype: str) -> str:
    """The type in which numbers are held here: one of numpy's own."""
    if dtype in _NUMPY:
        return _NUMPY[dtype]
    if dtype.startswith(("float8", "float4")):
        return "float32"
    if dtype in {"int4", "int2"}:
        return "int8"
    if dtype in {"uint4", "uint2"}:
        return "uint8"
    return dtype


def array_of(dense: Dense, kind: TensorType, where: str) -> NDArray[Any] | None:
    """The numbers of a constant; None where there are too many, or they are not in the text.

    Raises:
        ModelError: they do not fit the type.
    """
    if dense.text.startswith("dense_resource"):
        return None
    inner = dense.text[len("dense<") : -1].strip()
    count = math.prod(kind.dims)
    single = not inner.startswith(('"', "[", "(")) and "," not in inner
    size = 8 if single else count * dtype_bits(kind.dtype) / 8
    if size > MAX_BYTES or len(inner) > 4 * MAX_BYTES:
        return None
    numbers = numpy_type(kind.dtype)
    try:
        if inner.startswith('"'):
            return _raw(inner[1:-1], kind).reshape(kind.dims)
        if single and inner:
            return _parsed(inner, kind.dtype).astype(numbers).reshape(())
        return _parsed(inner, kind.dtype).astype(numbers).reshape(kind.dims)
    except (ValueError, OverflowError, TypeError) as error:
        raise ModelError(
            f"a constant does not fit its type: {error}", where,
            AGAIN,
        ) from error  # fmt: skip


def _raw(text: str, kind: TensorType) -> NDArray[Any]:
    """Bytes in hexadecimal, little-endian; flags are packed to bits unless all are equal."""
    data = bytes.fromhex(text.removeprefix("0x"))
    count = math.prod(kind.dims)
    if kind.dtype == "bool":
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[:count].astype(bool)
    if kind.dtype == "bfloat16":
        return _from_bfloat16(np.frombuffer(data, "<u2"))
    if dtype_bits(kind.dtype) < 16 and "float" in kind.dtype:
        raise ValueError(f"numbers of {kind.dtype} are not read")
    found = np.frombuffer(data, np.dtype(numpy_type(kind.dtype)).newbyteorder("<"))
    return np.full(count, found[0]) if found.size == 1 and count > 1 else found


def _from_bfloat16(bits: NDArray[Any]) -> NDArray[Any]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _parsed(text: str, dtype: str) -> NDArray[Any]:
    """Numbers one by one: decimal, as bits in hexadecimal, or words."""
    words = text.replace("[", " ").replace("]", " ").replace(",", " ").split()
    if dtype.startswith("complex"):
        parts = np.array([float(w.strip("()")) for w in words]).reshape(-1, 2)
        return np.asarray(parts[:, 0] + 1j * parts[:, 1])
    if dtype == "bool":
        if not set(words) <= {"true", "false"}:
            raise ValueError("flags are true or false")
        return np.array([w == "true" for w in words])
    if "float" not in dtype:
        return np.array([int(w, 0) for w in words], dtype=numpy_type(dtype))
    return np.array([_floating(w, dtype) for w in words])


def _floating(word: str, dtype: str) -> float:
    if not word.startswith("0x"):
        return float(word)
    bits = int(word, 16)
    if dtype == "bfloat16":
        return float(_from_bfloat16(np.array([bits], np.uint16))[0])
    width = dtype_bits(dtype)
    if width < 16:
        raise ValueError(f"bits of {dtype} are not read")
    return float(np.array([bits], f"u{width // 8}").view(f"f{width // 8}")[0])
