"""MindSpore parameter-strategy checkpoints, the files that `save_param_strategy_file` names.

The suffix chooses the form: `.json` is JSON, anything else protobuf. Both hold the cuts of the
operators that have parameters, and the layouts of the parameters. Only JSON holds tensor shapes;
only protobuf holds nested tensor maps.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from exporters.errors import StrategyFileError
from exporters.mindspore.records import (
    ParameterLayout,
    StrategyCheckpoint,
    StrategyItem,
    standardise,
    with_shapes,
)
from exporters.mindspore.strategy_json import from_json, to_json
from exporters.mindspore.strategy_protobuf import from_protobuf, to_protobuf
from ir.violations import Violation
from ir.whole_file import write_whole

__all__ = [
    "ParameterLayout", "StrategyCheckpoint", "StrategyFileError", "StrategyItem", "Violation",
    "file_bytes", "from_json", "from_protobuf", "read", "standardise", "to_json", "to_protobuf",
    "with_shapes", "write",
]  # fmt: skip

_T = TypeVar("_T")
LARGEST_FILE_BYTES = 64 * 2**20
"""Room for 100,000 parameters at 600 bytes each; anything larger is no strategy file."""


def read(path: str | Path) -> StrategyCheckpoint:
    """The checkpoint in a file.

    Raises:
        StrategyFileError: if the file cannot be read or holds none.
    """
    return parsed_file(
        Path(path), lambda data: from_json(data.decode()) if _is_json(path) else from_protobuf(data)
    )


def parsed_file(path: Path, parse: Callable[[bytes], _T]) -> _T:
    """What is made of the bytes of a file.

    Raises:
        StrategyFileError: if it cannot be read or is at fault; the error names the file.
    """
    data = file_bytes(path)
    try:
        return parse(data)
    except UnicodeDecodeError as error:
        where, fix = f"{path}, byte {error.start}", "save the file as UTF-8"
        raise StrategyFileError(Violation("not UTF-8", where, fix)) from error
    except StrategyFileError as error:
        raise error.inside(str(path)) from error


def write(path: str | Path, checkpoint: StrategyCheckpoint) -> None:
    """Write a checkpoint that only its owner may read, whole or not at all; folders are made.

    Raises:
        StrategyFileError: if the form cannot hold the checkpoint or the file cannot be written.
    """
    target = Path(path)
    data = to_json(checkpoint).encode() if _is_json(path) else to_protobuf(checkpoint)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, data)
    except OSError as error:
        what = f"the strategy file cannot be written: {error.strerror}"
        fix = "name a file in a folder that you may write to"
        raise StrategyFileError(Violation(what, str(path), fix)) from error


def _is_json(path: str | Path) -> bool:
    return str(path).endswith(".json")


def file_bytes(path: Path) -> bytes:
    """What is in a file of at most `LARGEST_FILE_BYTES`.

    Raises:
        StrategyFileError: it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        what = f"the strategy file cannot be read: {error.strerror}"
        fix = "name a file that exists and that you may read"
        raise StrategyFileError(Violation(what, str(path), fix)) from error
    if len(data) > LARGEST_FILE_BYTES:
        what = f"more than {LARGEST_FILE_BYTES} bytes"
        raise StrategyFileError(Violation(what, str(path), "name a strategy file"))
    return data
