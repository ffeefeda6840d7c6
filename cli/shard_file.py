"""`search --shard FILE`: the file with calls of MindSpore's `shard`."""

from __future__ import annotations

from pathlib import Path

from cli.rank_tables import table_text
from planner.asking.sources import Document


def shard_file(file: Path | None) -> Document | None:
    """The file, if one is given.

    Raises:
        UserError: it cannot be read, is too large, or is no text.
    """
    return None if file is None else Document(str(file), table_text(file, f"--shard {file}"))
