"""What `planner simulate` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.text import table
from ir.causes import cause_text
from planner.requests.simulations import variation
from report.tables import percent
from topology.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from costmodel.simulation.result import Simulation

MAX_ROWS = 12
"""Most rows of a table of stages."""


def print_simulation(found: Simulation, files: Sequence[Path], out: Console) -> None:
    """Write the summary of a simulation."""
    _headline(found, out)
    _times(found, out)
    _communication(found, out)
    _bubble(found, out)
    _memory(found, out)
    _variation(found, out)
    for title, lines in (("Notes", found.notes), ("Written", files)):
        if lines:
            out.print(f"\n{title}", style="bold")
            for line in lines:
                out.print(f"- {line}" if title == "Notes" else str(line), soft_wrap=False)


def _headline(found: Simulation, out: Console) -> None:
    load, step_s = found.load, found.step_s
    out.print(f"{found.name}: one step in {format_seconds(step_s)}, simulated", style="bold")
    out.print("  " + ", ".join((*found.rates.words, f"{load.devices:,} devices")))
    ratio = found.estimate_s / step_s if step_s > 0 else 1.0
    estimate = format_seconds(found.estimate_s)
    out.print(f"  the estimate, {found.estimate_means}, is {estimate}: {ratio:.3g} x as long")
    if found.facts:
        out.print("  " + ", ".join(f"{name} {value}" for name, value in found.facts.items()))


def _times(found: Simulation, out: Console) -> None:
    account, step_s = found.account, found.step_s
    made = table("Time of an average device", ["cause", "time", "%"], right=(1, 2))
    rows = [(name, s) for name, s in account.computing.items() if s > 0]
    rows += [
        ("communication that is not hidden", account.exposed_s),
        ("waiting", account.waiting_s),
    ]
    for name, seconds in rows:
        made.add_row(name, format_seconds(seconds), percent(seconds, step_s))
    made.add_row("step", format_seconds(account.step_s), "100", style="bold")
    out.print(made)


def _communication(found: Simulation, out: Console) -> None:
    if not found.account.communication:
        return
    columns = ["communication", "total", "exposed", "hidden", "for"]
    made = table("Communication of an average device", columns, right=(1, 2, 3))
    for item in found.account.communication:
        kind = f"{item.kind} in {item.tier}" if item.tier else item.kind.replace("_", "-")
        made.add_row(
            cause_text(kind),
            *(format_seconds(s) for s in (item.total_s, item.exposed_s, item.hidden_s)),
            item.cause,
        )
    out.print(made)


def _bubble(found: Simulation, out: Console) -> None:
    split = found.bubble
    if split is None or split.total_s <= 0:
        return
    made = table("Why stages wait", ["cause", "time", "% of the step"], right=(1, 2))
    for name, seconds in (
        ("the schedule itself", split.ideal_s),
        ("uneven stages", split.imbalance_s),
        ("recomputation", split.recomputation_s),
        ("communication", split.communication_s),
        ("waiting", split.total_s),
    ):
        text = format_seconds(abs(seconds))
        made.add_row(name, f"-{text}" if seconds < 0 else text, percent(seconds, found.step_s))
    out.print(made)


def _memory(found: Simulation, out: Console) -> None:
    made = table("Memory", ["device", "peak", "reached at"], right=(1, 2))
    curves = found.memory
    for curve in curves[:MAX_ROWS]:
        made.add_row(curve.device, format_bytes(curve.peak_bytes), format_seconds(curve.peak_at_s))
    if len(curves) > MAX_ROWS:
        most = max(curves[MAX_ROWS:], key=lambda curve: curve.peak_bytes)
        made.add_row(
            f"most of {len(curves) - MAX_ROWS} others: {most.device}",
            format_bytes(most.peak_bytes),
            format_seconds(most.peak_at_s),
        )
    if found.load.memory_bytes:
        remark = "" if found.fits else ": it does not fit"
        made.add_row("limit" + remark, format_bytes(found.load.memory_bytes), "", style="bold")
    out.print(made)


def _variation(found: Simulation, out: Console) -> None:
    drawn = variation(found)
    if drawn is None:
        return
    made = table("Unequal devices", [f"of {drawn['samples']} steps drawn", "time"], right=(1,))
    for name, key in (("mean", "mean_s"), ("median", "median_s"), ("95 %", "p95_s")):
        made.add_row(name, format_seconds(float(str(drawn[key]))))
    made.add_row("longest", format_seconds(float(str(drawn["largest_s"]))))
    out.print(made)
    slower = 100 * float(str(drawn["slower_than_equal_devices"]))
    out.print(f"on average {slower:.1f} % more than on equal devices")


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
