"""Reading ONNX files: bytes to a checked `ModelProto`, with limits and without weights."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from importers.errors import ModelError
from importers.onnx_checks import check_graph
from importers.onnx_dimensions import name_open_dimensions
from importers.onnx_functions import inline_functions
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


def told_ranges(path: Path) -> dict[str, str]:
    """What the file says of the sizes of its open dimensions, as `--bind` takes it.

    Raises:
        ModelError: not a file, not ONNX, or two sizes differ.
    """
    return take_ranges(_parsed(_file_bytes(path), path))


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
    try:
        if path.is_dir():
            raise ModelError(f"{path} is a folder", str(path), "pass the .onnx file inside it")
        size = path.stat().st_size
        if path.exists() and not path.is_file():
            raise ModelError(f"{path} is no regular file", str(path), "copy the model to a file")
        if size > MAX_FILE_BYTES:
            raise ModelError(
                f"{path.name} is larger than {MAX_FILE_BYTES} bytes",
                str(path),
                "save the weights as external data",
            )
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror}", str(path), "check the path and its permissions"
        ) from error
    if not data:
        raise ModelError(f"{path.name} is empty", str(path), "export or copy the model again")
    return _unpacked(path, size) if data[:2] == _GZIP_MAGIC else data


def _unpacked(path: Path, packed_bytes: int) -> bytes:
    """Content of a gzip file, given up as soon as it is larger than any model packs."""
    limit = min(MAX_FILE_BYTES, max(TRUSTED_UNPACKED_BYTES, MAX_GZIP_RATIO * packed_bytes))
    data = bytearray()
    try:
        with gzip.open(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                data += chunk
                if len(data) > limit:
                    raise ModelError(
                        f"{path.name} unpacks to more than {limit} bytes, "
                        f"from {packed_bytes} bytes",
                        str(path),
                        "unpack it yourself if you trust it, and pass the .onnx file",
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise ModelError(
            f"{path.name} is not a complete gzip file", f"{path}: {error}", "compress it again"
        ) from error
    return bytes(data)


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
