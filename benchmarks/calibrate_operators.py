"""Fits the constants of operators to measurements and reports how well they predict others.

    python -m benchmarks.calibrate_operators REFERENCE [--write] [--no-left-out]

REFERENCE is a folder with `gemm_measured.csv.gz`. Prints the tables of docs/fidelity.md, section
"Matrix multiply"; `--write` replaces data/calibration/operators.yaml. Some three minutes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import attention_fit
from benchmarks.matmul_baselines import flat_rate, plain_roofline
from benchmarks.matmul_fit import (
    CONSTANTS,
    MEMORY_SHARE,
    Fit,
    Rows,
    System,
    inherited,
    left_out_rates,
    predicted_s,
)
from costmodel.operators.constants import POOLED

FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

FITTED_PERCENT = 20
"""Of the shapes; the same shapes of every chip. The others test."""

CALIBRATION = Path("data/calibration")

SYSTEMS: Mapping[str, System] = {
    "a100_sxm": System("a100_sxm_80g", "ampere", 108, 312e12, 2.039e12, 0.869, 32768, 64),
    "h100_sxm": System("h100_sxm_80g", "hopper", 132, 989.4e12, 3.35e12, 0.803, 65536, 64),
    "h200_sxm": System("h200_sxm_141g", "hopper", 132, 989.4e12, 4.8e12, 0.803, 65536, 64),
    "b200_sxm": System("b200", "blackwell", 148, 2250e12, 8e12, 0.776, 65536, 128),
    "b300_sxm": System("b300", "blackwell", 148, 2250e12, 8e12, 0.776, 65536, 128),
    "gb200": System("gb200_186g", "blackwell", 152, 2500e12, 8e12, 0.729, 65536, 128),
    "gb300": System("gb300", "blackwell", 152, 2500e12, 8e12, 0.729, 65536, 128),
}
"""Machines of the measurements: peaks and bandwidths of data/chips, the rest of
data/calibration/architectures.yaml. B300 and GB300 have the known share of B200 and GB200."""

ATTENTION = {
    "flash2_ampere": ("a100_sxm_80g", "flash2"),
    "flash2": ("h100_sxm_80g", "flash2"),
    "flash3": ("h100_sxm_80g", "flash3"),
    "cudnn": ("h100_sxm_80g", "cudnn"),
    "flash2_blackwell": ("b200", "flash2"),
    "flash4": ("b200", "flash4"),
}
"""Chip and kernel that each set of constants of attention is fitted on."""

VECTOR = {"a100_sxm_80g": 19.5e12, "h100_sxm_80g": 66.9e12, "b200": 80e12}
"""FLOP/s of the vector units in float32, as in data/chips."""


def read(path: Path) -> Rows:
    """The measurements of the file, in its order."""
    index = {name: i for i, name in enumerate(SYSTEMS)}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = [
            (index[r["system"]], int(r["m"]), int(r["n"]), int(r["k"]), float(r["latency_ms"]))
            for r in csv.DictReader(lines)
        ]
    table = np.array(rows, np.float64).T
    system, m, n, k, milliseconds = table
    return Rows(system.astype(np.int64), m, n, k, milliseconds * 1e-3)


def fitted_on(rows: Rows) -> Mask:
    """Rows whose shape is in the part that constants are fitted on: a hash of the shape says so."""
    return np.array(
        [
            zlib.crc32(f"{m:.0f},{n:.0f},{k:.0f}".encode()) % 100 < FITTED_PERCENT
            for m, n, k in zip(rows.m, rows.n, rows.k, strict=True)
        ]
    )


def classes(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Classes of shapes, by name; they overlap."""
    large = np.minimum(rows.m, rows.n) >= 1024
    yield "all", np.ones(len(rows.m), np.bool_)
    yield "m and n from 1,024", large
    yield "m or n below 1,024", ~large
    yield "k below 2,048", rows.k < 2048
    yield "k 2,048 to 8,191", (rows.k >= 2048) & (rows.k < 8192)
    yield "k from 8,192", rows.k >= 8192
    yield "m odd (one row more than a tile)", rows.m % 2 == 1
    yield "faster than 20 us", rows.time_s < 20e-6
    yield "20 us to 1 ms", (rows.time_s >= 20e-6) & (rows.time_s < 1e-3)
    yield "slower than 1 ms", rows.time_s >= 1e-3


def cell(predicted: FloatArray, measured: FloatArray) -> str:
    """Median and 90th percentile of the error, and its bias, in per cent."""
    ratio = predicted / measured - 1
    errors = 100 * np.abs(ratio)
    bias = 100 * float(np.median(ratio))
    return f"{np.median(errors):.1f} / {np.quantile(errors, 0.9):.1f} / {bias:+.1f}"


def left_out(rows: Rows, train: Mask, held: int) -> FloatArray:
    """Seconds of the untrained rows of one system, by constants of all others."""
    systems = tuple(SYSTEMS.values())
    kept = [i for i in range(len(systems)) if i != held]
    fit = Fit([systems[i] for i in kept])
    part = rows.where(train & (rows.system != held))
    renumbered = np.searchsorted(kept, part.system)
    vector = fit.run(Rows(renumbered, part.m, part.n, part.k, part.time_s))
    tested = rows.where(~train & (rows.system == held))
    return predicted_s(systems, left_out_rates(fit, vector, systems[held]), tested)


