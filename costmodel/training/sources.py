"""Where a row comes from: a table, or a release, of a publication."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from costmodel.training.notes import read_notes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["source_of"]

_ROW = r"[ ,]*\b(?:rows?|lines?) [0-9]+(?:[-–][0-9]+)?\b"
_RELEASE = re.compile(r"(\S+@(?:v|r)[0-9][\w.]*)(?=[ ,]|$)")
"""A repository at a release: its files there are of one source."""

_FOLDERS = re.compile(r"(\S+ [\w.-]+/[\w.-]+)/\S*")
"""Of a document deep in a repository the first two folders say whose runs are there."""


def source_of(row: Mapping[str, str]) -> str:
    """The source that a row shares with others, which are left out together.

    The document that column `source` names, without the number of the row in it; all files of one
    release of a repository; and of a document of many releases the one that notes name.
    """
    stated = re.sub(_ROW, "", " ".join(row.get("source", "").split()), flags=re.IGNORECASE)
    release = _RELEASE.search(stated)
    if release:
        return release.group(1).lower()
    document = stated.partition(" + ")[0]
    document = _FOLDERS.sub(r"\1", document, count=1)
    container = read_notes(row.get("notes", "")).values.get("release", "")
    return f"{document.lower()} {container}".strip()
