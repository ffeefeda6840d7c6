"""A simulated step as it is told: the values that JSON has of it, in sentences and tables.

What a service answers reads like what is simulated here: both are the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ir.causes import cause_text
from ir.throughput import rate_words
from report.tables import Column, Head, Lines, Part, Table, Unit, share
from topology.units import format_bytes, format_seconds

MAX_ROWS = 12
"""Most rows of a table of stages."""


def _head(found: Mapping[str, Any], means: str) -> Head:
    step_s, estimate_s = found["step_time_s"], found["estimate_s"]
    ratio = estimate_s / step_s if step_s > 0 else 1.0
    told = f"closed form, {means}" if means else "closed form"
    lines = [
        ", ".join((*rate_words(found, found["devices"]), f"{found['devices']:,} devices")),
        f"{told}: {format_seconds(estimate_s)}, {ratio:.3g} x the simulated step",
        ", ".join(f"{name} {value}" for name, value in found["facts"].items()),
    ]
    return Head(f"{found['name']}: one step in {format_seconds(step_s)}, simulated", lines)


def parts(found: Mapping[str, Any], means: str = "", files: Sequence[Path] = ()) -> Iterator[Part]:
    """Time, communication, pipeline bubble, memory, and how devices differ.

    Args:
        found: as JSON has it.
        means: what the closed form assumes.
        files: what was written.
    """
    yield _head(found, means)
    yield _times(found)
    yield _communication(found)
    if found["bubble"] is not None and found["bubble"]["total_s"] > 0:
        yield _bubble(found)
    yield _memory(found)
    if found["variation"] is not None:
        yield _variation(found["variation"])
    yield Lines("Notes", tuple(found["notes"]), "- ")
    yield Lines("Written", tuple(map(str, files)), soft_wrap=True)


def _times(found: Mapping[str, Any]) -> Table:
    step_s = found["step_time_s"]
    rows = [(name, s) for name, s in found["computing_s"].items() if s > 0]
    rows += [
        ("exposed communication", found["exposed_communication_s"]),
        ("idle (pipeline bubble)", found["waiting_s"]),
    ]
    shown = [(name, seconds, share(seconds, step_s)) for name, seconds in rows]
    columns = ("cause", ("time", Unit.SECONDS), ("%", Unit.SHARE))
    whole = [*shown, ("step", step_s, "100")]
    return Table.of("Time of an average device", columns, whole, total=len(shown))


def _communication(found: Mapping[str, Any]) -> Table:
    times = ("total", "exposed", "hidden")
    columns: tuple[Column, ...] = (
        "communication",
        *((name, Unit.SECONDS) for name in times),
        "for",
    )
    rows = []
    for item in found["communication"]:
        kind = f"{item['kind']} in {item['tier']}" if item["tier"] else item["kind"]
        label = cause_text(kind) if item["tier"] else kind.replace("_", "-")
        rows.append((label, *(item[f"{name}_s"] for name in times), item["cause"]))
    return Table.of("Communication of an average device", columns, rows)


def _bubble(found: Mapping[str, Any]) -> Table:
    split, step_s = found["bubble"], found["step_time_s"]
    causes = (
        ("schedule, with equal stages", split["ideal_s"]),
        ("uneven stages", split["imbalance_s"]),
        ("recomputation", split["recomputation_s"]),
        ("communication", split["communication_s"]),
        ("pipeline bubble", split["total_s"]),
    )
    columns = ("cause", ("time", Unit.SECONDS), ("% of the step", Unit.SHARE))
    rows = [(name, seconds, share(seconds, step_s)) for name, seconds in causes]
    return Table.of("Pipeline bubble by cause", columns, rows)


def _memory(found: Mapping[str, Any]) -> Table:
    curves = [(c["device"], c["peak_bytes"], c["peak_at_s"]) for c in found["memory"]]
    rows: list[tuple[object, ...]] = list(curves[:MAX_ROWS])
    if len(curves) > MAX_ROWS:
        device, peak, at_s = max(curves[MAX_ROWS:], key=lambda curve: curve[1])
        rows.append((f"most of {len(curves) - MAX_ROWS} others: {device}", peak, at_s))
    limit = found["memory_limit_bytes"]
    if limit:
        rows.append(("limit" + ("" if found["fits"] else ": it does not fit"), limit, ""))
    columns = ("device", ("peak", Unit.BYTES), ("reached at", Unit.SECONDS))
    return Table.of("Memory", columns, rows, total=len(rows) - 1 if limit else None)


def _variation(drawn: Mapping[str, Any]) -> Table:
    names = {"mean": "mean_s", "median": "median_s", "95 %": "p95_s", "longest": "largest_s"}
    slower = 100 * drawn["slower_than_equal_devices"]
    return Table.of(
        "Unequal devices",
        (f"of {drawn['samples']} steps drawn", ("time", Unit.SECONDS)),
        [(name, drawn[key]) for name, key in names.items()],
        after=(f"on average {slower:.1f} % more than on equal devices",),
    )


def served(found: Mapping[str, Any]) -> Head:
    """A simulation with parameter servers."""
    mode = "synchronous" if found["synchronous"] else "asynchronous"
    step = format_seconds(found["step_time_s"])
    title = f"{found['name']}: a batch of a worker in {step}, simulated"
    count = f"{found['workers']} {mode} workers with {found['servers']} servers"
    exchanged = format_bytes(found["exchanged_bytes"])
    spent = format_seconds(found["communication_s"])
    lines = [
        f"{found['samples_per_s']:,.4g} samples/s from {count}",
        f"{spent} of it exchange 2 x {exchanged} and wait for the update",
    ]
    if not found["synchronous"]:
        lines.append(
            f"{found['staleness']:.1f} updates of others between a pull and its own update"
        )
    change, samples = found["change"], found["samples_of_batch"]
    if change is not None:
        done, whole = change["batches"] * samples, change["without_change"] * samples
        before, after = (format_seconds(change[when]["step_s"]) for when in ("before", "after"))
        lines.append(
            f"in {format_seconds(found['horizon_s'])} {done:,.0f} samples instead of {whole:,.0f}: "
            f"before the change a batch takes {before}, after it {after}"
        )
    return Head(title, lines)
