"""Folders in memory where there is room: moves wait for the disk again and again."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHARED_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 * 2**30


@pytest.fixture
def folder() -> Iterator[Path]:
    roomy = (
        _SHARED_MEMORY.is_dir()
        and os.access(_SHARED_MEMORY, os.W_OK)
        and shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES
    )
    with tempfile.TemporaryDirectory(dir=_SHARED_MEMORY if roomy else None) as text:
        yield Path(text)
