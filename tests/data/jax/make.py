"""Makes the files of this folder: `python -m tests.data.jax.make [PART ...]`, from the root."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from importers.jax_trace import traced
from tests.data.jax.blocks import BLOCKS
from tests.data.jax.operators import cases
from tests.data.jax.training import networks

HERE = Path(__file__).parent


def blocks() -> None:
    """Each block as the helper writes it, and the Transformer as JAX itself does."""
    for name, (function, arguments) in BLOCKS.items():
        (HERE / f"{name}.mlir").write_text(traced(function, arguments))
    function, arguments = BLOCKS["transformer"]
    lowered = jax.jit(function).lower(*arguments)
    text = re.sub(r'loc\("/[^\n]*', "loc(unknown)", lowered.as_text(debug_info=True))
    (HERE / "transformer_plain.mlir").write_text(text)  # with the tracer's own locations


def operators() -> None:
    """Every case as text, with operands and results."""
    found = []
    for name, function, operands in cases():
        record = {
            "name": name,
            "operands": [_numbers(v) for v in operands],
            "results": [
                _numbers(v) for v in jax.tree_util.tree_leaves(jax.jit(function)(*operands))
            ],
            "text": jax.jit(function, keep_unused=True).lower(*operands).as_text(),
        }
        found.append(record)
    _write("operators", found)


def training() -> None:
    """Training steps of small losses, with their numbers."""
    found = []
    for name, (loss, arguments) in networks().items():
        value, slopes = jax.value_and_grad(loss)(*arguments)
        record = {
            "name": name,
            "operands": [_numbers(v) for v in jax.tree_util.tree_leaves(arguments)],
            "results": [_numbers(v) for v in [value, *jax.tree_util.tree_leaves(slopes)]],
            "text": traced(loss, arguments, gradients=True),
        }
        found.append(record)
    _write("training", found)


def _write(name: str, found: list[dict[str, Any]]) -> None:
    text = json.dumps(found, separators=(",", ":")).encode()
    (HERE / f"{name}.json.gz").write_bytes(gzip.compress(text, mtime=0))


def _numbers(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    flat = [round(v, 7) if isinstance(v, float) else v for v in array.reshape(-1).tolist()]
    return {"shape": list(array.shape), "dtype": str(array.dtype), "values": flat}


if __name__ == "__main__":
    parts = {function.__name__: function for function in (blocks, operators, training)}
    for part in sys.argv[1:] or parts:
        parts[part]()
