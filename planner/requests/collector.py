"""The collector of reference cycles, told to look seldom.

Searches make many records and no cycles; looking for cycles takes a tenth of their time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RECORDS_BETWEEN_COLLECTIONS = 200_000


def collect_rarely() -> None:
    """For a process that does nothing but search: what is there already stays."""
    gc.freeze()
    gc.set_threshold(RECORDS_BETWEEN_COLLECTIONS)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """For one command; afterwards the collector looks as often as before."""
    before = gc.get_threshold()
    gc.set_threshold(RECORDS_BETWEEN_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
