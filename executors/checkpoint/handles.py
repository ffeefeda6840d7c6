"""Open files, no more at a time than the system allows."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_MOST_OPEN = 128
_SYNC = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class Handles:
    """Descriptors by path; those used least recently are closed first."""

    def __init__(self, flags: int) -> None:
        self._flags = flags | os.O_CLOEXEC
        self._open: OrderedDict[Path, int] = OrderedDict()
        self._touched: set[Path] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def of(self, path: Path) -> int:
        """The descriptor of a file."""
        found = self._open.get(path)
        if found is None:
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.popitem(last=False)[1])
            found = self._open[path] = os.open(path, self._flags, 0o666)
        self._open.move_to_end(path)
        self._touched.add(path)
        return found

    def sync(self) -> None:
        """Wait until everything that was written since the last time is on disk."""
        for path in sorted(self._touched):
            _SYNC(self.of(path))
        self._touched.clear()


def sync_folders(folders: Iterable[Path]) -> None:
    """Wait until the names of files in these folders are on disk."""
    for folder in sorted(set(folders)):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
