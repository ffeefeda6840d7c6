from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.requests.errors import UserError
from planner.whatif.axes import NAMES, Axis, Place, list_axis, parse_axes, places, steps

pytestmark = pytest.mark.fast

NUMBERS = st.floats(0.01, 1e6)


@given(low=NUMBERS, high=NUMBERS, count=st.integers(2, 40))
def test_steps_have_equal_ratios_and_keep_both_ends(low: float, high: float, count: int) -> None:
    found = [float(value) for value in steps(low, high, count, whole=False)]
    assert len(found) == count
    assert math.isclose(found[0], low, rel_tol=1e-9)
    assert math.isclose(found[-1], high, rel_tol=1e-9)
    ratios = [b / a for a, b in pairwise(found)]
    assert all(math.isclose(r, ratios[0], rel_tol=1e-6) for r in ratios)


@given(low=st.integers(1, 10**5), high=st.integers(1, 10**5), count=st.integers(1, 40))
def test_whole_steps_are_the_nearest_multiples_of_eight_and_none_is_dropped(
    low: int, high: int, count: int
) -> None:
    exact = [float(value) for value in steps(low, high, count, whole=False)]
    found = steps(low, high, count, whole=True)
    assert len(found) == count
    for value, wanted in zip(found, exact, strict=True):
        assert isinstance(value, int)
        assert value % 8 == 0
        assert value >= 8
        assert abs(value - wanted) <= 4 + 1e-6 or (value == 8 and wanted < 8)


def test_the_steps_of_the_issue() -> None:
    bandwidth, batch = parse_axes("bandwidth=0.5:2:5,batch=64:1024:8")
    assert bandwidth == Axis("bandwidth", (0.5, 0.707106781187, 1.0, 1.41421356237, 2.0))
    assert batch == Axis("batch", (64, 96, 144, 208, 312, 464, 688, 1024))


def test_a_list_is_taken_as_it_is() -> None:
    assert parse_axes("batch=3,5,bandwidth=2") == (Axis("batch", (3, 5)), Axis("bandwidth", (2.0,)))
    assert list_axis("devices", "8,16, 24") == Axis("devices", (8, 16, 24))
    assert list_axis("devices", "8:32:3") == Axis("devices", (8, 16, 32))
    assert list_axis("cluster", "a, b") == Axis("cluster", ("a", "b"))


@pytest.mark.parametrize(
    "text",
    ["", "batch", "speed=1:2:3", "batch=0:8:2", "batch=1:2", "batch=1:2:0", "batch=-1", "batch=x",
     "batch=nan", "bandwidth=inf", "batch=1:2:99999", "batch=1,batch=2", "cluster=a",
     "batch=1:2:3:4"],
)  # fmt: skip
def test_what_is_no_axis_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(UserError, match="fix:"):
        parse_axes(text)


def test_points_are_the_product_of_all_axes_in_one_order() -> None:
    axes = (Axis("bandwidth", (1.0, 2.0)), Axis("devices", (8, 16, 16)))
    found = list(places(axes))
    assert found == list(places(axes[::-1]))
    assert len(found) == 6
    assert found[0] == Place((("devices", 8), ("bandwidth", 1.0)))
    assert [name for name, _ in found[0].values] == sorted(
        ["devices", "bandwidth"], key=NAMES.index
    )


def test_a_point_without_or_with_another_value() -> None:
    place = Place((("devices", 8), ("batch", 64)))
    assert place.without("batch") == Place((("devices", 8),))
    assert place.at("devices", 16).count("devices") == 16
    assert place.at("cluster", "a").values[0] == ("cluster", "a")
    assert place.factor("latency") == 1.0
    assert str(place) == "devices 8, batch 64"


def test_open_dimensions_of_the_model_are_axes_of_whole_numbers() -> None:
    names = ("seq", "batch")
    seq, speed = parse_axes("seq=64:128:2,bandwidth=0.5", dimensions=lambda: names)
    assert (seq, speed) == (Axis("seq", (64, 128)), Axis("bandwidth", (0.5,)))
    with pytest.raises(UserError, match="did you mean 'seq'"):
        parse_axes("seqq=64", dimensions=lambda: names)
    for text in ("seq=0.5", "cluster=a"):
        with pytest.raises(UserError):
            parse_axes(text, dimensions=lambda: (*names, "cluster"))


def test_open_dimensions_stand_between_sizes_and_factors() -> None:
    axes = [Axis("latency", (2.0,)), Axis("seq", (64, 128)), Axis("batch", (8,))]
    found = list(places(axes))
    assert [name for name, _ in found[0].values] == ["batch", "seq", "latency"]
    assert found[1] == found[0].at("seq", 128)
    assert found[0].machine() == Place((("latency", 2.0),))
