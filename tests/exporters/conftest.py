"""The plan made by hand, for all exporters."""

from __future__ import annotations

import pytest

from ir.plan import Plan
from tests.plans import tiny_plan


@pytest.fixture
def plan() -> Plan:
    """Two servers of four cards, two equal layers and a head; no two numbers mean the same."""
    return tiny_plan()