def report(rows: Rows, train: Mask, fit: Fit, vector: FloatArray, *, alone: bool) -> None:
    """Tables in Markdown: by chip, then by class of shapes over all chips."""
    systems = tuple(SYSTEMS.values())
    test = rows.where(~train)
    ours = fit.predicted_s(vector, test)
    flat = flat_rate(systems, rows.where(train), test)
    roof = plain_roofline(systems, rows.where(train), test)
    known = _at_known_share(test)
    print(
        "| chip | fitted on | tested on | model | roofline | flat rate | model, chip left out | "
        "flat rate at its published share |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for i, (name, system) in enumerate(SYSTEMS.items()):
        own = test.system == i
        held = cell(left_out(rows, train, i), test.time_s[own]) if alone else "-"
        cells = [cell(p[own], test.time_s[own]) for p in (ours, roof, flat, known)]
        cells.insert(3, held)
        count = int(np.sum(train & (rows.system == i)))
        print(f"| {name} ({system.chip}) | {count:,} | {np.sum(own):,} | {' | '.join(cells)} |")
    print("\n| shapes | tested on | model | roofline | flat rate |\n|---|---|---|---|---|")
    for name, chosen in classes(test):
        cells = [cell(p[chosen], test.time_s[chosen]) for p in (ours, roof, flat)]
        print(f"| {name} | {np.sum(chosen):,} | {' | '.join(cells)} |")


def extrapolations(rows: Rows, train: Mask) -> None:
    """Table of fits on a corner of the shapes, tested where none of them lie."""
    systems = tuple(SYSTEMS.values())
    longest = np.maximum(np.maximum(rows.m, rows.n), rows.k)
    corners = (
        ("m, n and k to 8,192", longest <= 8192, "one from 51,200", longest >= 51200),
        ("m from 2,048", rows.m >= 2048, "m below 1,024", rows.m < 1024),
        ("k to 4,096", rows.k <= 4096, "k from 16,384", rows.k >= 16384),
    )
    print("\n| fitted on | rows | tested on | rows | model | roofline | flat rate |")
    print("|---|---|---|---|---|---|---|")
    for name, corner, far, beyond in corners:
        part, test = rows.where(train & corner), rows.where(beyond)
        fit = Fit(systems)
        ours = fit.predicted_s(fit.run(part), test)
        others = [b(systems, part, test) for b in (plain_roofline, flat_rate)]
        cells = " | ".join(cell(p, test.time_s) for p in (ours, *others))
        print(f"| {name} | {len(part.m):,} | {far} | {len(test.m):,} | {cells} |")


def _at_known_share(rows: Rows) -> FloatArray:
    """Seconds at the share of the peak that was published for the chip: fitted on nothing."""
    rate = np.array([s.peak * s.known_share for s in SYSTEMS.values()])[rows.system]
    return np.asarray(2 * rows.m * rows.n * rows.k / rate)


def attention_table() -> dict[str, dict[str, float]]:
    """Constants of every kernel of attention, with a line of their errors for the report."""
    rows = attention_fit.read(CALIBRATION / "attention_measured.csv")
    chips = {
        s.chip: (float(s.units), s.peak, VECTOR[s.chip], s.bandwidth)
        for s in SYSTEMS.values()
        if s.chip in VECTOR
    }
    out = {}
    print("\n| kernel of attention | chip | rows | median / 90th percentile / bias |")
    print("|---|---|---|---|")
    for name, (chip, kernel) in ATTENTION.items():
        part = [r for r in rows if (r.chip, r.kernel) == (chip, kernel)]
        places = [chips[chip]] * len(part)
        rates = attention_fit.fitted(part, places)
        found = attention_fit.predicted_s(rates, part, places)
        measured = np.array([r.time_s for r in part])
        print(f"| {name} | {chip} | {len(part)} | {cell(found, measured)} |")
        out[name] = {k: float(v) for k, v in asdict(rates).items()}
    return out


def text(fit: Fit, vector: FloatArray, attention: Mapping[str, Mapping[str, float]]) -> str:
    """The file of constants."""
    generations = [*dict.fromkeys(s.generation for s in fit.systems), None]
    lines = [
        "# Constants of operators, fitted by",
        "#     python -m benchmarks.calibrate_operators REFERENCE --write",
        "# docs/operator-times.md says what each means, docs/fidelity.md how well they do.",
        "# Matrix products: bfloat16, a fifth of the shapes of gemm_measured.csv.gz (source",
        "# AICONFGEMM). Attention: attention_measured.csv.",
        "schema_version: 1",
        "matmul:",
        f"  memory: {MEMORY_SHARE}",
        f"  throttle_after_s: {fit.value(vector, 'throttle_after_s', 'all'):.4g}",
        "  generations:",
    ]
    for generation in generations:
        found = inherited(fit, vector, generation)
        values = {n: v for n, v in found.items() if CONSTANTS[n].level != "all"}
        lines.append(f"    {generation or POOLED}: {_flow(values)}")
    lines.append("  chips:")
    for system in fit.systems:
        values = {
            n: fit.value(vector, n, system.chip) for n, c in CONSTANTS.items() if c.level == "chip"
        }
        lines.append(f"    {system.chip}: {_flow(values)}")
    lines.append("attention:")
    lines += [f"  {name}: {_flow(values)}" for name, values in attention.items()]
    lines.append("other_attention: flash3")
    return "\n".join(lines) + "\n"


def _flow(values: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {value:.4g}" for name, value in values.items()) + "}"


def main() -> None:
    """Fit, report and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--no-left-out", action="store_true")
    options = parser.parse_args()
    rows = read(options.reference / "gemm_measured.csv.gz")
    train = fitted_on(rows)
    fit = Fit(tuple(SYSTEMS.values()))
    vector = fit.run(rows.where(train))
    report(rows, train, fit, vector, alone=not options.no_left_out)
    if not options.no_left_out:
        extrapolations(rows, train)
    content = text(fit, vector, attention_table())
    if options.write:
        (CALIBRATION / "operators.yaml").write_text(content, encoding="utf-8")
    else:
        print(f"\n{content}")


if __name__ == "__main__":
    main()
