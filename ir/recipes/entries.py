"""One quantity of a table and where a framework states it, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from ir.recipes.forms import Form, Scalar, same_scalar, spelled
from ir.recipes.quantities import Value, plain

__all__ = ["Case", "Condition", "Entry"]

_MANY, _ONE, _KNOWN, _UNKNOWN = "many", "one", "known", "unknown"
_SILENT = frozenset({"null", "false", ""})
_NEAREST: Mapping[Value, tuple[Value, ...]] = MappingProxyType({
    "some": ("full",),
    "selective": ("none",),
    Fraction(1): (Fraction(2), Fraction(3)),
    Fraction(2): (Fraction(1), Fraction(3)),
    Fraction(3): (Fraction(2), Fraction(1)),
})  # fmt: skip
"""What is written in cases where a framework cannot say a value: the stages of ZeRO are numbers."""


@dataclass(frozen=True, slots=True)
class Case:
    """One value of a quantity, as several settings spell it."""

    value: Value
    settings: Mapping[str, Scalar]
    """What each must be; None says left out."""
    reads: bool
    """Whether it is only read, as another case is how we write the value."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Of which values of another quantity an entry is: `many` is a number above 1, and of one that
    nobody states no other condition holds than `unknown`.
    """

    quantity: str
    values: tuple[str, ...]

    def holds(self, value: Value | None) -> bool:
        if value is None:
            return _UNKNOWN in self.values
        number = value if isinstance(value, Fraction) else Fraction(0)
        kind = _MANY if number > 1 else _ONE
        return kind in self.values or _KNOWN in self.values or plain(value) in self.values


@dataclass(frozen=True, slots=True)
class Entry:
    """One quantity and where a framework states it."""

    quantity: str
    at: str
    """The setting; empty for cases, and for what the framework always does."""
    form: Form
    cases: tuple[Case, ...]
    default: Value | None
    same: str
    """The quantity that it equals where it is left out."""
    when: tuple[Condition, ...]
    unless: tuple[Condition, ...]
    unset: tuple[str, ...]
    """Spellings that leave it to the framework, such as -1 and `auto`."""
    rest: tuple[str, ...]
    """Spellings that make it what the other numbers leave, whatever the default is."""
    fallback: bool
    """Whether it stands back where the quantity is known already."""
    writes: bool
    always: bool
    """Whether it is written although it is the default."""
    file: int
    launch: bool
    """Whether it is an argument of the launcher, not of the script."""
    settings: frozenset[str]
    """All settings that it reads; none where it is written only."""

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Whether it is of a recipe with these quantities."""
        if not all(each.holds(values.get(each.quantity)) for each in self.when):
            return False
        return not self.unless or not all(e.holds(values.get(e.quantity)) for e in self.unless)

    def read(self, given: Mapping[str, Scalar]) -> tuple[Value | None, str]:
        """The value that settings state, and the setting that is of none; both may be empty."""
        if not self.settings:
            return None, ""
        if not self.cases:
            if self.at not in given or self.spelled_as(given, (*self.unset, *self.rest)):
                return None, ""
            found = self.form.read(given[self.at])
            return found, "" if found is not None else self.at
        fitting = [case for case in self.cases if _matches(case, given)]
        if fitting:
            return fitting[-1].value, ""
        leading = {next(iter(case.settings)) for case in self.cases}
        silent = _SILENT | set(self.unset)
        stated = [name for name in sorted(leading) if spelled(given.get(name)) not in silent]
        return None, next(iter(stated), "")

    def spelled_as(self, given: Mapping[str, Scalar], spellings: Iterable[str]) -> bool:
        """Whether the setting has one of some spellings."""
        return self.at in given and any(same_scalar(given[self.at], each) for each in spellings)

    def write(
        self, value: Value, given: Mapping[str, Scalar] | None = None
    ) -> Mapping[str, Scalar] | None:
        """The settings that state a value, in the words of a file where it states that value; None
        where there are none.
        """
        if not self.cases:
            return {self.at: self.form.write(value)}
        stated = [case for case in self.cases if given and _matches(case, given)]
        if stated and stated[-1].value == value:
            return stated[-1].settings
        for wanted in (value, *_NEAREST.get(value, ())):
            own = [case for case in self.cases if case.value == wanted and not case.reads]
            if own:
                return own[0].settings
        return None


def _matches(case: Case, given: Mapping[str, Scalar]) -> bool:
    if all(wanted is None for wanted in case.settings.values()):
        stated = [name for name in case.settings if name in given]
        return bool(stated) and all(same_scalar(given[name], False) for name in stated)
    return all(
        (given.get(name) is None or same_scalar(given[name], False))
        if wanted is None
        else name in given and same_scalar(given[name], wanted)
        for name, wanted in case.settings.items()
    )
