"""A verdict on a plan as it is told: the values that JSON has of it, in sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from report.tables import Lines, Part, Table, Unit
from topology.units import format_bytes

MOST_ROWS = 12


def parts(found: Mapping[str, Any], name: str, devices: int) -> Iterator[Part]:
    """The verdict first, then what it rests on, then what is wrong.

    Args:
        found: as JSON has it; of the reference executor, or of an outside judge.
        name: of the model.
        devices: of the plan.
    """
    judge, passed = found.get("judge"), found["status"] == "verified"
    word = ("" if passed else "NOT ") + ("confirmed by " + judge if judge else "verified")
    told = f"{name}: {word} on {devices} {'' if judge else 'virtual '}devices"
    yield Lines("", (told, *(f"  {note}" for note in found["notes"])))
    yield _outputs(found)
    yield from _messages(found) if judge else _sent(found)
    reasons = [f"{operator}: {why}" for operator, why in found["not_verified"].items()]
    if reasons:
        yield Lines("", ("\nNot verified", *_first(reasons)))


def _outputs(found: Mapping[str, Any]) -> Table:
    outputs, missing = found["outputs"], [f"missing: {name}" for name in found.get("missing", ())]
    rows = [
        (o["name"], "x".join(map(str, o["dims"])) or "a scalar", _error(o["error"]))
        for o in outputs[:MOST_ROWS]
    ]
    columns = ("output", "dims", ("largest error", Unit.NUMBER))
    after = (*_first([""] * len(outputs))[MOST_ROWS:], *missing)
    return Table.of("Outputs, split against whole", columns, rows, after=after)


def _sent(found: Mapping[str, Any]) -> Iterator[Lines]:
    wrong = found["mismatches"]
    told = f"\nMessages\n{found['messages']} sent, {len(wrong)} otherwise than planned"
    lines = [
        f"- {' for '.join(x for x in (item['tensor'], item['operator']) if x)}: planned "
        f"{item['planned'] or 'nothing'}; sent {item['sent'] or 'nothing'}"
        for item in wrong
    ]
    yield Lines("", (told, *_first(lines)))


def _messages(found: Mapping[str, Any]) -> Iterator[Part]:
    number = Unit.NUMBER
    columns = (
        "kind", ("group", number), ("predicted", Unit.BYTES), ("sent", Unit.BYTES),
        ("messages predicted", number), ("sent", number), "",
    )  # fmt: skip
    keys = ("group_size", "predicted_bytes", "emitted_bytes", "predicted_count", "emitted_count")
    rows = [
        (m["kind"].replace("_", "-"), *(m[k] for k in keys), "" if m["agrees"] else "differs")
        for m in found["messages"]
    ]
    title = "Messages, predicted beside sent, each device in one step"
    none = Lines("", ("\nMessages\nnone predicted, none sent",))
    yield Table.of(title, columns, rows) if rows else none
    nbytes = found["memory_bytes"]
    if nbytes is not None:
        told = f"\nMemory of a device, as {found['judge']} counts it\n{format_bytes(nbytes)}"
        yield Lines("", (told,))


def _first(lines: Sequence[str]) -> tuple[str, ...]:
    """The first ones, and how many more there are."""
    more = len(lines) - MOST_ROWS
    return (*lines[:MOST_ROWS], *([f"and {more} others"] if more > 0 else []))


def _error(error: float | None) -> str:
    if error is None:
        return "not a number, or another shape"
    return "0" if error == 0 else f"{error:.1e}"
