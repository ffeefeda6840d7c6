"""A cluster file with the fitted constants, each with what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from costmodel.link_calibration.fitting import Constant, LinkFit
from costmodel.link_calibration.measurements import Measurement
from topology.machine import Machine
from topology.server_file import LinkEntry, NicEntry, ServerFile
from topology.units import parse_seconds
from topology.uses import merged

__all__ = ["calibrated_text", "changed_text"]

_NARROW, _WIDE = 1.1, 1.5
"""Upper end of an interval over its value: below the first it is trusted, above the second not."""


def calibrated_text(
    machine: Machine, fit: LinkFit, measurements: Sequence[Measurement], base: Mapping[str, Any]
) -> str:
    """YAML of the machine with fitted links.

    Args:
        machine: what was measured.
        fit: what came out.
        measurements: what went in.
        base: the machine's own file as plain values, or `{"use": NAME}` for a bundled one.
    """
    told = [each for each in fit.constants if each.told]
    library = _library(machine, fit, told)
    changes: dict[str, Any] = {"cluster": {"library": library}} if library else {}
    servers = dict(_servers(machine, fit, told))
    title = f"{machine.name}-calibrated", _note(fit, measurements), "links"
    return changed_text(base, changes, servers, title)


def changed_text(
    base: Mapping[str, Any],
    changes: Mapping[str, Any],
    servers: Mapping[str, Any],
    title: tuple[str, str, str],
) -> str:
    """YAML of a machine with some changes.

    Args:
        base: its own file as plain values, or `{"use": NAME}` for a bundled one.
        changes: of all but servers.
        servers: changes of each.
        title: name, note, and the command of `planner calibrate` that writes it.
    """
    name, note, command = title
    record = dict(base)
    if "use" in base:
        own = dict(base.get("override") or {})
        record["override"] = merged(own, {**changes, **_placed(servers, own)})
    else:
        record = dict(merged(base, {**changes, **_placed(servers, base)}))  # type: ignore[call-overload]  # a mapping on both sides
    head = {"schema_version": 2, "name": name}
    record = head | record | {"name": name, "note": note}
    return f"# Written by `planner calibrate {command}`.\n" + yaml.safe_dump(
        record, sort_keys=False, allow_unicode=True, width=96
    )


def _note(fit: LinkFit, measurements: Sequence[Measurement]) -> str:
    errors = np.abs(fit.errors)
    sizes = [each.nbytes for each in measurements]
    files = sorted({each.origin.rsplit(":", 1)[0] for each in measurements})
    listed = ", ".join(files[:8]) + (f" and {len(files) - 8} more" if len(files) > 8 else "")
    return (
        f"fitted to {len(measurements)} collectives of {min(sizes):.0f} to {max(sizes):.0f} bytes "
        f"from {listed}; error {100 * float(np.median(errors)):.1f} % median, "
        f"{100 * float(np.quantile(errors, 0.9)):.1f} % 90th percentile; "
        f"{len(fit.outliers)} outliers"
    )


def _placed(servers: Mapping[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of servers in the form that suits what the file says of each."""
    described = file.get("servers") or {}
    out = {}
    for name, change in servers.items():
        own = described.get(name)
        if own is None:
            out[name] = {"use": name, "override": change}
        else:
            out[name] = {"override": change} if "use" in own else change
    return {"servers": out} if out else {}


def _library(machine: Machine, fit: LinkFit, told: Sequence[Constant]) -> dict[str, Any]:
    """The library's constants as measured, in place of those of a bundled profile."""
    entry, library = machine.file.cluster.library, fit.cluster.library
    measured = {
        each.name.removeprefix("library."): _measured(each)
        for each in told
        if each.name.startswith("library.")
    }
    if entry is None or library is None or not measured:
        return {}
    kept = {
        name: {"value": value, "note": "not measured: as before"}
        for name, value in library.constants.items()
        if name not in measured
    }
    constants = measured | kept
    found: dict[str, Any] = {"name": entry.name, "generation": entry.generation}
    return found | {"profile": None, "constants": constants}


def _measured(constant: Constant) -> dict[str, Any]:
    return {
        "value": float(f"{constant.value:.4g}"),
        "interval": [float(f"{constant.low:.3g}"), float(f"{constant.high:.3g}")],
        "measurements": constant.told,
        "confidence": _confidence(constant),
    }


def _confidence(constant: Constant) -> str:
    wide = constant.high / constant.value
    return "high" if wide <= _NARROW else "medium" if wide <= _WIDE else "low"


def _servers(
    machine: Machine, fit: LinkFit, told: Sequence[Constant]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes of links and ports, for every kind of server."""
    by_tier: dict[str, dict[str, Constant]] = {}
    for each in told:
        tier, _, what = each.name.partition(".")
        if tier != "library":
            by_tier.setdefault(tier, {})[what] = each
    kinds = {tier.name: tier.transport for tier in fit.cluster.tiers}
    hop_s = _hop_s(machine)
    for name in dict.fromkeys(entry.use for entry in machine.entries):
        server = machine.file.servers[name]
        change: dict[str, dict[str, Any]] = {}
        for tier, found in by_tier.items():
            for layer, entry, far in _entries(server, kinds[tier]):
                quantities = dict(_quantities(found, hop_s if far else 0.0))
                change.setdefault(layer, {})[entry] = quantities
        if change:
            yield name, change


def _entries(server: ServerFile, transport: str) -> Iterator[tuple[str, str, bool]]:
    """Links and ports of one kind: layer of the file, name, whether it is a port."""
    parts: tuple[tuple[str, Mapping[str, LinkEntry | NicEntry], bool], ...] = (
        ("links", dict(server.links), False),
        ("nics", dict(server.nics), True),
    )
    for layer, entries, far in parts:
        for name, entry in entries.items():
            if entry.kind == transport:
                yield layer, name, far


def _hop_s(machine: Machine) -> float:
    """Latency of the switches between servers, which the file counts apart from the ports."""
    hops = [each.hop_latency for each in machine.file.cluster.fabrics.values()]
    return sum(parse_seconds(each.value) for each in hops if each is not None)


def _quantities(found: Mapping[str, Constant], hop_s: float) -> Iterator[tuple[str, Any]]:
    if "efficiency" in found:
        each = found["efficiency"]
        yield "efficiency", _quantity(each, f"{each.value:.4g}", "")
    if "latency_s" in found:
        each = found["latency_s"]
        value = max(each.value - hop_s, 1e-9)
        yield "latency", _quantity(each, f"{1e6 * value:.4g} us", " s")


def _quantity(constant: Constant, value: str, unit: str) -> dict[str, Any]:
    note = (
        f"{constant.told} measurements; with 95 % between {constant.low:.3g}{unit} and "
        f"{constant.high:.3g}{unit}; before {constant.before:.4g}{unit}"
    )
    return {"value": value, "confidence": _confidence(constant), "note": note}
