"""`planner layouts`: the list is that of all layouts, and its rows are what `simulate` takes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.training.predict import predict
from costmodel.training.table import RunTable
from importers.sizes import configuration
from planner.request import InfeasibleError
from planner.requests.conventional_layouts import run_of_layout, simulated_layout
from planner.requests.errors import UserError
from planner.requests.options.simulations import LayoutOptions, RankingOptions, SimulationOptions
from planner.whatif import layout_ranking
from planner.whatif.analysis import bundled_prices
from planner.whatif.layout_ranking import Ranking, held_of, layout_text, ranked

LLAMA = "llama2-7b"
JOB = (LLAMA, "--devices", "16", "--batch", "64", "--cluster", "h100")


def _ranked(**options: Any) -> Ranking:
    asked = RankingOptions(devices=16, batch=64, cluster="h100", **options)
    return ranked(asked, configuration(LLAMA), LLAMA)


def test_the_first_is_no_slower_than_any_that_fits() -> None:
    found = _ranked(top=100, variants=True, rank="median")
    best = found.best[0]
    assert best.prediction.step_s == pytest.approx(
        found.priced.step_s[found.priced.fits].min(), rel=1e-12
    )
    times = [each.prediction.step_s for each in found.best]
    assert times == sorted(times)
    assert all(each.prediction.fits for each in found.best)


def test_the_upper_quarter_decides_unless_told() -> None:
    found = _ranked(top=100, variants=True)
    upper = [each.prediction.upper_s for each in found.best]
    assert upper == sorted(upper)
    with pytest.raises(UserError, match="ranking 'best'"):
        _ranked(rank="best")


def test_layouts_beyond_what_was_measured_are_flagged(planner: Callable[..., Any]) -> None:
    call = ("layouts", *JOB, "--hold", "cp=8")
    told = planner(*call)
    assert "context parallel degree 8, in measured runs at most 2" in told.out
    for each in json.loads(planner(*call, "--json").out)["best"]:
        assert any("context parallel" in what for what in each["unmeasured"])
        assert each["step_s"] < each["upper_s"] < each["high_s"]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_row_is_what_simulate_takes(optimizer: str) -> None:
    for each in _ranked(optimizer=optimizer).best:
        asked = LayoutOptions(layout=each.text, cluster="h100", optimizer=optimizer)
        run = run_of_layout(asked, configuration(LLAMA), LLAMA)
        assert run.layout == each.layout
        assert layout_text(run.layout) == each.text
        (one,) = predict([run])
        assert one.step_s == pytest.approx(each.prediction.step_s, rel=1e-12)


def test_layouts_are_ranked_for_an_optimizer(planner: Callable[..., Any]) -> None:
    """Less state fits more layouts; the text says with which option `simulate` takes them."""
    fitting = {}
    for optimizer in ("lamb", "sgd"):
        run = planner("layouts", *JOB, "--optimizer", optimizer)
        assert run.code == 0, run.err
        assert f"--optimizer {optimizer}" in " ".join(run.out.split())
        fitting[optimizer] = int(_ranked(optimizer=optimizer).priced.fits.sum())
    assert fitting["lamb"] < fitting["sgd"]
    assert fitting["lamb"] == int(_ranked().priced.fits.sum())


def test_further_tokens_are_counted_and_may_be_left_out() -> None:
    def of_held(held: str) -> Ranking:
        asked = RankingOptions(devices=8, batch=8, cluster="b200", top=3, held=held)
        return ranked(asked, {**configuration(LLAMA), "num_nextn_predict_layers": 1}, LLAMA)

    found = {held: of_held(held) for held in ("pp=4", "pp=4,mtp=0", "pp=4,mtp=2")}
    assert [each.job.model.further for each in found.values()] == [1, 0, 2]
    for held, ranking in found.items():
        assert ranking.sizes == "batch=8,seq=4096" + held.removeprefix("pp=4")
        for each in ranking.best:
            asked = LayoutOptions(layout=each.text, cluster="b200")
            run = run_of_layout(
                asked, {**configuration(LLAMA), "num_nextn_predict_layers": 1}, LLAMA
            )
            assert (run.layout, run.model.further) == (each.layout, ranking.job.model.further)
            assert predict([run])[0].step_s == pytest.approx(each.prediction.step_s, rel=1e-12)
    one = found["pp=4"].best[0]
    table = RunTable.of([replace(found["pp=4"].job, layout=one.layout)])
    assert float(table.last_layers[0]) + 3 <= float(table.most_layers[0])


def test_embedding_and_head_may_be_a_chunk_each() -> None:
    """32 layers on 34 chunks: a row of the list that `simulate` takes too."""
    held = RankingOptions(devices=2, batch=4, cluster="h100", held="pp=2,vpp=17")
    asked = LayoutOptions(layout=ranked(held, configuration(LLAMA), LLAMA).best[0].text)
    found = simulated_layout(asked, configuration(LLAMA), LLAMA, SimulationOptions())
    assert found.step_s > 0
    more = LayoutOptions(layout="pp=2,vpp=18,batch=4")
    with pytest.raises(UserError, match=r"32 layers are fewer than pp\*vpp=36"):
        run_of_layout(more, configuration(LLAMA), LLAMA)


def test_degrees_stand_once_unless_variants_are_wanted() -> None:
    def degrees(**options: Any) -> list[tuple[int, ...]]:
        return [
            (e.layout.tp, e.layout.cp, e.layout.pp, e.layout.dp, e.layout.ep)
            for e in _ranked(**options).best
        ]

    single = degrees()
    assert len(set(single)) == len(single) == 10
    assert len(set(degrees(variants=True))) < 10


@pytest.mark.parametrize(
    "held", ["tp=4", "pp=2,zero=1", "recompute=full", "recompute=none,sp,tp=2"]
)
def test_what_is_held_is_held(held: str) -> None:
    found = _ranked(held=held)
    for each in found.best:
        for name, value in held_of(held).items():
            assert str(int(getattr(each.layout, name)) if name != "recompute" else
                       getattr(each.layout, name)) == str(value)  # fmt: skip
    assert found.best[0].prediction.step_s >= _ranked().best[0].prediction.step_s


def test_no_more_devices_are_named_than_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_ranking, "MAX_DEVICES", 8)
    asked = RankingOptions(devices=8, batch=64, top=1, cluster="a100-40g")
    with pytest.raises(InfeasibleError) as error:
        ranked(asked, configuration("llama3-70b"), "llama3-70b")
    assert not [r for r in error.value.remedies if "--devices" in r]


def test_what_fits_nowhere_says_how_many_devices_would_do() -> None:
    def on(devices: int) -> Ranking:
        asked = RankingOptions(devices=devices, batch=8, cluster="a100-40g", held="tp=1,cp=1")
        return ranked(asked, configuration(LLAMA), LLAMA)

    with pytest.raises(InfeasibleError, match="leanest") as error:
        on(1)
    enough = next(r for r in error.value.remedies if "--devices" in r)
    devices = int(enough.split()[1])
    assert on(devices).best
    with pytest.raises(InfeasibleError):
        on(devices // 2)


@pytest.mark.fast
def test_files_have_all_layouts(planner: Callable[..., Any], tmp_path: Path) -> None:
    table, picture = tmp_path / "all.csv", tmp_path / "all.SVG"
    job = (*JOB, "--hold", "tp=4,cp=1")
    found = planner("layouts", *job, "--csv", str(table), "--plot", str(picture), "--json")
    assert found.code == 0
    told = json.loads(found.out)
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == told["layouts"]
    assert sum(row["fits"] == "true" for row in rows) == told["fitting"]
    assert float(next(r for r in rows if r["fits"] == "true")["step_s"]) == pytest.approx(
        told["best"][0]["step_s"], rel=1e-5
    )
    first = picture.read_bytes()
    planner("layouts", *job, "--plot", str(picture))
    assert picture.read_bytes() == first


@pytest.mark.fast
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hold", "tp=3"), "has tp=3"),
        (("--hold", "batch=3"), "batch is not chosen"),
        (("--hold", "recompute=some"), "no kind of recomputation"),
        (("--hold", "zero=x"), "no whole number"),
        (("--devices", "0"), "--devices"),
        (("--batch", "0"), "--batch"),
        (("--sequence", "0"), "--sequence"),
        (("--plot", "x.pdf"), "cannot write a picture as"),
        (("--cluster", "nowhere"), "unknown machine"),
    ],
)
def test_mistakes_are_named(planner: Callable[..., Any], words: tuple[str, ...], said: str) -> None:
    found = planner("layouts", *JOB, *words)
    assert found.code == 2
    assert said in found.err


@pytest.mark.fast
def test_held_text_is_read() -> None:
    assert held_of("") == {}
    with pytest.raises(UserError, match="given twice"):
        held_of("tp=2,tp=4")


def test_days_and_price_of_a_run_follow_from_its_tokens(
    planner: Callable[..., Any], tmp_path: Path
) -> None:
    """Price is that of an hour times devices times hours, days are tokens over their rate."""
    table = tmp_path / "prices.yaml"
    table.write_text("currency: EUR\ndevices:\n  h100_sxm_80g: {hour: {value: 2.0}}\n")
    call = ("layouts", *JOB, "--tokens", "1e12", "--prices", str(table))
    record = json.loads(planner(*call, "--json").out)
    assert record["run"] == {
        "tokens": 1e12, "days": None, "needed_devices": None, "currency": "EUR",
    }  # fmt: skip
    for each in record["best"]:
        assert each["days"] == pytest.approx(1e12 / each["tokens_per_s"] / 86400, rel=1e-12)
        assert each["price"] == pytest.approx(2.0 * 16 * 24 * each["days"], rel=1e-12)
    told = planner(*call).out
    assert "price EUR" in told
    assert "run: 1e+12 tokens" in told


def test_a_run_that_is_late_says_how_many_devices_it_takes() -> None:
    """As many as make the fastest of the list fast enough, if it scaled perfectly."""
    soon, late = (_ranked(tokens="1e12", days=days).report() for days in (1e6, 1.0))
    assert soon.run is not None
    assert late.run is not None
    assert soon.run.needed_devices is None
    needed = late.run.needed_devices
    assert needed is not None
    fastest = min(each.days for each in late.best if each.days is not None)
    assert (needed - 1) * 1.0 < 16 * fastest <= needed * 1.0
    assert not any("days" in each for each in _ranked().report().record(())["best"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"days": 3.0}, "--days is of a run of so many tokens"),
        ({"tokens": "many"}, "many tokens"),
        ({"tokens": "1e12", "days": 0.0}, "1e12 tokens in 0 days"),
        ({"tokens": "inf"}, "inf tokens"),
    ],
)
def test_runs_that_cannot_be_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _ranked(**more)
    with pytest.raises(UserError, match="--prices is of a run"):
        ranked(
            RankingOptions(devices=16, batch=64, cluster="h100"), configuration(LLAMA), LLAMA,
            prices=bundled_prices(),
        )  # fmt: skip


def test_the_profile_generic_has_no_interval(planner: Callable[..., Any]) -> None:
    """No published run takes what kernels and messages take alone."""
    record = json.loads(planner("layouts", *JOB, "--profile", "generic", "--json").out)
    assert all(each["low_s"] is None and "generic" in each["unlike"] for each in record["best"])
