"""Opening a MindIR file: what can be told before its messages are read."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from importers.errors import ModelError
from importers.files import file_size, readable
from importers.mindir.messages import NEWEST_VERSION
from importers.mindir.wire import Budget, Message, Span
from ir.wire import WireError

MAX_FILE_BYTES = 2**36
"""A file is mapped, not read; weights are passed over."""
_CIPHERS = {0x7F3A5ED8: "AES-GCM", 0x7F3A5ED9: "AES-CBC", 0x7F3A5EDA: "SM4-CBC"}
"""First four bytes, little-endian, of what `mindspore.export(..., enc_key=...)` writes."""
_AGAIN = "export it again, or check that the copy is whole"


@contextmanager
def open_model(path: Path) -> Iterator[Message]:
    """The `ModelProto` in a file.

    Raises:
        ModelError: it cannot be read, is encrypted, damaged, no MindIR, or of a newer version.
    """
    try:
        with _mapped(path) as data:
            _check_cipher(data, path)
            yield _checked(Message.parse(data, "ModelProto", Span(0, len(data)), Budget()), path)
    except WireError as error:
        raise ModelError(
            f"{path.name} is no complete MindIR file: {error.what}",
            f"byte {error.offset} of {path}",
            _AGAIN,
        ) from error


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with readable(path):
        size = file_size(
            path, MAX_FILE_BYTES, "split the model",
            inside="pass the .mindir file inside it", copy="copy the model to a file",
        )  # fmt: skip
        if not size:
            raise ModelError(f"{path.name} is empty", str(path), "export or copy the model again")
        stream = path.open("rb")
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    with stream, data:
        yield data


def _check_cipher(data: mmap.mmap, path: Path) -> None:
    cipher = _CIPHERS.get(int.from_bytes(data[:4], "little"))
    if cipher is not None:
        raise ModelError(
            f"{path.name} is encrypted ({cipher})", str(path), "export it without enc_key"
        )


def _checked(model: Message, path: Path) -> Message:
    if not model.has("graph"):
        raise ModelError(
            f"{path.name} holds no MindIR graph",
            str(path),
            'pass a file of mindspore.export(..., file_format="MINDIR")',
        )
    version = model.integer("mind_ir_version")
    if not 0 <= version <= NEWEST_VERSION:
        raise ModelError(
            f"{path.name} is MindIR version {version}; versions up to {NEWEST_VERSION} can be read",
            str(path),
            "export it with MindSpore 2.10 or older",
        )
    if not model.integer("little_endian", 1):
        raise ModelError(
            f"{path.name} was written on a big-endian machine", str(path), "export it on another"
        )
    return model
