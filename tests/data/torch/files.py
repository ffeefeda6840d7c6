"""Writes exported programs as small files that are the same each time."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch

DATE = (2026, 1, 1, 0, 0, 0)


def save_pt2(program: torch.export.ExportedProgram, path: Path, *, weights: bool) -> None:
    """What `torch.export.save` writes, without dates, source lines and, if told, numbers."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(path, "w") as target:
        for name in sorted(source.namelist()):
            inner = name.partition("/")[2]
            numbers = "/weight_" in inner or "/tensor_" in inner or inner.endswith(".pt")
            if (numbers and not weights) or inner == ".data/serialization_id":
                continue
            data = source.read(name)
            if inner.startswith("models/"):
                data = _plain(data)
            folder = path.name.removesuffix(".pt2")
            entry = zipfile.ZipInfo(f"{folder}/{inner}", DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, data)


def _plain(data: bytes) -> bytes:
    """The graph without the lines of the source that made it."""
    found = json.loads(data)
    for node in found["graph_module"]["graph"]["nodes"]:
        stack = node["metadata"].get("nn_module_stack")
        node["metadata"] = {"nn_module_stack": stack} if stack else {}
    return json.dumps(found, separators=(",", ":"), sort_keys=True).encode()


def save_fx(program: torch.export.ExportedProgram, path: Path) -> None:
    """The graph and its signature as JSON."""
    text = json.dumps(fx_record(program), separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8")


def fx_record(program: torch.export.ExportedProgram) -> dict[str, Any]:
    """The FX graph of a program, in the form that docs/formats.md tells."""
    return joint_record(program.graph, program.graph_signature)


def joint_record(graph: torch.fx.Graph, signature: Any) -> dict[str, Any]:
    """A graph with the signature that `aot_export_module` or `torch.export` gives it."""
    backward = getattr(signature, "backward_signature", None)
    record: dict[str, Any] = {
        "inputs_to_parameters": dict(signature.inputs_to_parameters),
        "inputs_to_buffers": dict(signature.inputs_to_buffers),
        "buffers_to_mutate": dict(signature.buffers_to_mutate),
        "user_inputs": [n for n in signature.user_inputs if isinstance(n, str)],
        "user_outputs": [n for n in signature.user_outputs if isinstance(n, str)],
    }
    if backward is not None:
        record["backward"] = {
            "gradients_to_parameters": dict(backward.gradients_to_parameters),
            "gradients_to_user_inputs": dict(backward.gradients_to_user_inputs),
            "loss_output": backward.loss_output,
        }
    return {"nodes": [_node(node) for node in graph.nodes], "signature": record}


def _node(node: torch.fx.Node) -> dict[str, Any]:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return {
        "name": node.name,
        "op": node.op,
        "target": str(node.target),
        "args": [_argument(a) for a in node.args],
        "kwargs": {k: _argument(v) for k, v in node.kwargs.items()},
        "val": _meta(node.meta.get("val")),
        "module": stack[-1][0] if stack else None,
    }


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        shape = [d if isinstance(d, int) else str(d) for d in value.shape]
        return {"shape": shape, "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, list | tuple):
        return [_meta(v) for v in value]
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _argument(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return {"ref": value.name}
    if isinstance(value, list | tuple):
        return [_argument(v) for v in value]
    return value if value is None or isinstance(value, int | float | str) else str(value)
