"""Workers and parameter servers, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from topology.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console


def print_served(found: Mapping[str, Any], out: Console) -> None:
    """What the JSON object of a simulation with servers says."""
    mode = "synchronous" if found["synchronous"] else "asynchronous"
    out.print(
        f"{found['name']}: a batch of a worker in {format_seconds(found['step_time_s'])}, "
        "simulated",
        style="bold",
    )
    out.print(
        f"  {found['samples_per_s']:,.4g} samples/s from {found['workers']} {mode} "
        f"workers with {found['servers']} servers"
    )
    out.print(
        f"  {format_seconds(found['communication_s'])} of it exchange 2 x "
        f"{format_bytes(found['exchanged_bytes'])} and wait for the update"
    )
    if not found["synchronous"]:
        staleness = found["staleness"]
        out.print(f"  {staleness:.1f} updates of others between a pull and its own update")
    if found["change"] is not None:
        _print_change(found, found["change"], out)


def _print_change(found: Mapping[str, Any], change: Mapping[str, Any], out: Console) -> None:
    samples = found["samples_of_batch"]
    done, whole = change["batches"] * samples, change["without_change"] * samples
    before, after = (format_seconds(change[when]["step_s"]) for when in ("before", "after"))
    out.print(
        f"  in {format_seconds(found['horizon_s'])} {done:,.0f} samples instead of {whole:,.0f}: "
        f"before the change a batch takes {before}, after it {after}"
    )
