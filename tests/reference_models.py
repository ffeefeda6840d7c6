"""The reference models, each read once for all tests of a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from importers.onnx import import_onnx
from ir.graph import OpGraph

FOLDER = Path(__file__).parent / "data" / "models"
NAMES = sorted(p.name.removesuffix(".onnx.gz") for p in FOLDER.glob("*.onnx.gz"))
BIND = {"gpt2_small_dyn": {"batch": 64, "seq": 512}, "llama2_7b_dyn": {"batch": 32, "seq": 2048}}


@cache
def reference_model(name: str) -> OpGraph:
    return import_onnx(FOLDER / f"{name}.onnx.gz", BIND.get(name))
