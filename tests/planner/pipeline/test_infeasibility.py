"""Why nothing fits: sizes are told in a unit in which they are more than nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner.request import InfeasibleError, SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("limit_bytes", [2**10, 2**16, 2**20])
def test_small_memories_are_not_printed_as_nothing(limit_bytes: int) -> None:
    request: dict[str, Any] = {"memory_limit_bytes": float(limit_bytes), "training": True}
    with pytest.raises(InfeasibleError) as error:
        search(mlp(2, 16, 512, 2048), named_cluster("atlas-800t-a2", 2), SearchRequest(**request))
    told = str(error.value)
    assert not re.search(r"\b0(\.0)? (B|GB|GiB)\b", told), told
    assert " MiB of states" in told
