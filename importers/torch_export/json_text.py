"""JSON of a model file, with a limit on its size; the parser has one on its depth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from importers.errors import ModelError

MAX_JSON_BYTES = 2**27
"""The graph of a model with 100 layers takes some 10 MB."""
MAX_VALUES = 2**23
"""Each takes up to a hundred bytes once it is read; a node has some fifty."""
_AGAIN = "export the program again"


def read_json(data: bytes, where: str) -> Mapping[str, Any]:
    """The object that a text holds.

    Raises:
        ModelError: it is too large or too deep, or no JSON object.
    """
    if len(data) > MAX_JSON_BYTES:
        raise ModelError(
            f"the JSON text is larger than {MAX_JSON_BYTES} bytes", where, "split the model"
        )
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ModelError(
            f"more than {MAX_VALUES} values in the JSON text", where, "split the model"
        )
    try:
        found = json.loads(data, parse_constant=_constant)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ModelError(f"no valid JSON: {_first_line(error)}", where, _AGAIN) from error
    if not isinstance(found, dict):
        raise ModelError("the JSON text holds no object", where, _AGAIN)
    return found


def _constant(name: str) -> float:
    return float(name.replace("Infinity", "inf"))


def _first_line(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deep"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
