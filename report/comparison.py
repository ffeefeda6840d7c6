"""What two plans say differently: records that a command prints and a page shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ir.causes import cause_text
from report.tables import Head, Lines, Part, Table, Unit, shown
from topology.units import format_seconds, without_rounding

_MOST_SHOWN = 15


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that two plans say differently."""

    name: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A time or a memory in both plans; 0 where a plan lacks the cause."""

    name: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Change:
    """Operators or parameters of one pattern that lie differently in the same way."""

    name: str
    count: int
    compute_s: float
    """Of the operators in the first plan; 0 for parameters."""
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Two plans compared."""

    facts: tuple[Fact, ...]
    """Only what differs."""
    step_time_s: Amount
    time_by_cause: tuple[Amount, ...]
    peak_memory_bytes: Amount
    memory_by_cause: tuple[Amount, ...]
    operators: tuple[Change, ...]
    """The heaviest first."""
    parameters: tuple[Change, ...]
    only_first: int
    """Operators and parameters that the second plan lacks."""
    only_second: int
    shared: int
    """Operators and parameters that both have."""

    @property
    def is_empty(self) -> bool:
        whole = (self.step_time_s, self.peak_memory_bytes)
        amounts = (*whole, *self.time_by_cause, *self.memory_by_cause)
        changed = self.facts or self.operators or self.parameters
        return not (
            changed or self.only_first or self.only_second
            or any(a.first != a.second for a in amounts)
        )  # fmt: skip


def parts(found: Difference, names: tuple[str, str]) -> Iterator[Part]:
    """What differs; equal things are left out.

    Args:
        found: the comparison.
        names: what to call the plans.
    """
    plans = tuple(f"{letter}: {name}" for letter, name in zip("AB", names, strict=True))
    yield Lines("", plans, soft_wrap=True)
    if found.is_empty:
        told = f"{found.shared} operators and parameters, time, memory."
        yield Lines("", (f"The plans are equal: {told}",))
        return
    yield Head(_headline(found.step_time_s))
    facts = [(fact.name, fact.first, fact.second) for fact in found.facts]
    yield Table.of("Request and result", ("", ("A", Unit.CODE), ("B", Unit.CODE)), facts)
    yield _amounts("Time", (*found.time_by_cause, found.step_time_s), Unit.SECONDS)
    memory = (*found.memory_by_cause, found.peak_memory_bytes)
    yield _amounts("Peak memory of a device", memory, Unit.BYTES)
    yield _changes("Operators with other layouts", found.operators)
    yield _changes("Parameters with other layouts", found.parameters)
    for name, other, count in (("A", "B", found.only_first), ("B", "A", found.only_second)):
        if count:
            told = f"{count} operators and parameters of {name} are not in {other}."
            yield Lines("", (f"\n{told}",))


def _headline(step: Amount) -> str:
    first, second = format_seconds(step.first), format_seconds(step.second)
    if step.first == step.second:
        return f"Both take {first}"
    if not (step.first > 0 and step.second > 0):
        return f"A takes {first}, B {second}"
    faster, ratio = ("B", step.first / step.second)
    if ratio < 1:
        faster, ratio = "A", 1 / ratio
    return f"A takes {first}, B {second}: {faster} is {ratio:.3g} x faster"


def _amounts(title: str, amounts: Sequence[Amount], unit: Unit) -> Table:
    change = Unit.CHANGE_S if unit is Unit.SECONDS else Unit.CHANGE_BYTES
    rows = []
    for each in amounts:
        delta = without_rounding(each.second - each.first, max(each.first, each.second))
        told = shown(delta, change) if delta else "same"
        rows.append((cause_text(each.name), each.first or None, each.second or None, told))
    if all(each.first == each.second for each in amounts):
        rows = []
    columns = ("cause", ("A", unit), ("B", unit), ("B - A", Unit.NUMBER))
    return Table.of(title, columns, rows, total=len(rows) - 1)


def _changes(title: str, changes: Sequence[Change]) -> Table:
    rows = []
    for each in changes[:_MOST_SHOWN]:
        rows += [(each.name, each.count, "A", each.first), ("", "", "B", each.second)]
    rest = changes[_MOST_SHOWN:]
    told = f"and {sum(c.count for c in rest)} others in {len(rest)} groups"
    columns = (("pattern", Unit.NAME), ("count", Unit.NUMBER), "", ("layouts", Unit.CODE))
    return Table.of(title, columns, rows, after=(told,) if rest else ())
