"""Constants that made measurements are found again from them."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import yaml

from costmodel.collectives import Collective
from costmodel.link_calibration.cluster_text import calibrated_text
from costmodel.link_calibration.fitting import LinkFit, fit_links, predicted_s
from costmodel.link_calibration.machines import Bench, bench_of, constants_of, with_constants
from costmodel.link_calibration.measurements import CalibrationError, GroupShape, Measurement
from topology.catalogue import named_machine
from topology.library import Library
from topology.loading import load_machine

pytestmark = pytest.mark.fast

SIZES = [float(2**k) for k in range(12, 31, 2)]
KINDS = (Collective.ALL_REDUCE, Collective.ALL_GATHER)


def measured(
    bench: Bench,
    truth: Mapping[str, float],
    shapes: list[tuple[int, int]],
    noise: float = 0.0,
    outliers: int = 0,
) -> list[Measurement]:
    """What a machine with these constants would show."""
    cluster = with_constants(bench.cluster, truth)
    groups = [GroupShape(kind, *shape) for kind in KINDS for shape in shapes]
    plain = [Measurement(group, n, 1.0, f"log:{n:.0f}") for group in groups for n in SIZES]
    random = np.random.default_rng(7)
    times = predicted_s(bench, plain, cluster) * np.exp(noise * random.standard_normal(len(plain)))
    times[random.choice(len(plain), outliers, replace=False)] *= 8
    return [replace(m, time_s=float(t)) for m, t in zip(plain, times, strict=True)]


def found(fit: LinkFit) -> dict[str, float]:
    return {each.name: each.value for each in fit.constants if each.told}


@pytest.mark.parametrize(("noise", "outliers", "within"), [(0.0, 0, 1e-2), (0.03, 6, 0.1)])
def test_latency_and_efficiency_of_every_tier(noise: float, outliers: int, within: float) -> None:
    bench = bench_of(named_machine("atlas-800t-a2"))
    truth = {
        "card.latency_s": 9e-6,
        "card.efficiency": 0.85,
        "server.latency_s": 21e-6,
        "server.efficiency": 0.6,
    }
    rows = measured(bench, truth, [(2, 1), (8, 1), (16, 2)], noise, outliers)
    fit = fit_links(bench, rows)
    assert found(fit) == pytest.approx(truth, rel=within)
    assert len(fit.outliers) == outliers
    for each in fit.constants:
        assert each.low <= each.value <= each.high
        if noise:
            assert each.low * 0.95 <= truth[each.name] <= each.high * 1.05


def test_constants_of_nccl() -> None:
    machine = named_machine("dgx-h100")
    bench = bench_of(machine)
    plain = replace(bench.cluster, library=Library("nccl", "hopper"))
    truth = {"library.ll_start_s": 9e-6, "library.simple_share": 0.7, "library.nvls_share": 0.45}
    rows = measured(replace(bench, cluster=plain), truth, [(2, 1), (4, 1), (8, 1)])
    fit = fit_links(replace(bench, cluster=plain), rows)
    assert {name: found(fit)[name] for name in truth} == pytest.approx(truth, rel=0.05)
    assert np.median(np.abs(fit.errors)) < 0.01
    untold = {each.name for each in fit.constants if not each.told}
    assert "library.exchange_share" in untold
    assert "library.network_share" in untold
    assert any("no measurement depends on" in remark for remark in fit.remarks)


def test_thin_data_are_said_to_be_thin() -> None:
    bench = bench_of(named_machine("atlas-800t-a2"))
    rows = measured(bench, {}, [(8, 1)])
    with pytest.raises(CalibrationError, match="3 measurements of 3 sizes are too few"):
        fit_links(bench, rows[:3])
    with pytest.raises(CalibrationError, match="of 1 sizes"):
        fit_links(bench, [rows[0]] * 9)
    remarks = " ".join(fit_links(bench, rows[5:9]).remarks)
    assert "4 measurements for 2 constants" in remarks
    assert "latencies are guesses" in remarks
    assert "bandwidths are guesses" in " ".join(fit_links(bench, rows[:6]).remarks)


@pytest.mark.parametrize("group", [(9, 1), (16, 1), (8, 3), (24, 2)])
def test_groups_that_the_machine_does_not_have(group: tuple[int, int]) -> None:
    bench = bench_of(named_machine("atlas-800t-a2"))
    rows = [Measurement(GroupShape(Collective.ALL_REDUCE, *group), n, 1e-3) for n in SIZES]
    with pytest.raises(CalibrationError, match="the machine has no such group"):
        fit_links(bench, rows)


def test_every_constant_can_be_set_and_read_back() -> None:
    for name in ("atlas-800-9000", "dgx-a100"):
        cluster = bench_of(named_machine(name)).cluster
        values = {key: 1.25 * value for key, value in constants_of(cluster).items()}
        assert constants_of(with_constants(cluster, values)) == pytest.approx(values)


@pytest.mark.parametrize("name", ["atlas-800t-a2", "dgx-h100", "dgx-1v"])
def test_the_written_machine_predicts_as_the_fit_does(name: str) -> None:
    machine = named_machine(name)
    bench = bench_of(machine)
    start = constants_of(bench.cluster)
    truth = {key: value * 1.3 for key, value in start.items() if key.endswith(("_s", "share"))}
    rows = measured(bench, truth, [(2, 1), (8, 1)])
    fit = fit_links(bench, rows)
    text = calibrated_text(machine, fit, rows, {"use": name})
    written = load_machine(text, "mine.yaml")
    again = predicted_s(bench_of(written), rows)
    assert again == pytest.approx(predicted_s(bench, rows, fit.cluster), rel=2e-3)
    assert f"{len(rows)} collectives" in yaml.safe_load(text)["note"]


def test_a_users_own_file_keeps_what_it_says() -> None:
    base = {
        "schema_version": 2,
        "name": "mine",
        "servers": {"box": {"use": "atlas_800t_a2", "override": {"title": "ours"}}},
        "cluster": {"servers": [{"use": "box", "count": 1}]},
    }
    machine = load_machine(yaml.safe_dump(base), "mine.yaml")
    bench = bench_of(machine)
    rows = measured(bench, {"card.efficiency": 0.4}, [(8, 1)])
    text = calibrated_text(machine, fit_links(bench, rows), rows, base)
    written = load_machine(text, "again.yaml")
    assert written.file.servers["box"].title == "ours"
    efficiency = written.file.servers["box"].links["hccs"].efficiency
    assert float(efficiency.value) == pytest.approx(0.4, rel=0.02)
    assert "20 measurements" in str(efficiency.note)
