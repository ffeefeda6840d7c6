"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cli.errors import UserError
from planner.requests.option_texts import PICTURES, check_drawing

MOST_BYTES = 2**26
"""Larger files are not read: cluster files are far smaller, and so are rank tables."""
Writer = Callable[[Path], object]
"""Writes one file to the path that it is given."""


def writer_of(content: str | bytes) -> Writer:
    """Writes just this; text in UTF-8."""
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def text_of(
    path: Path, where: str, fix: str, *, regular: bool = False, most: int = MOST_BYTES
) -> str:
    """The text of a file that is no larger than any rank table or cluster file.

    Args:
        path: of the file.
        where: what names it, for the error.
        fix: what to name instead.
        regular: refuse folders, devices and pipes by what they are.
        most: bytes that it may have.

    Raises:
        UserError: it cannot be read, is larger, or is no text.
    """
    try:
        if regular and path.exists() and not path.is_file():
            raise UserError(f"{path} is no regular file", where, fix)
        with path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise UserError(f"{path} is larger than {most} bytes", where, fix)
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text in UTF-8", where, fix) from error
    except (OSError, ValueError) as error:  # ValueError for a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {path}: {reason}", where, fix) from error


def check_folder(folder: Path, at: str = "") -> None:
    """Find out before the work begins whether files can be written; leaves nothing behind.

    Args:
        folder: to write into.
        at: what names it, for the error.

    Raises:
        UserError: the folder cannot be made, or nothing can be written into it.
    """
    with _reported(folder, at), _made(folder) as made, tempfile.TemporaryDirectory(dir=folder):
        made.clear_on_exit = True


def check_outputs(named: Mapping[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """Find out before the work begins whether files can be written; leaves nothing behind.

    Args:
        named: the files by the option that names each; `None` where one is not asked for.
        inputs: what the work reads, which is not to be lost.

    Raises:
        UserError: one cannot be written, is read, or is named twice.
    """
    taken: list[Path] = []
    for option, path in named.items():
        if path is None:
            continue
        at = f"{option} {path}"
        with _reported(path.parent, at):
            _check_place(path, at)
            if any(_same(path, each) for each in inputs):
                raise UserError(f"{path} is what is read", at, "name another file")
            if any(_same(path, each) for each in taken):
                raise UserError(f"{path} is named for two outputs", at, "name another file")
        check_folder(path.parent, at)
        taken.append(path)


def check_picture(path: Path | None, option: str, *, here: bool = True) -> None:
    """Raise `UserError` if a picture cannot be drawn as this file.

    Args:
        path: `None` where no picture is asked for.
        option: what names it.
        here: it is drawn on this machine, not by a service.
    """
    if path is None:
        return
    at = f"{option} {path}"
    if path.suffix.lower() not in PICTURES:
        raise UserError(
            f"cannot write a picture as {path.suffix.lstrip('.') or 'nothing'!r}",
            at,
            f"name a file that ends in {' or '.join(PICTURES)}",
        )
    if here:
        check_drawing(at)


def _same(one: Path, other: Path) -> bool:
    return one.absolute() == other.absolute() or (
        one.exists() and other.exists() and one.samefile(other)
    )


def _check_place(path: Path, at: str) -> None:
    """Refuse what a file would replace that is none: folders, devices and pipes."""
    if path.is_dir():
        raise UserError(f"{path} is a folder", at, "name another place")
    device = path.parent.resolve() == Path("/dev")
    if device or (path.exists() and not path.is_file()):
        raise UserError(f"{path} is no regular file", at, "name another place")


def write_files(
    folder: Path, writers: Mapping[str, Writer], replaced: Iterable[Path] = ()
) -> list[Path]:
    """Write all files into a folder, which is made if need be: all of them or none.

    Args:
        folder: to write into.
        writers: of each file, by name.
        replaced: older files that go when these stand.

    Raises:
        UserError: the folder or a file cannot be written.
    """
    paths = {folder / name: write for name, write in writers.items()}
    return write_paths(paths, replaced)


def write_paths(writers: Mapping[Path, Writer], replaced: Iterable[Path] = ()) -> list[Path]:
    """Write files into any folders, which are made if need be: all of them or none.

    Args:
        writers: of each file.
        replaced: older files that go when these stand.

    Raises:
        UserError: a folder or a file cannot be written.
    """
    for path in writers:
        with _reported(path.parent):
            _check_place(path, f"-o {path.parent}")
    with ExitStack() as stack:
        staging: dict[Path, Path] = {}
        for folder in dict.fromkeys(path.parent for path in writers):
            stack.enter_context(_reported(folder))
            stack.enter_context(_made(folder))
            staged = tempfile.TemporaryDirectory(prefix=".planner-", dir=folder)
            staging[folder] = Path(stack.enter_context(staged))
        for path, write in writers.items():
            write(staging[path.parent] / path.name)
        for path in writers:
            (staging[path.parent] / path.name).replace(path)
        for path in replaced:
            path.unlink(missing_ok=True)
    return list(writers)


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
def _reported(folder: Path, at: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write into {folder}: {error.strerror or error}",
            at or f"-o {folder}",
            "name a folder that you may write to",
        ) from error
