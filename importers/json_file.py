"""JSON files of others, read with limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from importers.errors import ModelError


def is_there(path: Path) -> bool:
    """Whether anything has this name; nothing has one that no file can have."""
    try:
        return path.exists()
    except OSError:
        return False


def read_json_object(path: Path, most_bytes: int, fix: str) -> Mapping[str, object]:
    """The JSON object in a file.

    Args:
        path: the file.
        most_bytes: a larger file is refused before it is read.
        fix: what the user may do if it is none.

    Raises:
        ModelError: no file, too large, too deep, or no JSON object.
    """
    try:
        text = _bytes(path, most_bytes, fix)
    except ModelError:
        raise
    except (OSError, ValueError) as error:  # ValueError for a name that no file can have
        reason = getattr(error, "strerror", None) or error
        what = f"cannot read {path}: {reason}"
        raise ModelError(what, str(path), "check the path and its permissions") from error
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ModelError(f"{path.name} is nested too deeply", str(path), fix) from error
    except ValueError as error:
        raise ModelError(f"{path.name} is no JSON: {error}", str(path), fix) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path.name} holds no JSON object", str(path), fix)
    return found


def _bytes(path: Path, most_bytes: int, fix: str) -> bytes:
    if path.is_dir():
        raise ModelError(f"{path} is a folder", str(path), "name the file inside it")
    if path.exists() and not path.is_file():
        raise ModelError(f"{path} is no regular file", str(path), "copy it to a file")
    if path.stat().st_size > most_bytes:
        raise ModelError(f"{path.name} is larger than {most_bytes} bytes", str(path), fix)
    return path.read_bytes()
