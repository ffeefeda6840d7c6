"""Words that files of before have for a cause."""

from __future__ import annotations

import pytest

from ir.plan_enums import Cause, MemoryCause

pytestmark = pytest.mark.fast


def test_former_words_are_read_as_those_of_today() -> None:
    assert Cause("other stages at work") is Cause.OTHER_STAGES
    assert MemoryCause("activations made again") is MemoryCause.REMADE


def test_words_that_never_were_are_refused() -> None:
    with pytest.raises(ValueError, match="not a valid Cause"):
        Cause("magic")
    with pytest.raises(ValueError, match="not a valid MemoryCause"):
        MemoryCause("magic")
