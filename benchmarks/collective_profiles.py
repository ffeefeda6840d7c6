"""Constants of communication libraries, fitted to all that was measured of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml

from costmodel.link_calibration.fitting import Constant, LinkFit, fit_links
from costmodel.link_calibration.machines import bench_of
from costmodel.link_calibration.measurements import Measurement
from topology.catalogue import named_machine
from topology.library import LIBRARIES

PREFIX = "library."
LAUNCH = "ll_start_s"


def write_profiles(folder: Path, systems: Mapping[str, tuple[str, Sequence[Measurement]]]) -> None:
    """One file for each machine, from the system with the most measurements of it."""
    best: dict[str, str] = {}
    for system, (cluster, rows) in sorted(systems.items()):
        if cluster and len(rows) > len(systems[best[cluster]][1] if cluster in best else ()):
            best[cluster] = system
    fits = {}
    for cluster, system in sorted(best.items()):
        fit = fresh_fit(cluster, systems[system][1])
        if fit is not None:
            fits[cluster] = fit
    for cluster in fits:
        text = _text(cluster, best[cluster], fits, len(systems[best[cluster]][1]))
        (folder / f"{cluster}.yaml").write_text(text, encoding="utf-8")


def fresh_fit(cluster: str, rows: Sequence[Measurement]) -> LinkFit | None:
    """Fitted from the defaults on; `None` for other libraries than NCCL."""
    bench = bench_of(named_machine(cluster))
    library = bench.cluster.library
    if library is None or library.name != "nccl":
        return None
    plain = replace(bench.cluster, library=replace(library, constants={}, profile=""))
    return fit_links(replace(bench, cluster=plain), rows)


def stand_ins(fit: LinkFit, others: Iterable[LinkFit]) -> dict[str, float]:
    """Constants that a fit does not tell, from the machines of the nearest generation.

    Shares and steps are the middle of theirs. A launch is as much longer than that of LL as it is
    there: how long any launch takes depends on how it was measured.
    """
    generation = _generation(fit)
    own = fit.values[f"{PREFIX}{LAUNCH}"]
    known: dict[str, dict[int, list[float]]] = {}
    for other in others:
        launch = other.values[f"{PREFIX}{LAUNCH}"]
        for each in other.constants:
            if each.told and "network" not in each.name:
                shift = own - launch if each.name.endswith("_start_s") else 0.0
                distance = abs(_generation(other) - generation)
                known.setdefault(each.name, {}).setdefault(distance, []).append(each.value + shift)
    untold = {each.name for each in fit.constants if not each.told}
    return {
        name: float(np.median(values[min(values)]))
        for name, values in known.items()
        if name in untold
    }


def _generation(fit: LinkFit) -> int:
    assert fit.cluster.library is not None
    return LIBRARIES["nccl"].index(fit.cluster.library.generation)


def _text(cluster: str, system: str, fits: Mapping[str, LinkFit], count: int) -> str:
    fit = fits[cluster]
    others = stand_ins(fit, [other for name, other in fits.items() if name != cluster])
    entries = {
        each.name.removeprefix(PREFIX): _entry(each, others.get(each.name), _source(system))
        for each in fit.constants
    }
    record = {
        "schema_version": 1,
        "name": cluster,
        "library": "nccl",
        "generation": LIBRARIES["nccl"][_generation(fit)],
        "note": f"Fitted by benchmarks/collectives.py to {count} collectives of {system}; median "
        f"error {100 * float(np.median(np.abs(fit.errors))):.1f} %.",
        "constants": {name: entry for name, entry in entries.items() if entry},
    }
    head = f"# Constants of NCCL on {cluster}; costmodel/collectives says what each means.\n"
    return head + yaml.dump(record, Dumper=_Flow, sort_keys=False, allow_unicode=True, width=96)


def _source(system: str) -> str:
    """Key of `data/sources.yaml` for the measurements of a system."""
    if "vTrain" in system:
        return "VTRAIN"
    return "AICONFNCCL" if "A100" in system else "AICONFNCCL229"


class _Flow(yaml.SafeDumper):
    """Short lists on one line."""


_Flow.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, True)
)


def _entry(constant: Constant, other: float | None, source: str) -> dict[str, object]:
    """One constant with its origin; nothing if nobody measured it."""
    if constant.told:
        return {
            "value": float(f"{constant.value:.4g}"),
            "interval": [float(f"{constant.low:.3g}"), float(f"{constant.high:.3g}")],
            "measurements": constant.told,
            "source": [source, "DERIVED"],
            "confidence": "medium",
        }
    if other is None:
        return {}
    return {
        "value": float(f"{other:.4g}"),
        "source": [],
        "confidence": "assumed",
        "note": "not measured here: from the machines of the nearest generation",
    }
