"""A file that appears whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, also where several write the same; its mode is that of any new file.

    Raises:
        OSError: it cannot be written; what stood there stands there still.
    """
    part = path.with_name(f".planner-{secrets.token_hex(8)}")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
