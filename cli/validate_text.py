"""The summary of `planner validate`, for people and as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.row_names import first_of, printable, row_names, short
from costmodel.training.assessment import summaries, sweeps
from report.tables import Lines, Part, Table, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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


def summary_parts(
    entries: Sequence[Entry], predictions: Sequence[Prediction | None], output: Path | None
) -> Iterator[Part]:
    """Tables of errors by block, never pooled."""
    times, memories, confusion = summaries(entries, predictions, _blocks(predictions))
    count = sum(found is not None for found in predictions)
    told = f"{len(entries)} rows, {count} predicted, {len(entries) - count} skipped"
    yield Lines("", (told,))
    yield _times(times)
    yield _memory(memories)
    yield Lines("", (f"\n{_fits(confusion)}",))
    yield _sweeps(entries, predictions)
    named = list(zip(row_names(entries), entries, strict=True))
    yield _named("Skipped", [(e.skipped, name) for name, e in named if e.skipped])
    yield _named("Read without", [(text, name) for name, e in named for text in e.unread])
    assumed = [text for entry in entries if entry.read for text in entry.read.assumed]
    yield _counted("Not stated, defaults taken", assumed)
    yield _counted("Ids that stand more than once", list(map(short, _repeated(entries))))
    inherited = [found.inherited for found in predictions if found and found.inherited]
    yield _counted("Constants of others, wider intervals", inherited)
    looked_up = [found.block for found in predictions if found and found.look_up]
    yield _counted("Moved by more than 1 % by similar measured runs", looked_up)
    if output is not None:
        yield Lines("", (f"\nwrote {output}",))


def _blocks(predictions: Sequence[Prediction | None]) -> list[str]:
    """The name under which each row is summed up: those with constants of others stand apart."""
    return [
        _SKIPPED if found is None else f"{found.block}{', inherited' if found.inherited else ''}"
        for found in predictions
    ]


def _repeated(entries: Sequence[Entry]) -> list[str]:
    counts = Counter(entry.name for entry in entries)
    return [name for name, many in counts.items() if many > 1]


def _named(title: str, remarks: Sequence[tuple[str, str]]) -> Lines:
    """As `_counted`, with the rows that each line is said of."""
    rows: dict[str, list[str]] = defaultdict(list)
    for text, name in remarks:
        rows[text].append(name)
    lines = {text: f"{printable(text)}: {first_of(names)}" for text, names in rows.items()}
    return _counted(title, [lines[text] for text, _ in remarks])


def _counted(title: str, lines: Sequence[str]) -> Lines:
    """Each different line with its number, the most frequent ones first."""
    counted = Counter(lines).most_common()
    told = [f"{many} x {line}" for line, many in counted[:_MOST_LINES]]
    if len(counted) > _MOST_LINES:
        told.append(f"and {len(counted) - _MOST_LINES} others; --json has all")
    return Lines(f"{title}:", tuple(told), "  ")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _times(times: Sequence[BlockSummary]) -> Table:
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
    return Table.of("Step time, error in percent", ("block", *numbers(*names)), rows)


def _memory(memories: Sequence[MemorySummary]) -> Table:
    rows = [
        (row.block, row.used, _percent(row.median), _percent(row.ninetieth)) for row in memories
    ]
    columns = ("block", *numbers("rows", "median", "90 %"))
    return Table.of("Memory, error in percent", columns, rows)


def _fits(confusion: Confusion) -> str:
    return (
        f"Fits in memory: of runs that ran, {confusion.ran_fits} predicted to fit and "
        f"{confusion.ran_does_not} not; of runs that ran out of memory, "
        f"{confusion.failed_does_not} predicted not to fit and {confusion.failed_fits} to fit"
    )


def _sweeps(entries: Sequence[Entry], predictions: Sequence[Prediction | None]) -> Table:
    rows = [
        (sweep.name, sweep.layouts, f"{sweep.rank_correlation:.3f}", f"{100 * sweep.best:.1f} %")
        for sweep in sweeps(entries, predictions)
    ]
    columns = ("sweep", *numbers("layouts", "rank", "best is slower by"))
    return Table.of("Layouts of one model on one machine", columns, rows)
