"""A cluster file whose chip has the rates that profiles told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costmodel.link_calibration.cluster_text import changed_text
from costmodel.traces.fitting import ProfiledConstant
from topology.machine import Machine

__all__ = ["profiled_text"]


def profiled_text(
    machine: Machine,
    constants: Sequence[ProfiledConstant],
    base: Mapping[str, Any],
    names: Sequence[str],
) -> str:
    """YAML of the machine with measured shares of the peak, of the bandwidth, and of launches.

    Args:
        machine: what ran.
        constants: what came out.
        base: the machine's own file as plain values, or `{"use": NAME}` for a bundled one.
        names: of the profiles.
    """
    server = machine.entries[0].use
    chip = machine.file.servers[server].chip
    own = f"{chip}_profiled"
    chips = {"chips": {own: {"use": chip, "override": _chip(constants)}}}
    title = f"{machine.name}-profiled", f"fitted to {', '.join(names[:4])}", "profile"
    return changed_text(base, chips, {server: {"chip": own}}, title)


def _chip(constants: Sequence[ProfiledConstant]) -> dict[str, Any]:
    """Changes of a chip; products of the type that was seen most."""
    products = [each for each in constants if each.name.startswith("products.")]
    efficiency = {}
    if products:
        most = max(products, key=lambda each: each.told)
        efficiency["matmul"] = _stated(most, most.name.partition(".")[2])
    change: dict[str, Any] = {"efficiency": efficiency}
    for each in constants:
        if each.name == "streams":
            efficiency["memory"] = _stated(each, "")
        elif each.name == "launch_s":
            text = f"{each.value * 1e6:.4g} us"
            change["launch_latency"] = _stated(each, "from launch to launch") | {"value": text}
    return change


def _stated(each: ProfiledConstant, what: str) -> dict[str, str]:
    span = f"{each.told} calls, 95 % interval {each.low:.3g} to {each.high:.3g}"
    note = f"{what}; {span}" if what else span
    return {"value": f"{min(1.0, each.value):.4g}", "confidence": "stated", "note": note}
