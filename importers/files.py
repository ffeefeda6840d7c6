"""Files of others, read with limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from importers.errors import ModelError


def is_there(path: Path) -> bool:
    """Whether anything has this name; nothing has one that no file can have."""
    try:
        return path.exists()
    except OSError:
        return False


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what the system says of a file that cannot be read into one error."""
    try:
        yield
    except ModelError:
        raise
    except (OSError, ValueError) as error:  # ValueError for a name that no file can have
        reason = getattr(error, "strerror", None) or error
        what = f"cannot read {path}: {reason}"
        raise ModelError(what, str(path), "check the path and its permissions") from error


def file_size(
    path: Path,
    most_bytes: int,
    fix: str,
    *,
    inside: str = "pass the file inside it",
    copy: str = "copy it to a file",
) -> int:
    """Bytes of a file.

    Args:
        path: the file.
        most_bytes: a larger file is refused.
        fix: what the user may do then.
        inside: what he may do if it is a folder.
        copy: what he may do if it is no regular file.

    Raises:
        ModelError: it is refused.
        OSError: there is none.
    """
    if path.is_dir():
        raise ModelError(f"{path} is a folder", str(path), inside)
    if path.exists() and not path.is_file():
        raise ModelError(f"{path} is no regular file", str(path), copy)
    size = path.stat().st_size
    if size > most_bytes:
        raise ModelError(f"{path.name} is larger than {most_bytes} bytes", str(path), fix)
    return size


def read_json_object(path: Path, most_bytes: int, fix: str) -> Mapping[str, object]:
    """The JSON object in a file.

    Args:
        path: the file.
        most_bytes: a larger file is refused before it is read.
        fix: what the user may do if it is none.

    Raises:
        ModelError: no file, too large, too deep, or no JSON object.
    """
    with readable(path):
        file_size(path, most_bytes, fix, inside="name the file inside it")
        text = path.read_bytes()
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ModelError(f"{path.name} is nested too deeply", str(path), fix) from error
    except ValueError as error:
        raise ModelError(f"{path.name} is no JSON: {error}", str(path), fix) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path.name} holds no JSON object", str(path), fix)
    return found
