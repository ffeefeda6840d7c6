"""Predicted beside measured collectives: `python -m benchmarks.collectives FOLDER`.

FOLDER holds `collectives.csv.gz` (or `.csv`): one measured collective in a row. The constants of
each system are fitted to a third of its sizes and tested on the rest. Only systems whose links
are in `data` take part. `--write FILE` puts the tables into their section of a Markdown file,
`--profiles FOLDER` writes the constants fitted to all sizes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.collective_profiles import fresh_fit, stand_ins, write_profiles
from costmodel.collectives import Collective
from costmodel.link_calibration.fitting import FEWEST, LinkFit, fit_links, predicted_s
from costmodel.link_calibration.machines import Bench, bench_of, with_constants
from costmodel.link_calibration.measurements import GroupShape, Measurement
from topology.catalogue import named_machine

CLUSTERS = (
    (r"DeepEP|SimAI|EFFICIENCY", ""),
    (r"GB[23]00", "gb200-nvl72"),
    (r"B[23]00", "hgx-b200"),
    (r"H200", "hgx-h200"),
    (r"\bH100", "dgx-h100"),
    (r"A100", "dgx-a100"),
    (r"(vTrain|DGX-1V?) .*V100|V100 8-GPU", "dgx-1v"),
    (r"MI300X", "mi300x-platform"),
    (r"910B", "atlas-800t-a2"),
    (r"910A", "atlas-800-9000"),
    (r"910C|Ascend A3", "atlas-900-a3"),
)
"""Name of a system, and the machine of `data/clusters` with its links; the first match counts."""

CLASSES = (("large", 64e6, 0.05), ("middle", 1e6, 0.12), ("small", 0.0, 0.30))
"""Name, bytes from which a message belongs to it, largest median error that is wanted."""

BEGIN, END = "<!-- collectives: begin -->", "<!-- collectives: end -->"
_NAMES = {"alltoall": "all_to_all", "sendrecv": "point_to_point"}


@dataclass(frozen=True, slots=True)
class Tested:
    """One measurement that the fit did not see."""

    system: str
    kind: Collective
    nbytes: float
    error: float
    """Predicted over measured minus 1."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, help="Markdown file with the section to replace")
    parser.add_argument("--profiles", type=Path, help="folder for the constants of all sizes")
    given = parser.parse_args(arguments)
    systems, left_out = read(given.folder)
    text = "\n".join(report(systems, left_out))
    if given.write:
        _replace(given.write, text)
    else:
        print(text)
    if given.profiles:
        write_profiles(given.profiles, {s: (cluster_of(s), rows) for s, rows in systems.items()})


def cluster_of(system: str) -> str:
    """Name of the machine with the links of a system, empty if there is none."""
    return next((name for pattern, name in CLUSTERS if re.search(pattern, system)), "")


