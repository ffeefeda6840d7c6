"""The summary of `planner validate`, for people and as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.row_names import first_of, printable, row_names, short
from costmodel.training.assessment import summaries, sweeps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from costmodel.training.assessment import BlockSummary, Confusion, MemorySummary
    from costmodel.training.dataset import Entry
    from costmodel.training.predict import Prediction

_SKIPPED = "cannot be priced"
_MOST_LINES = 20
"""Different remarks on rows that the summary shows; JSON has all."""


def summary_json(
    entries: Sequence[Entry], predictions: Sequence[Prediction | None], output: Path | None
) -> str:
    """One JSON object with all summaries."""
    times, memories, confusion = summaries(entries, predictions, _blocks(predictions))
    named = list(zip(row_names(entries), entries, strict=True))
    return json.dumps(
        {
            "status": "ok",
            "rows": len(entries),
            "predicted": sum(found is not None for found in predictions),
            "skipped": {name: entry.skipped for name, entry in named if entry.skipped},
            "unread": [
                {"id": name, "what": list(entry.unread)} for name, entry in named if entry.unread
            ],
            "assumed": {
                name: list(entry.read.assumed)
                for name, entry in named
                if entry.read is not None and entry.read.assumed
            },
            "repeated_ids": _repeated(entries),
            "inherited": {
                name: found.inherited
                for (name, _), found in zip(named, predictions, strict=True)
                if found is not None and found.inherited
            },
            "looked_up": {
                name: found.look_up
                for (name, _), found in zip(named, predictions, strict=True)
                if found is not None and found.look_up
            },
            "blocks": [asdict(block) for block in times],
            "memory": [asdict(block) for block in memories],
            "fits": asdict(confusion),
            "sweeps": [asdict(sweep) for sweep in sweeps(entries, predictions)],
            "files": [] if output is None else [str(output)],
        },
        indent=1,
    )


def print_summary(
    entries: Sequence[Entry],
    predictions: Sequence[Prediction | None],
    output: Path | None,
    out: Console,
) -> None:
    """Tables of errors by block, never pooled."""
    times, memories, confusion = summaries(entries, predictions, _blocks(predictions))
    count = sum(found is not None for found in predictions)
    out.print(f"{len(entries)} rows, {count} predicted, {len(entries) - count} skipped")
    _print_times(times, out)
    _print_memory(memories, confusion, out)
    _print_sweeps(entries, predictions, out)
    named = list(zip(row_names(entries), entries, strict=True))
    _print_named("Skipped", [(e.skipped, name) for name, e in named if e.skipped], out)
    _print_named("Read without", [(text, name) for name, e in named for text in e.unread], out)
    assumed = [text for entry in entries if entry.read for text in entry.read.assumed]
    _print_lines("Not stated, defaults taken", assumed, out)
    _print_lines("Ids that stand more than once", list(map(short, _repeated(entries))), out)
    inherited = [found.inherited for found in predictions if found and found.inherited]
    _print_lines("Constants of others, wider intervals", inherited, out)
    looked_up = [found.block for found in predictions if found and found.look_up]
    _print_lines("Moved by more than 1 % by similar measured runs", looked_up, out)
    if output is not None:
        out.print(f"\nwrote {output}")


def _blocks(predictions: Sequence[Prediction | None]) -> list[str]:
    """The name under which each row is summed up: those with constants of others stand apart."""
    return [
        _SKIPPED if found is None else f"{found.block}{', inherited' if found.inherited else ''}"
        for found in predictions
    ]


def _repeated(entries: Sequence[Entry]) -> list[str]:
    counts = Counter(entry.name for entry in entries)
    return [name for name, many in counts.items() if many > 1]


def _print_named(title: str, remarks: Sequence[tuple[str, str]], out: Console) -> None:
    """As `_print_lines`, with the rows that each line is said of."""
    rows: dict[str, list[str]] = defaultdict(list)
    for text, name in remarks:
        rows[text].append(name)
    lines = {text: f"{printable(text)}: {first_of(names)}" for text, names in rows.items()}
    _print_lines(title, [lines[text] for text, _ in remarks], out)


def _print_lines(title: str, lines: Sequence[str], out: Console) -> None:
    """Each different line with its number, the most frequent ones first."""
    counted = Counter(lines).most_common()
    if counted:
        out.print(f"\n{title}:", style="bold")
    for line, many in counted[:_MOST_LINES]:
        out.print(f"  {many} x {line}", markup=False)
    if len(counted) > _MOST_LINES:
        out.print(f"  and {len(counted) - _MOST_LINES} others; --json has all")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _print_times(times: Sequence[BlockSummary], out: Console) -> None:
    names = ("used / all", "mean", "median", "90 %", "bias", "rank", "in interval")
    rows = [
        (
            row.block,
            f"{row.used} / {row.available}",
            *map(_percent, (row.mean, row.median, row.ninetieth)),
            f"{100 * row.bias:+.1f}",
            None if row.rank_correlation is None else f"{row.rank_correlation:.3f}",
            _percent(row.inside),
        )
        for row in times
    ]
    _show("Step time, error in percent", ("block", *names), rows, out)


def _show(title: str, names: Sequence[str], rows: Sequence[Sequence[object]], out: Console) -> None:
    """A table of names and numbers."""
    from cli.text import show  # noqa: PLC0415  brings in rich
    from report.tables import Table, numbers  # noqa: PLC0415

    first, *others = names
    show((Table.of(title, (first, *numbers(*others)), rows),), out)


def _print_memory(memories: Sequence[MemorySummary], confusion: Confusion, out: Console) -> None:
    rows = [
        (row.block, row.used, _percent(row.median), _percent(row.ninetieth)) for row in memories
    ]
    _show("Memory, error in percent", ("block", "rows", "median", "90 %"), rows, out)
    out.print(
        f"\nFits in memory: of runs that ran, {confusion.ran_fits} predicted to fit and "
        f"{confusion.ran_does_not} not; of runs that ran out of memory, "
        f"{confusion.failed_does_not} predicted not to fit and {confusion.failed_fits} to fit"
    )


def _print_sweeps(
    entries: Sequence[Entry], predictions: Sequence[Prediction | None], out: Console
) -> None:
    rows = [
        (sweep.name, sweep.layouts, f"{sweep.rank_correlation:.3f}", f"{100 * sweep.best:.1f} %")
        for sweep in sweeps(entries, predictions)
    ]
    names = ("sweep", "layouts", "rank", "best is slower by")
    _show("Layouts of one model on one machine", names, rows, out)
