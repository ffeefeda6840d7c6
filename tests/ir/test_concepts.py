"""The examples of docs/concepts.md are true."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts.md"


def test_the_examples_of_the_concepts_run() -> None:
    found = doctest.testfile(
        str(CONCEPTS), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted > 15
    assert found.failed == 0
