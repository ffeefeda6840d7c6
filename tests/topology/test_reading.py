"""Hostile texts: bounded time and memory, one clear error."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.machines import file
from topology import ClusterError
from topology.loading import check_machine
from topology.reading import MOST_BYTES, plain_values
from topology.uses import bundled

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(f'*{before}' for _ in range(10))}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[" * 100_000, "nested deeper than 32 levels"),
        ('{"a":' * 100_000, "nested deeper than 32 levels"),
        ("{a: " * 50 + "1" + "}" * 50, "nested deeper than 32 levels"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested deeper than 32 levels"),
        ("a: " + "x" * MOST_BYTES, "longer than"),
        (BOMB, "stands for more than"),
        ("a: &a [*a]", "stands for more than"),
        ("a: 1\nb: 2\na: 3", "the key 'a' stands twice"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ("a: [1", "is not YAML"),
        ('{"a": 1', "is not YAML"),
        ("a: !!python/object/apply:os.system [ls]", "is not YAML"),
        ("a: 2024-99-99", "is not YAML"),
        ("a: \x00", "is not YAML"),
        ("just words", "no mapping"),
        ("- a\n- b", "no mapping"),
        ("", "no mapping"),
        ("[1, 2]", "no mapping"),
        ("a: " + "9" * 6000, "is not YAML"),
    ],
)
def test_a_text_that_is_no_machine_file_is_told_as_such(text: str, fault: str) -> None:
    with pytest.raises(ClusterError) as caught:
        plain_values(text, "bad.yaml")
    assert fault in caught.value.what
    assert str(caught.value).count("\n") == 2
    assert len(str(caught.value)) < 1000


def test_repetition_costs_no_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ClusterError):
            plain_values(BOMB, "bomb.yaml")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_references_within_bounds_are_fine() -> None:
    found = plain_values("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}", "ours.yaml")
    assert found == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


def test_braces_may_begin_yaml_and_json() -> None:
    assert plain_values("{a: 1, b: [x]}", "ours.yaml") == {"a": 1, "b": ["x"]}
    assert plain_values('{"a": 1.5}', "ours.json") == {"a": 1.5}


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
WHOLE = bundled("servers", "atlas_800_9000")


def _paths(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a record."""
    keys: Iterable[Any] = ()
    if isinstance(record, dict):
        keys = record
    elif isinstance(record, list):
        keys = range(len(record))
    for key in keys:
        yield (*path, key)
        yield from _paths(record[key], (*path, key))


@settings(max_examples=150)
@given(st.sampled_from(list(_paths(WHOLE))), _values)
def test_no_value_at_any_place_makes_the_check_fail(path: tuple[Any, ...], value: object) -> None:
    server = json.loads(json.dumps(WHOLE))
    inner = server
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    text = json.dumps(file(server, count=2))
    found = check_machine(text, "drawn.json")[1]
    assert all(each.code[:2] in ("E_", "W_") and each.where and each.message for each in found)
