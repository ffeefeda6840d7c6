"""Makes the files of this folder: `python -m tests.data.torch.make`, from the root."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_export_module
from torch.export import Dim
from torch.export.experimental import _export_forward_backward

from tests.data.torch.blocks import BLOCKS, Halves, Residual, Transformer
from tests.data.torch.files import fx_record, joint_record, save_fx, save_pt2
from tests.data.torch.operators import cases
from tests.data.torch.training import networks

HERE = Path(__file__).parent


def blocks() -> None:
    """Each block as an archive and as FX JSON, as traced and in core operators."""
    for name, (module, shape) in BLOCKS.items():
        program = torch.export.export(module().eval(), (torch.zeros(shape),))
        save_pt2(program, HERE / f"{name}.pt2", weights=False)
        save_fx(program, HERE / f"{name}.fx.json")
        save_fx(program.run_decompositions(), HERE / f"{name}_core.fx.json")


def dynamic() -> None:
    """Programs with sizes that are symbols, with ranges and conditions."""
    batch, rows, half = (
        Dim("batch", min=2, max=64),
        Dim("rows", max=256),
        Dim("half", min=2, max=32),
    )
    program = torch.export.export(
        Transformer(64, 4).eval(), (torch.zeros(4, 16, 64),), dynamic_shapes=({0: batch, 1: rows},)
    )
    save_pt2(program, HERE / "dynamic.pt2", weights=False)
    save_fx(program, HERE / "dynamic.fx.json")
    program = torch.export.export(
        Halves(), (torch.zeros(8, 4), torch.zeros(6, 4)),
        dynamic_shapes=({0: 2 * half}, {0: Dim.DYNAMIC}),
    )  # fmt: skip
    save_pt2(program, HERE / "guarded.pt2", weights=False)


def state() -> None:
    """A block with statistics that it keeps while it trains, as traced and in core operators."""
    program = torch.export.export(Residual().train(), (torch.zeros(BLOCKS["residual"][1]),))
    save_pt2(program, HERE / "residual_train.pt2", weights=False)
    save_pt2(program.run_decompositions(), HERE / "residual_train_core.pt2", weights=False)


def weighted() -> None:
    """A small archive with its weights."""
    torch.manual_seed(5)
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.GELU(), torch.nn.Linear(4, 3))
    program = torch.export.export(module, (torch.zeros(2, 6),))
    save_pt2(program, HERE / "weighted.pt2", weights=True)
    record = {n: _numbers(w.detach()) for n, w in module.named_parameters()}
    (HERE / "weighted.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")


def operators() -> None:
    """Every case as traced and in core operators, with numbers."""
    found = []
    for name, function, operands in cases():
        program = torch.export.export(Calling(function), operands)
        expected = function(*operands)
        results = expected if isinstance(expected, tuple | list) else (expected,)
        record = {
            "name": name,
            "operands": [_numbers(t) for t in operands],
            "results": [_numbers(t) for t in results],
            "graph": fx_record(program),
        }
        found.append(record)
        core = fx_record(program.run_decompositions())
        if core != record["graph"]:
            found.append({**record, "name": f"{name} in core operators", "graph": core})
    text = json.dumps(found, separators=(",", ":")).encode()
    (HERE / "operators.json.gz").write_bytes(gzip.compress(text, mtime=0))


def training() -> None:
    """Joint graphs of losses and gradients, with numbers: as traced, and in core operators."""
    found = []
    for name, (module, operands) in networks().items():
        loss = module(*operands)[0]
        weights = dict(module.named_parameters())
        gradients = dict(
            zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True)
        )
        record = {
            "name": name,
            "operands": [_numbers(t) for t in operands],
            "weights": {n: _numbers(w) for n, w in weights.items()},
            "loss": _numbers(loss),
            "gradients": {n: _numbers(g) for n, g in gradients.items()},
        }
        graph, signature = aot_export_module(
            module, operands, trace_joint=True, output_loss_index=0
        )
        found.append({**record, "graph": joint_record(graph.graph, signature)})
        core = _export_forward_backward(torch.export.export(module, operands))
        found.append({**record, "name": f"{name}_core", "graph": fx_record(core)})
        save_pt2(core, HERE / f"{name}_joint.pt2", weights=False)
    text = json.dumps(found, separators=(",", ":")).encode()
    (HERE / "training.json.gz").write_bytes(gzip.compress(text, mtime=0))


def schemas() -> None:
    """Names of the arguments of every operator of PyTorch's own."""
    found = {
        schema.name.replace("::", ".") + f".{schema.overload_name or 'default'}": [
            a.name for a in schema.arguments
        ]
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(("aten::", "prims::"))
    }
    text = json.dumps(dict(sorted(found.items())), separators=(",", ":")).encode()
    (HERE / "schemas.json.gz").write_bytes(gzip.compress(text, mtime=0))


class Calling(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: torch.Tensor) -> Any:
        return self.function(*operands)


def _numbers(tensor: torch.Tensor) -> dict[str, Any]:
    values = [round(v, 7) if isinstance(v, float) else v for v in tensor.flatten().tolist()]
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype)[6:], "values": values}


if __name__ == "__main__":
    every = (blocks, dynamic, state, weighted, operators, training, schemas)
    parts = {function.__name__: function for function in every}
    for part in sys.argv[1:] or parts:
        parts[part]()
