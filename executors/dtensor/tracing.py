"""A model as the importer sees it: traced by torch.export, read like any other file."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from importers.model_file import model_format
from ir.graph import OpGraph, Role


@dataclass(frozen=True, slots=True)
class Traced:
    """One model with one set of inputs."""

    module: Any
    """The torch module whose parameters are trained."""
    graph: OpGraph
    """As it is imported."""
    inputs: tuple[str, ...]
    """Names of the inputs that the module is called with, flat and in order."""
    constants: Mapping[str, Any]
    """Numbers of what is neither an input nor a parameter."""
    in_spec: Any
    out_spec: Any
    """How torch nests operands and results."""


def traced(model: Any, example_inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    """Trace a module, or read a `.pt2` file."""
    if isinstance(model, str | Path):
        program = torch.export.load(model)
        return _read(program, program.module(), Path(model))
    operands = tuple(example_inputs)
    program = torch.export.export(model, operands, dict(kwargs), strict=False)
    with tempfile.TemporaryDirectory(prefix="planner") as folder:
        path = Path(folder) / "model.pt2"
        torch.export.save(program, path)
        return _read(program, model, path)


def _read(program: Any, module: Any, path: Path) -> Traced:
    form = model_format(path)
    graph = form.graph(path, {})
    fixed = [n for n, t in graph.tensors.items() if t.role in {Role.CONSTANT, Role.BUFFER}]
    spec = program.call_spec
    return Traced(
        module,
        graph,
        tuple(program.graph_signature.user_inputs),
        form.numbers(path, fixed, {}),
        spec.in_spec,
        spec.out_spec,
    )
