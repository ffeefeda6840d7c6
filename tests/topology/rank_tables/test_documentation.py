"""The page on rank tables has every code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from topology.rank_tables import CODES

pytestmark = pytest.mark.fast

PAGE = Path(__file__).parents[3] / "docs" / "rank-tables.md"


def test_every_code_is_explained_and_no_other() -> None:
    told = set(re.findall(r"`([EW]_[A-Z0-9_]+)`", PAGE.read_text()))
    assert told - {"E_", "W_"} == set(CODES)
