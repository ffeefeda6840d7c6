import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives.curves import (
    NOTHING,
    Curve,
    CurveTable,
    lowest,
    spliced,
    upper,
    winners,
)

LINES = st.builds(Curve.line, st.floats(0, 1e-3), st.floats(0, 1e-6))
BENT = st.lists(LINES, min_size=1, max_size=4).map(lowest)
BYTES = st.floats(0, 1e9)


@given(st.lists(LINES, min_size=1, max_size=5), BYTES)
def test_the_lowest_and_the_upper_of_lines(lines: list[Curve], nbytes: float) -> None:
    times = [line.time_s(nbytes) for line in lines]
    assert lowest(lines).time_s(nbytes) == pytest.approx(min(times))
    assert upper(lines).time_s(nbytes) == pytest.approx(max(times))


@given(BENT, BENT, BYTES)
def test_a_sum_takes_as_long_as_its_parts(one: Curve, two: Curve, nbytes: float) -> None:
    assert (one + two).time_s(nbytes) == pytest.approx(one.time_s(nbytes) + two.time_s(nbytes))


@given(BENT, st.integers(1, 64), BYTES)
def test_a_share_of_the_work(curve: Curve, parts: int, nbytes: float) -> None:
    assert curve.on_share(parts).time_s(nbytes) == pytest.approx(curve.time_s(nbytes / parts))
    assert curve.times(parts).time_s(nbytes) == pytest.approx(parts * curve.time_s(nbytes))


@given(BENT, st.lists(BYTES, min_size=1), st.floats(0, 1))
def test_arrays_take_as_long_as_their_elements(
    curve: Curve, sizes: list[float], scale: float
) -> None:
    each = [curve.time_s(n, scale) for n in sizes]
    assert curve.time_s(np.array(sizes), scale) == pytest.approx(each)
    table = CurveTable.of([NOTHING, curve])
    rows = np.ones(len(sizes), dtype=np.intp)
    assert table.time_s(rows, np.array(sizes), scale) == pytest.approx(each)
    assert not table.time_s(rows - 1, np.array(sizes), scale).any()


def test_a_bucket_is_priced_at_its_own_size() -> None:
    curve = lowest((Curve.line(1.0, 1.0), Curve.line(10.0, 0.1)))
    assert curve.starts == (0.0, 10.0)
    assert curve.time_s(5.0) == 6.0
    # 5 of 50 bytes: a tenth of 10 + 0.1 x 50.
    assert curve.time_s(5.0, 0.1) == pytest.approx(1.5)
    assert curve.time_s(5.0, 0.0) == pytest.approx(0.5)
    assert curve.time_s(0.0, 0.0) == 0.0


def test_what_is_expected_decides_and_what_is_measured_counts() -> None:
    expected = [Curve.line(1.0, 1.0), Curve.line(3.0, 0.5)]
    assert winners(expected) == ((0.0, 0), (4.0, 1))
    measured = [Curve.line(2.0, 1.0), Curve.line(20.0, 0.25)]
    curve = spliced(measured, winners(expected))
    assert curve.time_s(3.0) == 5.0
    assert curve.time_s(4.0) == 21.0


@given(st.lists(LINES, min_size=2, max_size=4), st.lists(LINES, min_size=2, max_size=4), BYTES)
def test_a_smaller_message_never_takes_longer(
    expected: list[Curve], measured: list[Curve], nbytes: float
) -> None:
    count = min(len(expected), len(measured))
    raw = spliced(measured[:count], winners(expected[:count]))
    grown = raw.growing()
    assert grown.time_s(nbytes) <= raw.time_s(nbytes) * (1 + 1e-9)
    later = [nbytes + step for step in (0.0, 1.0, 1e3, 1e6, 1e8)]
    times = [grown.time_s(n) for n in later]
    assert all(a <= b * (1 + 1e-6) + 1e-15 for a, b in itertools.pairwise(times))


def test_a_message_that_would_take_longer_is_padded() -> None:
    curve = spliced((Curve.line(10.0, 1.0), Curve.line(12.0, 0.0)), ((0.0, 0), (5.0, 1)))
    assert curve.growing().time_s(1.0) == 11.0
    assert curve.growing().time_s(4.0) == 12.0
