from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.requests.errors import UserError
from planner.requests.option_texts import RANKS
from planner.requests.sources import Document
from planner.whatif.analysis import (
    Prices,
    Ranking,
    Rates,
    best_of,
    bill,
    bundled_prices,
    deadline,
    front,
    objectives,
    rate_of,
    read_prices,
    scaling,
    undominated,
)
from planner.whatif.axes import Place
from planner.whatif.changes import Change, changes
from planner.whatif.plot import plain_scale, save_plot
from planner.whatif.report import COLUMNS, answer, csv_text, report_of, row
from planner.whatif.sweep import Point
from planner.whatif.tasks import Result
from report.sweep import parts

PRICES = Prices("USD", {"chip": Rates(2.0, 500.0)})


def _point(devices: int, step_s: float, memory: float = 1.0, **axes: float | str) -> Point:
    values = tuple({"devices": devices, **axes}.items())
    result = Result(
        "ok", step_s=step_s, bound_s=step_s, gap=0.0, peak_bytes=memory, limit_bytes=9.0,
        samples=8.0, tokens=8000.0, outline=f"plan {devices}", signature=f"{devices}", chip="chip",
    )  # fmt: skip
    return Point(Place(values), f"{values}", devices, result)


def _lost(devices: int) -> Point:
    return Point(Place((("devices", devices),)), "-", devices, Result("does not fit", "too large"))


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30))
def test_the_front_is_what_no_other_beats(rows: list[tuple[int, ...]]) -> None:
    values = np.array(rows, dtype=float)
    keep = undominated(values)
    for i, one in enumerate(rows):
        beaten = any(
            all(a <= b for a, b in zip(other, one, strict=True)) and other != one for other in rows
        )
        assert keep[i] == (not beaten)


def test_the_front_holds_the_best_in_each_objective_and_equal_points_once() -> None:
    points = [_point(8, 4.0, 3.0), _point(16, 2.5, 2.0), _point(16, 2.6, 2.5), _lost(32)]
    found = front([*points, points[0]], PRICES)
    assert found == (points[0], points[1])
    for place in range(4):
        best = min(objectives(p, PRICES)[place] for p in points[:3])
        assert any(objectives(p, PRICES)[place] == best for p in found)
    assert front([_lost(8)], PRICES) == ()


def test_a_faster_machine_that_costs_nothing_beats_no_slower_one() -> None:
    """Nobody says what the faster network costs; one that gains nothing is worse for it."""
    slow = _point(8, 4.0, bandwidth=1.0)
    fast, idle = _point(8, 3.0, bandwidth=2.0), _point(8, 4.0, bandwidth=4.0)
    assert front([slow, fast, idle], PRICES) == (slow, fast)
    quick, late = _point(8, 3.0, latency=0.5), _point(8, 3.0, latency=2.0)
    assert front([quick, late], PRICES) == (late,)


