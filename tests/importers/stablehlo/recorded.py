"""What JAX computed, from `tests/data/jax`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from executors.placement import Array
from importers.onnx_constants import model_values
from importers.stablehlo.translation import Program, translated
from ir.graph import OpGraph, Role

DATA = Path(__file__).parents[2] / "data" / "jax"


def recorded(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


def array_of(record: Mapping[str, Any]) -> Array:
    return np.array(record["values"], dtype=record["dtype"]).reshape(record["shape"])


def constants_of(graph: OpGraph, program: Program) -> dict[str, Array]:
    names = [n for n, t in graph.tensors.items() if t.role is Role.CONSTANT]
    return model_values(translated(program)[0].model, names)
