"""Which collectives are sent together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.simulation.buckets import Fusion, FusionMode, Message, buckets

SIZES = st.lists(st.floats(0, 200), max_size=20)


@given(SIZES, st.integers(0, 150))
def test_every_message_is_sent_once_and_in_order(sizes: list[float], nbytes: int) -> None:
    messages = [Message(i, size) for i, size in enumerate(sizes)]
    found = buckets(messages, Fusion(FusionMode.SIZE, nbytes))
    assert [n for bucket in found for n in bucket] == list(range(len(sizes)))
    for bucket in found[:-1]:
        assert sum(sizes[n] for n in bucket) >= nbytes
        assert nbytes == 0 or sum(sizes[n] for n in bucket[:-1]) < nbytes


def test_nothing_is_fused_at_size_0() -> None:
    messages = [Message(i, 8.0) for i in range(3)]
    assert buckets(messages, Fusion(FusionMode.SIZE, 0)) == [[0], [1], [2]]


def test_auto_fuses_up_to_64_mb() -> None:
    messages = [Message(i, 20 * 2**20) for i in range(6)]
    assert buckets(messages, Fusion()) == [[0, 1, 2, 3], [4, 5]]


def test_an_index_is_the_last_parameter_of_its_bucket() -> None:
    """Gradients come in reverse order; the bucket with the last parameter is ready first."""
    messages = [Message(5 - i, 1.0, 5 - i) for i in range(6)]
    fusion = Fusion(FusionMode.INDEX, splits=(1, 3))
    assert buckets(messages, fusion) == [[5, 4], [3, 2], [1, 0]]


@pytest.mark.parametrize("splits", [(), (7,)])
def test_without_an_index_inside_all_are_one_bucket(splits: tuple[int, ...]) -> None:
    messages = [Message(i, 1.0, i) for i in range(4)]
    assert buckets(messages, Fusion(FusionMode.INDEX, splits=splits)) == [[0, 1, 2, 3]]
