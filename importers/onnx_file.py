"""Reading ONNX files: bytes to a checked `ModelProto`, with limits and without weights."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import inliner

from importers.errors import ModelError
from importers.files import file_size, readable
from importers.onnx_checks import check_graph
from importers.onnx_dimensions import name_open_dimensions
from importers.onnx_ranges import take_ranges

MAX_FILE_BYTES = 2**31 - 1
"""Protobuf's own limit for one message; larger weights belong in external data, never read here."""
MAX_NODES = 1_000_000
TRUSTED_UNPACKED_BYTES = 2**26
"""Up to this size a gzip file may unpack from however few bytes."""
MAX_GZIP_RATIO = 200
"""Unpacked over packed bytes; the models at hand reach 30, deflate itself 1,032."""
_CHUNK_BYTES = 2**22
_GZIP_MAGIC = b"\x1f\x8b"
OLDEST_OPSET = 7


def read_model(path: Path) -> onnx.ModelProto:
    """The model in a `.onnx` or `.onnx.gz` file, functions inlined, checked for what planning
    relies on.

    Raises:
        ModelError: not a file, not ONNX, too large, or inconsistent.
    """
    model = _parsed(_file_bytes(path), path)
    if not model.graph.node and not model.graph.output:
        raise ModelError(
            f"{path.name} holds no ONNX graph", str(path), "pass a .onnx or .onnx.gz file"
        )
    _check_opset(model, path)
    take_ranges(model)
    name_open_dimensions(model.graph)
    model = inline_functions(model, path.name, MAX_NODES)
    if len(model.graph.node) > MAX_NODES:
        raise ModelError(
            f"{path.name} has {len(model.graph.node)} nodes, more than {MAX_NODES}",
            str(path),
            "split the model",
        )
    check_graph(model.graph, path.name)
    return model


def told_ranges(path: Path, bound: Collection[str] = ()) -> dict[str, str]:
    """What the file says of the sizes of its open dimensions that are not bound, as `--bind`
    takes it.

    Raises:
        ModelError: not a file, not ONNX, or two sizes differ.
    """
    found = take_ranges(_parsed(_file_bytes(path), path))
    return {name: text for name, text in found.items() if name not in bound}


def _parsed(data: bytes, path: Path) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(
            f"{path.name} is not a complete ONNX file",
            f"{path}: {error}",
            "export the model again, or check that the copy is whole",
        ) from error
    return model


def _file_bytes(path: Path) -> bytes:
    with readable(path):
        size = file_size(
            path, MAX_FILE_BYTES, "save the weights as external data",
            inside="pass the .onnx file inside it", copy="copy the model to a file",
        )  # fmt: skip
        data = path.read_bytes()
    if not data:
        raise ModelError(f"{path.name} is empty", str(path), "export or copy the model again")
    return _unpacked(path, size) if data[:2] == _GZIP_MAGIC else data


def _unpacked(path: Path, packed_bytes: int) -> bytes:
    """Content of a gzip file, given up as soon as it is larger than what was read of it packs."""
    parts: list[bytes] = []
    size = 0
    try:
        with path.open("rb") as packed, gzip.open(packed) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                parts.append(chunk)
                size += len(chunk)
                most = max(TRUSTED_UNPACKED_BYTES, MAX_GZIP_RATIO * packed.tell())
                if size > min(MAX_FILE_BYTES, most):
                    raise ModelError(
                        f"{path.name} unpacks to more than {size - 1} bytes, "
                        f"from {packed_bytes} bytes",
                        str(path),
                        "unpack it yourself if you trust it, and pass the .onnx file",
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise ModelError(
            f"{path.name} is not a complete gzip file",
            f"{path}: {error}",
            "copy it again, or compress it again",
        ) from error
    return b"".join(parts)


def _check_opset(model: onnx.ModelProto, path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    versions = [e.version for e in model.opset_import if e.domain in {"", "ai.onnx"}]
    wrong = [v for v in versions if not OLDEST_OPSET <= v <= newest]
    if wrong or not versions:
        found = f"uses opset {wrong[0]}" if wrong else "names no opset"
        raise ModelError(
            f"{path.name} {found}; opsets {OLDEST_OPSET} to {newest} can be read",
            str(path),
            "export it again with a supported opset",
        )


MAX_DEPTH = 100
"""Functions that call functions; exporters stay below ten."""

FunctionKey = tuple[str, str, str]


def inline_functions(model: onnx.ModelProto, where: str, max_nodes: int) -> onnx.ModelProto:
    """The model with every call of a local function replaced by the function's nodes.

    Raises:
        ModelError: functions that call themselves, or that would unfold to too many nodes.
    """
    if not model.functions:
        return model
    functions = {_key(f.domain, f.name, f.overload): f for f in model.functions}
    counted: dict[FunctionKey, int] = {}
    for key in functions:
        _count(key, functions, counted, (), where)
    total = sum(
        counted.get(_key(n.domain, n.op_type, n.overload), 1) for n in _nodes(model.graph.node)
    )
    if total > max_nodes:
        raise ModelError(
            f"the model's functions unfold to {total} nodes, more than {max_nodes}",
            where,
            "export the model without nested functions",
        )
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, TypeError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"a local function cannot be inlined: {str(error).strip().splitlines()[0]}",
            where,
            "export the model without local functions",
        ) from error


def _key(domain: str, name: str, overload: str) -> FunctionKey:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def _count(
    key: FunctionKey,
    functions: dict[FunctionKey, onnx.FunctionProto],
    counted: dict[FunctionKey, int],
    callers: tuple[FunctionKey, ...],
    where: str,
) -> int:
    """Nodes that one call of a function becomes."""
    if key in counted:
        return counted[key]
    if key in callers or len(callers) >= MAX_DEPTH:
        problem = "calls itself" if key in callers else f"is nested {MAX_DEPTH} functions deep"
        raise ModelError(
            f"function {key[1]!r} {problem}",
            f"functions of {where}",
            "export the model without local functions",
        )
    total = 0
    for node in _nodes(functions[key].node):
        callee = _key(node.domain, node.op_type, node.overload)
        total += (
            _count(callee, functions, counted, (*callers, key), where) if callee in functions else 1
        )
    counted[key] = total
    return total


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their sub-graphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(
                attribute.graphs
            ):
                yield from _nodes(graph.node)
