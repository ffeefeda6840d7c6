"""JSON with a line for each value."""

from __future__ import annotations

import json
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.json_text import indented


class _Word(StrEnum):
    A = "a\n€"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.floats() | st.just(_Word.A)
VALUES = st.recursive(
    SCALARS | st.just(_Word.A),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, st.integers(0, 3))
def test_it_is_the_text_of_the_standard_library(value: object, indent: int) -> None:
    """Down to the spelling of numbers, marks and keys that are no texts."""
    assert indented(value, indent) == json.dumps(value, indent=indent, ensure_ascii=False)


def test_what_json_cannot_say_is_refused() -> None:
    """As the standard library does."""
    with pytest.raises(TypeError):
        indented({"x": [object()]})
