"""`planner validate --explain ID` and `--schema`: what was understood of a row, and what can be."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from cli.errors import UserError
from cli.row_names import printable, row_names
from costmodel.training.machines import machine
from costmodel.training.predict import predict
from costmodel.training.run_schema import FIELDS
from costmodel.training.step_terms import step_terms
from report.tables import Lines, Part, Table, Unit
from topology.units import format_bandwidth, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.training.calibration import Calibration
    from costmodel.training.dataset import Entry
    from costmodel.training.rows import ReadRow

_UNSTATED = (0, 0.0, "", -1, (), None)


def schema_json() -> str:
    """The fields of a run as JSON."""
    return json.dumps({"status": "ok", "fields": [asdict(field) for field in FIELDS]}, indent=1)


def schema_parts() -> Iterator[Part]:
    """The fields of a run for people."""
    rows = [
        (
            f"{each.name}{' *' if each.required else ''}",
            f"{each.meaning} ({', '.join(filter(None, (each.kind, each.unit)))})",
        )
        for each in FIELDS
    ]
    yield Table.of("Fields of a run (* must be given)", ("field", "is"), rows)
    yield Lines(
        "",
        (
            "A field is a column of a CSV table, and a name in YAML or JSON: runs: with a list of",
            "mappings. One that is left out widens the interval where a default stands in for it.",
        ),
    )


def explained_entry(entries: Sequence[Entry], name: str) -> tuple[str, Entry]:
    """The row of an id, as the program calls it.

    Raises:
        UserError: no row has it.
    """
    named = list(zip(row_names(entries), entries, strict=True))
    for called, entry in named:
        if name in {called, entry.name}:
            return called, entry
    shown = ", ".join(printable(called) for called, _ in named[:5])
    raise UserError(f"no row has the id {name[:60]!r}", "--explain", f"name one, such as {shown}")


def explained_json(name: str, entry: Entry, calibration: Calibration | None) -> str:
    """What was understood of a row, as JSON."""
    answer: dict[str, Any] = {"status": "ok", "id": name, "skipped": entry.skipped}
    if entry.read is not None:
        found = predict([entry.read.run], [entry.read.guesses], calibration)[0]
        answer |= {
            "understood": dict(_understood(entry.read)),
            "source": entry.source,
            "assumed": list(entry.read.assumed),
            "links": list(entry.read.links),
            "unread": list(entry.unread),
            "step_s": found.step_s,
            "low_s": None if found.unlike else found.low_s,
            "high_s": None if found.unlike else found.high_s,
            "measured_s": entry.step_s,
            "memory_bytes": found.memory_bytes,
            "fit_chance": found.fit_chance,
            "block": found.block,
            "inherited": found.inherited,
            "unmeasured": list(found.unmeasured),
            "terms_s": dict(step_terms(entry.read.run, calibration)),
        }
    return json.dumps(answer, indent=1)


def explained_parts(name: str, entry: Entry, calibration: Calibration | None) -> Iterator[Part]:
    """The same for people."""
    if entry.read is None:
        yield Lines("", (f"{printable(name)} cannot be priced: {printable(entry.skipped)}",))
        return
    read, run = entry.read, entry.read.run
    found = predict([run], [read.guesses], calibration)[0]
    terms = step_terms(run, calibration)
    yield Table.of(f"{printable(name)}: understood", ("what", "value"), list(_understood(read)))
    for title, lines in (
        ("Links, as stated", read.links),
        ("Not stated, a default stands in", read.assumed),
        ("Not understood", entry.unread),
        ("Beyond what was measured", found.unmeasured),
    ):
        if lines:
            yield Lines(title, tuple(map(printable, lines)), bullet="  ")
    rows = [(term, seconds, seconds / found.step_s) for term, seconds in terms.items()]
    names = ("term", ("seconds", Unit.SECONDS), ("% of the step", Unit.SHARE))
    yield Table.of("The step", names, [*rows, ("all", found.step_s, 1.0)])
    told = [f"block {found.block}{f', {found.inherited}' if found.inherited else ''}"]
    told.append(
        f"memory {format_bytes(found.memory_bytes)}, fits with a chance of {found.fit_chance:.0%}"
    )
    if found.look_up:
        told.append(found.look_up)
    if not found.unlike:
        told.append(
            f"90 % interval {format_seconds(found.low_s)} to {format_seconds(found.high_s)}"
        )
    if entry.step_s is not None:
        told.append(f"measured {format_seconds(entry.step_s)}")
    yield Lines("", tuple(told))


def _understood(read: ReadRow) -> Iterator[tuple[str, str]]:
    """Everything of a run that is not at rest, as text."""
    run = read.run
    known = machine(run.machine)
    yield "machine", f"{run.machine}, servers of {run.server or known.server}"
    yield "memory of a device", format_bytes(known.usable_bytes)
    for what, stated, usual in (
        ("ports of a device between servers", run.port_bytes_per_s, known.port_bytes_per_s),
        ("link of a device inside a server", run.link_bytes_per_s, known.link_bytes_per_s),
    ):
        rate = format_bandwidth(stated or usual)
        yield what, f"{rate}, {'as the row states' if stated else 'as the maker states'}"
    yield "software profile", run.profile
    yield "products, attention", f"{run.precision}, {run.attention}"
    yield "settings", ", ".join(sorted(run.flags)) or "none"
    for part in (run.layout, run.model):
        for item in fields(part):
            value = getattr(part, item.name)
            if value not in _UNSTATED:
                yield item.name.replace("_", " "), str(value)
