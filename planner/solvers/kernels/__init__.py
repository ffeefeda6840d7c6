"""Inner loops over flat arrays, compiled by numba when they are first used and then kept.

What is kept lies beside these files, in a folder named after all their contents: numba itself looks
at one file only, and would go on using a loop compiled with an older version of another file. The
environment variable NUMBA_CACHE_DIR names another place.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numba

_FOLDER = Path(__file__).parent


def _digest() -> str:
    found = hashlib.sha256()
    for path in sorted(_FOLDER.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


if not numba.config.CACHE_DIR:  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(_FOLDER / "__pycache__" / _digest())  # type: ignore[attr-defined]
