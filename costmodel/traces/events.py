"""Events of a trace in Chrome's JSON, one by one: a file of any size takes little memory."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from costmodel.link_calibration.measurements import CalibrationError

__all__ = ["header_and_events", "opened"]

_PIECE = 2**18
"""Characters that are read at once."""
_LONGEST = 2**22
"""Characters of one event, and of what stands before the first."""
MOST_CHARACTERS = 2**33
"""Of a trace after unpacking."""
_GAP = re.compile(r"[\s,]*")
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')


def opened(path: Path) -> IO[str]:
    """The text of a file, unpacked where it is gzip."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def header_and_events(file: IO[str], name: str) -> tuple[str, Iterator[dict[str, Any]]]:
    """What stands before the events, and the events.

    Raises:
        CalibrationError: it is no trace; while events are read, that it was cut off.
    """
    text = _Text(file, name)
    while (found := _BEGIN.search(text.held)) is None:
        if text.held.lstrip().startswith("[") and not text.held.lstrip().startswith("[]"):
            text.drop(text.held.index("[") + 1)
            return "", _events(text)
        if len(text.held) > _LONGEST or not text.more():
            raise CalibrationError(
                "the file has no traceEvents", name, "give a trace that a profiler exported"
            )
    head = text.held[: found.start()]
    text.drop(found.end())
    return head, _events(text)


class _Text:
    """A window of a file."""

    def __init__(self, file: IO[str], name: str) -> None:
        self.file, self.name, self.held, self.read = file, name, "", 0

    def more(self) -> bool:
        """Read on; whether there was more."""
        try:
            piece = self.file.read(_PIECE)
        except (EOFError, OSError, zlib.error) as error:
            raise self.fault("the trace ends in the middle", "copy it again") from error
        self.read += len(piece)
        if self.read > MOST_CHARACTERS:
            fix = "profile one to three steps"
            raise self.fault(f"the trace is longer than {MOST_CHARACTERS:,} characters", fix)
        self.held += piece
        return bool(piece)

    def drop(self, count: int) -> None:
        self.held = self.held[count:]

    def fault(self, what: str, fix: str) -> CalibrationError:
        return CalibrationError(what, f"{self.name}, character {self.read:,}", fix)


def _events(text: _Text) -> Iterator[dict[str, Any]]:
    decoder, place = json.JSONDecoder(), 0
    while True:
        gap = _GAP.match(text.held, place)
        place = gap.end() if gap is not None else place
        if place < len(text.held) and text.held[place] == "]":
            return
        try:
            event, place = decoder.raw_decode(text.held, place)
        except RecursionError as error:
            raise text.fault("an event is nested too deep", "export the trace again") from error
        except json.JSONDecodeError as error:
            text.drop(place)
            place = 0
            if len(text.held) > _LONGEST:
                fix = "export the trace again"
                raise text.fault("an event is no JSON, or has no end", fix) from error
            if not text.more():
                what = "the trace ends in the middle"
                raise text.fault(what, "copy it again, or export it again") from error
            continue
        if isinstance(event, dict):
            yield event