@pytest.mark.fast
def test_axes_of_devices_are_labelled_by_their_numbers() -> None:
    """As 8, 16, 32; not as powers of two or ten."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    axes = Figure().subplots()
    axes.plot([8, 16, 32], [1, 2, 3])
    plain_scale(axes)
    axes.set_xlim(8, 32)
    labels = [each.get_text() for each in axes.get_xticklabels()]
    assert {"8", "16", "32"} <= set(labels)
    assert not any("^" in each for each in labels)


def test_scaling_begins_at_the_fewest_devices_with_a_plan() -> None:
    points = [_lost(4), _point(8, 4.0), _point(32, 1.25), _point(16, 2.0)]
    (curve,) = scaling(points)
    assert [p.devices for p in curve.points] == [8, 16, 32]
    assert [p.speedup for p in curve.points] == [1.0, 2.0, 3.2]
    assert [p.efficiency for p in curve.points] == [1.0, 1.0, 0.8]


def test_a_plan_changes_where_its_signature_does() -> None:
    points = [_point(8, 1.0, bandwidth=b) for b in (0.5, 1.0, 2.0)]
    assert changes(points) == ()
    other = replace(points[2], result=replace(points[2].result, signature="x", outline="other"))
    (found,) = changes([*points[:2], other])
    assert (found.axis, found.before, found.after) == ("bandwidth", 1.0, 2.0)
    assert found.plans == ("plan 8", "other")
    (lost,) = changes([_point(8, 1.0), _lost(4)])
    assert lost.plans == ("does not fit", "plan 8")


@given(tokens=st.floats(1e3, 1e15), days=st.floats(0.1, 1000))
def test_the_fewest_devices_that_are_in_time_are_in_time(tokens: float, days: float) -> None:
    points = [_point(8, 4.0), _point(16, 2.2), _point(32, 1.5), _lost(64)]
    found = deadline(points, tokens, days)
    if found.point is None:
        assert all(tokens / rate_of(p) > days * 86400 for p in points[:3])
        assert found.needed_devices is not None
        assert found.needed_devices > 32
    else:
        assert found.takes_days <= days * (1 + 1e-9)
        fewer = [p for p in points[:3] if p.devices < found.point.devices]
        assert all(tokens / rate_of(p) > days * 86400 for p in fewer)


def test_the_best_point_gets_most_done() -> None:
    points = [_point(8, 4.0), _point(16, 2.0), _point(32, 2.0)]
    assert best_of(points) == points[1]
    assert best_of([_lost(8)]) is None


def _with_evidence(point: Point, upper: float | None) -> Point:
    """The point with an interval whose 75th percentile is so many times its step."""
    step_s = point.result.step_s
    ends = (None,) * 3 if upper is None else (0.9 * step_s, 2 * upper * step_s, upper * step_s)
    low_s, high_s, upper_s = ends
    return replace(point, result=replace(point.result, low_s=low_s, high_s=high_s, upper_s=upper_s))


@given(st.lists(st.tuples(st.floats(0.1, 10), st.none() | st.floats(1, 2)), min_size=1))
def test_a_robust_ranking_never_prefers_what_nobody_measured(
    drawn: list[tuple[float, float | None]],
) -> None:
    points = [
        _with_evidence(_point(8 + at, step_s), upper) for at, (step_s, upper) in enumerate(drawn)
    ]
    ranking = Ranking.of("robust", points)
    widest = max((upper for _, upper in drawn if upper), default=1.0)
    for point, (step_s, upper) in zip(points, drawn, strict=True):
        assert ranking.step_s(point) == pytest.approx(step_s * (upper or widest))
    best = best_of(points, ranking)
    assert best is not None
    assert ranking.rate(best) == max(map(ranking.rate, points))
    assert best_of(points, Ranking.of("median", points)) == best_of(points)
    assert best in front(points, PRICES, ranking)


def test_a_wide_interval_costs_a_faster_point_its_place() -> None:
    points = (_with_evidence(_point(8, 2.0), 1.5), _with_evidence(_point(8, 2.2, memory=2), 1.1))
    found = {rank: report_of("m", (), points, PRICES, (2, 0), None, rank) for rank in RANKS}
    assert found["median"].best == points[0]
    assert found["robust"].best == points[1]
    told = {rank: answer(report) for rank, report in found.items()}
    assert [told[rank]["best"] for rank in RANKS] == [1, 0]
    text = "\n".join(str(part) for part in parts(told["robust"]))
    for word in ("90 % interval", "1.8 to 6", "3", "2.42", "75th percentile"):
        assert word in text


def test_a_step_costs_device_hours_and_watts() -> None:
    found = bill(PRICES, "chip", 16, 3600.0)
    assert found.step_price == 32.0
    assert found.step_joules == 16 * 500.0 * 3600.0
    assert bill(PRICES, "other", 16, 1.0).step_price is None


def test_every_bundled_price_has_a_source_and_a_date_and_a_chip() -> None:

    import data  # noqa: PLC0415

    record = data.read_yaml("prices.yaml")
    for name, item in record["devices"].items():
        assert name in data.names("chips")
        assert item["hour"]["source"]
        assert str(item["hour"]["date"])[:2] == "20"
    prices = bundled_prices()
    assert prices.of("ascend_910b3").power_w == 400.0
    assert prices.of("nobody knows").power_w is None


@pytest.mark.parametrize("text", ["", "- 1", "devices: {a: 1}", "currency: X", "{",
                                  "{currency: X, devices: {a: {hour: {value: -1}}}}"])  # fmt: skip
def test_what_is_no_table_of_prices_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is no table of prices"):
        read_prices(Document("mine.yaml", text))


@pytest.mark.fast
def test_a_table_has_one_header_and_one_row_for_each_point() -> None:
    points = [_point(8, 4.0, bandwidth=0.5), _lost(16), _point(8, 4.0, cluster="a,b")]
    rows = list(csv.reader(io.StringIO(csv_text(points, PRICES))))
    assert rows[0] == list(COLUMNS)
    assert len(rows) == 4
    assert {len(cells) for cells in rows} == {len(COLUMNS)}
    cells = dict(zip(*rows[:2], strict=True))
    assert (cells["devices"], cells["bandwidth"], cells["step_s"]) == ("8", "0.5", "4")
    assert float(cells["tokens_per_s"]) == 2000.0
    assert math.isclose(float(cells["price_per_step"]), 8 * 2.0 * 4 / 3600, rel_tol=1e-8)
    assert row(points[1], PRICES)["step_s"] is None


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_picture_is_drawn_of_any_sweep_and_is_the_same_each_time(
    kind: str, tmp_path: Path
) -> None:
    points = [_point(8, 4.0, bandwidth=0.5), _point(16, 2.0, bandwidth=1.0), _lost(32)]
    for name, shown in (("a", points), ("b", points), ("none", [_lost(8)])):
        save_plot(shown, PRICES, tmp_path / name, kind)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    place = points[0].place.without("bandwidth")
    turn = Change("bandwidth", place, 0.7, 0.71, ("one", "other"), exact=True)
    save_plot(points, PRICES, tmp_path / "turn", kind, [turn])
    assert (tmp_path / "turn").read_bytes() != (tmp_path / "a").read_bytes()
    save_plot(points, PRICES, tmp_path / "turn", kind, [replace(turn, exact=False)])
    assert (tmp_path / "turn").read_bytes() == (tmp_path / "a").read_bytes()
    with pytest.raises(UserError, match="as 'pdf'"):
        save_plot(points, PRICES, tmp_path / "c", "pdf")
