"""Exports `idioms.py` at two batches: `python -m tests.data.torch.write_idioms [NAME ...]`.

From the root, in an environment with torch, onnxscript, onnx and networkx.

The exporter of PyTorch 2 (`dynamo`) writes every idiom; the older one (`script`) those whose graph
it writes otherwise.
"""

from __future__ import annotations

import gzip
import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.onnx.errors import UnsupportedOperatorError

from importers.onnx import import_onnx
from ir.canonical import canonical_digest
from tests.data.torch.idioms import IDIOMS, IDS, B, Net

HERE = Path(__file__).parent / "batch"
BATCHES = (2, 6)


class Idiom(torch.nn.Module):
    """One function with the parameters that it uses."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.net = Net()
        self.function = function

    def forward(self, *operands: torch.Tensor) -> Any:
        return self.function(self.net, *operands)


def operands(sizes: tuple[tuple[str | int, ...], ...], batch: int) -> tuple[torch.Tensor, ...]:
    found = []
    for each in sizes:
        dims = [batch if d == B else d for d in each if d != IDS]
        found.append(torch.ones(dims, dtype=torch.long) if IDS in each else torch.randn(dims))
    return tuple(found)


def exported(function: Callable[..., Any], batch: int, *, dynamo: bool) -> bytes:
    """The model without the exporter's notes, which hold paths."""
    module, given = Idiom(function).eval(), operands(IDIOMS[function], batch)
    if dynamo:
        program = torch.onnx.export(module, given, dynamo=True, opset_version=20, verbose=False)
        assert program is not None
        model = program.model_proto
    else:
        buffer = io.BytesIO()
        torch.onnx.export(module, given, buffer, dynamo=False, opset_version=20)
        model = onnx.load_model_from_string(buffer.getvalue())
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        del value.metadata_props[:]
    return bytes(model.SerializeToString(deterministic=True))


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    HERE.mkdir(exist_ok=True)
    for function in IDIOMS:
        name = function.__name__
        if names and name not in names:
            continue
        for batch in BATCHES:
            _write(HERE / f"{name}.dynamo.{batch}.onnx.gz", exported(function, batch, dynamo=True))
        try:
            older = {batch: exported(function, batch, dynamo=False) for batch in BATCHES}
        except UnsupportedOperatorError:
            continue
        paths = {batch: HERE / f"{name}.script.{batch}.onnx.gz" for batch in BATCHES}
        for batch, path in paths.items():
            _write(path, older[batch])
        if all(_digest(path) == _digest(_beside(path)) for path in paths.values()):
            for path in paths.values():
                path.unlink()


def _write(path: Path, model: bytes) -> None:
    path.write_bytes(gzip.compress(model, mtime=0))


def _beside(path: Path) -> Path:
    return path.with_name(path.name.replace(".script.", ".dynamo."))


def _digest(path: Path) -> str:
    return canonical_digest(import_onnx(path))


if __name__ == "__main__":
    main(sys.argv[1:])
