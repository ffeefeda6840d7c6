import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks.calibrate_operators import SYSTEMS, fitted_on, read, text
from benchmarks.matmul_baselines import flat_rate, plain_roofline
from benchmarks.matmul_fit import Fit, Rows, inherited, left_out_rates, predicted_s
from costmodel.operators import chip_constants
from topology import chip_names, named_chip

pytestmark = pytest.mark.fast

PAIR = (SYSTEMS["h100_sxm"], SYSTEMS["h200_sxm"])


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Shapes on two chips, as long as the law says by the bundled constants of the first."""
    draw = np.random.default_rng(3)
    sizes = np.exp(draw.uniform(np.log(256), np.log(16384), (3, 240))).round()
    system = np.arange(240) % 2
    m, n, k = sizes
    shapes = Rows(system, m, n, k, np.ones(240))
    known = chip_constants(named_chip("h100_sxm_80g")).matmul
    return replace(shapes, time_s=predicted_s(PAIR, known, shapes))


@pytest.fixture(scope="module")
def fit_and_vector(rows: Rows) -> tuple[Fit, np.ndarray]:
    fit = Fit(PAIR)
    return fit, fit.run(rows.where(np.arange(240) < 160))


def test_a_fit_finds_the_law_that_made_the_rows(
    rows: Rows, fit_and_vector: tuple[Fit, np.ndarray]
) -> None:
    fit, vector = fit_and_vector
    rest = rows.where(np.arange(240) >= 160)
    ratio = fit.predicted_s(vector, rest) / rest.time_s
    assert np.median(np.abs(ratio - 1)) < 0.01
    assert fit.value(vector, "share", "h100_sxm_80g") == pytest.approx(0.83, abs=0.05)


def test_a_chip_left_out_has_the_constants_of_its_generation_and_its_known_share(
    fit_and_vector: tuple[Fit, np.ndarray],
) -> None:
    fit, vector = fit_and_vector
    kin = left_out_rates(fit, vector, PAIR[0])
    assert kin.share == PAIR[0].known_share
    assert kin.blend == pytest.approx(fit.value(vector, "blend", "hopper"))
    stranger = left_out_rates(fit, vector, SYSTEMS["gb200"])
    assert stranger.blend == pytest.approx(inherited(fit, vector, None)["blend"])
    assert stranger.fewest_rows == 128


def test_baselines_have_their_own_constants_for_each_chip(rows: Rows) -> None:
    slower = replace(rows, time_s=rows.time_s * np.where(rows.system == 1, 2.0, 1.0))
    for baseline in (flat_rate, plain_roofline):
        plain, doubled = baseline(PAIR, rows, rows), baseline(PAIR, slower, rows)
        assert doubled / plain == pytest.approx(np.where(rows.system == 1, 2, 1), rel=1e-3)


def test_the_file_of_constants_is_what_the_product_reads(
    fit_and_vector: tuple[Fit, np.ndarray],
) -> None:
    written = yaml.safe_load(text(*fit_and_vector, {"flash9": {"share": 0.5}}))
    bundled = yaml.safe_load(Path("data/calibration/operators.yaml").read_text(encoding="utf-8"))
    assert set(written) == set(bundled)
    assert written["attention"] == {"flash9": {"share": 0.5}}
    assert set(written["matmul"]["generations"]) == {"hopper", "pooled"}
    for name, values in written["matmul"]["generations"].items():
        assert set(values) == set(bundled["matmul"]["generations"][name])


def test_the_same_shapes_of_every_chip_are_fitted_on(tmp_path: Path) -> None:
    lines = ["system,dtype,m,n,k,latency_ms,tflops,source"]
    lines += [f"{s},bfloat16,{m},512,768,0.5,1,x" for s in SYSTEMS for m in range(256, 356)]
    with gzip.open(tmp_path / "gemm.csv.gz", "wt") as file:
        file.write("\n".join(lines))
    rows = read(tmp_path / "gemm.csv.gz")
    assert rows.time_s[0] == 0.5e-3
    chosen = fitted_on(rows).reshape(len(SYSTEMS), 100)
    assert (chosen == chosen[0]).all()
    assert 5 < chosen[0].sum() < 40


def test_peaks_of_the_fit_are_those_of_the_bundled_chips() -> None:
    for system in SYSTEMS.values():
        if system.chip in chip_names():
            chip = named_chip(system.chip)
            assert system.peak == pytest.approx(chip.peak_flops["bfloat16"])
            assert system.bandwidth == pytest.approx(chip.memory_bandwidth_bytes_per_s)
            rates = chip_constants(chip).matmul
            assert (rates.units, rates.largest_tile, rates.fewest_rows) == (
                system.units,
                system.largest_tile,
                system.fewest_rows,
            )