def read(folder: Path) -> tuple[dict[str, list[Measurement]], Counter[str]]:
    """Measurements by system, and how many rows were left out for what reason."""
    path = next(
        p for name in ("collectives.csv.gz", "collectives.csv") if (p := folder / name).exists()
    )
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    systems: dict[str, list[Measurement]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for row in csv.DictReader(io.StringIO(text)):
        reason = _reason(row)
        if reason:
            left_out[reason] += 1
            continue
        kind = Collective(_NAMES.get(row["op"], row["op"]))
        algorithm = row["algo"].lower() if row["algo"].lower() in {"ring", "tree"} else "auto"
        group = GroupShape(kind, int(row["devices"]), int(row["servers"] or 1), algorithm)
        time_s = _time_s(row, group)
        systems[row["system"]].append(
            Measurement(group, float(row["message_bytes"]), time_s, row["id"])
        )
    return dict(systems), left_out


def _reason(row: dict[str, str]) -> str:
    """Why a row cannot be used, or nothing."""
    if not cluster_of(row["system"]):
        return "links of the system are not in data"
    if _NAMES.get(row["op"], row["op"]) not in set(Collective):
        return "not a plain collective"
    timed = row["time_us"] or row.get("busbw_gbps")
    return "" if row["message_bytes"] and timed else "no size or no time"


def _time_s(row: Mapping[str, str], group: GroupShape) -> float:
    """Seconds as written, or from the bus bandwidth, as nccl-tests define it."""
    if row["time_us"]:
        return float(row["time_us"]) * 1e-6
    factor = 2.0 if group.kind is Collective.ALL_REDUCE else 1.0
    if group.kind not in {Collective.BROADCAST, Collective.REDUCE, Collective.POINT_TO_POINT}:
        factor *= (group.ranks - 1) / group.ranks
    return float(row["message_bytes"]) * factor / (float(row["busbw_gbps"]) * 1e9)


def fresh_bench(system: str) -> Bench:
    """The machine of a system, without any constant that was measured on it."""
    bench = bench_of(named_machine(cluster_of(system)))
    library = bench.cluster.library
    if library is None:
        return bench
    plain = replace(library, constants={}, profile="")
    return replace(bench, cluster=replace(bench.cluster, library=plain))


def tested(system: str, rows: Sequence[Measurement]) -> list[Tested]:
    """Fitted to every third size, tested on the others.

    Where sizes are too few for a fit, all are tested against the bundled machine.
    """
    bench, sizes = fresh_bench(system), sorted({row.nbytes for row in rows})
    chosen = set(sizes[1::3])
    train = [row for row in rows if row.nbytes in chosen]
    held = [row for row in rows if row.nbytes not in chosen]
    if len(train) < FEWEST or len(chosen) < 2:
        return _compared(system, bench_of(named_machine(cluster_of(system))), rows)
    return _compared(system, replace(bench, cluster=fit_links(bench, train).cluster), held)


def without_a_kind(
    system: str, rows: Sequence[Measurement], others: Sequence[LinkFit]
) -> list[Tested]:
    """Each kind predicted by constants that were fitted to the other kinds alone.

    What these do not tell is taken from other machines.
    """
    bench = fresh_bench(system)
    out: list[Tested] = []
    for kind in sorted({row.group.kind for row in rows}):
        train = [row for row in rows if row.group.kind is not kind]
        if len(train) >= FEWEST:
            fit = fit_links(bench, train)
            fitted = with_constants(fit.cluster, stand_ins(fit, others))
            rest = [row for row in rows if row.group.kind is kind]
            out += _compared(system, replace(bench, cluster=fitted), rest)
    return out


def _compared(system: str, bench: Bench, rows: Sequence[Measurement]) -> list[Tested]:
    errors = predicted_s(bench, rows) / np.array([row.time_s for row in rows]) - 1
    return [
        Tested(system, row.group.kind, row.nbytes, float(error))
        for row, error in zip(rows, errors, strict=True)
    ]


def report(systems: dict[str, list[Measurement]], left_out: Counter[str]) -> Iterator[str]:
    """The tables, line by line."""
    found = {name: tested(name, rows) for name, rows in systems.items()}
    everything = [each for rows in found.values() for each in rows]
    yield "Median error of what the fit did not see, in % (number of measurements). Systems with"
    yield "too few sizes for a fit are tested against the machine of `data/clusters`."
    yield ""
    yield from _table(found, everything)
    yield ""
    yield "The same where the fit saw no measurement of the collective at all:"
    yield ""
    apart = {n: r for n in systems if (r := without_a_kind(n, systems[n], _others(n, systems)))}
    yield from _table(apart, [each for rows in apart.values() for each in rows])
    yield ""
    reasons = ", ".join(f"{count} rows: {reason}" for reason, count in sorted(left_out.items()))
    yield f"Left out: {reasons or 'nothing'}."


def _others(system: str, systems: Mapping[str, Sequence[Measurement]]) -> list[LinkFit]:
    """Fits of the other machines that were measured thoroughly."""
    rest = [n for n, rows in systems.items() if n != system and len(rows) > 10 * FEWEST]
    return [fit for n in rest if (fit := _fit_of(cluster_of(n), tuple(systems[n])))]


_fit_of = cache(fresh_fit)


def _table(found: dict[str, list[Tested]], everything: list[Tested]) -> Iterator[str]:
    yield "| system | collective | ≥ 64 MB | 1–64 MB | < 1 MB |"
    yield "|---|---|---|---|---|"
    for system, rows in sorted(found.items()):
        for kind in sorted({row.kind for row in rows}):
            yield _row(system, kind.value, [row for row in rows if row.kind is kind])
    yield _row("**all**", "", everything)
    wanted = " | ".join(f"≤ {limit:.0%}".replace("%", "") for *_, limit in CLASSES)
    yield f"| wanted | | {wanted} |"


def _row(system: str, kind: str, rows: Iterable[Tested]) -> str:
    cells = []
    known = list(rows)
    upper = float("inf")
    for _, lower, _ in CLASSES:
        errors = [abs(row.error) for row in known if lower <= row.nbytes < upper]
        cells.append(f"{100 * np.median(errors):.1f} ({len(errors)})" if errors else "")
        upper = lower
    return f"| {system} | {kind} | {' | '.join(cells)} |"


def _replace(path: Path, text: str) -> None:
    """Put the text between the marks of a file."""
    old = path.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        raise SystemExit(f"{path} has no lines {BEGIN} and {END}")
    head, tail = old.split(BEGIN)[0], old.split(END)[1]
    path.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
