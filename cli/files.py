"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cli.errors import UserError

Writer = Callable[[Path], None]
"""Writes one file to the path that it is given."""


def check_folder(folder: Path) -> None:
    """Find out before the work begins whether files can be written; leaves nothing behind.

    Raises:
        UserError: the folder cannot be made, or nothing can be written into it.
    """
    with _reported(folder), _made(folder) as made, tempfile.TemporaryDirectory(dir=folder):
        made.clear_on_exit = True


def write_files(folder: Path, writers: Mapping[str, Writer]) -> list[Path]:
    """Write all files into a folder, which is made if need be: all of them or none.

    Raises:
        UserError: the folder or a file cannot be written.
    """
    blocked = [folder / name for name in writers if (folder / name).is_dir()]
    if blocked:
        raise UserError(f"{blocked[0]} is a folder", f"-o {folder}", "name another place")
    with (
        _reported(folder),
        _made(folder),
        tempfile.TemporaryDirectory(prefix=".planner-", dir=folder) as text,
    ):
        staging = Path(text)
        for name, write in writers.items():
            write(staging / name)
        for name in writers:
            (staging / name).replace(folder / name)
    return [folder / name for name in writers]


class _Made:
    """Folders that did not exist before."""

    def __init__(self) -> None:
        self.clear_on_exit = False


@contextmanager
def _made(folder: Path) -> Iterator[_Made]:
    """A folder that exists; if it was made here and the work fails, it goes away again."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    state = _Made()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield state
    except BaseException:
        state.clear_on_exit = True
        raise
    finally:
        if state.clear_on_exit:
            for path in missing:
                with contextlib.suppress(OSError):
                    path.rmdir()


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write into {folder}: {error.strerror or error}",
            f"-o {folder}",
            "name a folder that you may write to",
        ) from error
