"""The axes of a sweep: which values each parameter takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from planner.asking.errors import UserError, unknown_name

Value: TypeAlias = int | float | str

FACTORS = ("bandwidth", "latency", "memory", "compute")
"""What is multiplied on the machine: bandwidth and latency of every link, capacity of the memory of
every device, arithmetic rates of every device."""
COUNTS = ("devices", "batch", "sequence")
"""Whole numbers: devices of the job, samples of a step, tokens of a sample."""
NAMES = ("cluster", *COUNTS, *FACTORS)
"""Every axis, in the order in which a sweep runs: the last one fastest."""
MULTIPLE = 8
"""Whole numbers between the ends of a range are rounded to a multiple of this."""
MOST_STEPS = 10_000
LARGEST = 10**12
_FIX = "write name=low:high:count or name=value,value,... with names " + ", ".join(NAMES[1:])
_FIX_VALUES = "write low:high:count or value,value,... with numbers above 0"


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter with its values, in the order given."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """One point of a sweep: a value of every axis."""

    values: tuple[tuple[str, Value], ...]

    def get(self, name: str) -> Value | None:
        return dict(self.values).get(name)

    def count(self, name: str) -> int | None:
        """A whole number, if the sweep has this axis."""
        value = self.get(name)
        return None if value is None else int(value)

    def factor(self, name: str) -> float:
        """A factor on the machine; 1 if the sweep has no such axis."""
        value = self.get(name)
        return 1.0 if value is None else float(value)

    def without(self, name: str) -> Place:
        """What the point shares with others along an axis."""
        return Place(tuple(pair for pair in self.values if pair[0] != name))

    def at(self, name: str, value: Value) -> Place:
        """The point with another value of an axis."""
        known = {**dict(self.values), name: value}
        return Place(tuple((each, known[each]) for each in NAMES if each in known))

    def __str__(self) -> str:
        return ", ".join(f"{name} {shown(value)}" for name, value in self.values)


def shown(value: Value) -> str:
    """A value as people write it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def steps(low: float, high: float, count: int, *, whole: bool) -> tuple[Value, ...]:
    """Values from low to high in equal ratios; whole numbers to the nearest multiple of 8.

    Every step is kept, even where rounding makes two of them equal.

    >>> steps(64, 1024, 5, whole=True)
    (64, 128, 256, 512, 1024)
    >>> steps(0.5, 2, 3, whole=False)
    (0.5, 1.0, 2.0)
    """
    if count == 1:
        found = [float(low)]
    else:
        ratio = math.log(high / low) / (count - 1)
        found = [low * math.exp(ratio * step) for step in range(count)]
        found[-1] = float(high)
    if not whole:
        return tuple(float(f"{value:.12g}") for value in found)
    return tuple(max(MULTIPLE, MULTIPLE * math.floor(v / MULTIPLE + 0.5)) for v in found)


def parse_axes(text: str, option: str = "--vary") -> tuple[Axis, ...]:
    """Axes of a text such as `bandwidth=0.5:2:5,batch=64,128,256`.

    Raises:
        UserError: the text names no axis, or one twice, or values that cannot be.
    """
    groups: list[tuple[str, list[str]]] = []
    for item in (part.strip() for part in text.split(",")):
        name, equals, value = (part.strip() for part in item.partition("="))
        if equals:
            groups.append((name, [value]))
        elif groups and item:
            groups[-1][1].append(item)
        else:
            raise UserError(f"{item!r} is no axis", f"{option} {text}", _FIX)
    axes = tuple(_axis(name, values, f"{option} {text}") for name, values in groups)
    check_distinct(axes, f"{option} {text}")
    return axes


def check_distinct(axes: Sequence[Axis], where: str) -> None:
    """Raise `UserError` if an axis is given twice."""
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"axis {name!r} is given twice", where, "give every axis once")


def list_axis(name: str, text: str) -> Axis:
    """An axis from a list, or from a range, such as `--devices 8,16,32` or `--devices 8:512:7`."""
    values = [part.strip() for part in text.split(",")]
    if name == "cluster":
        if not all(values):
            raise UserError("a cluster without a name", f"--cluster {text}", "name each of them")
        return Axis(name, tuple(values))
    return _axis(name, values, f"--{name} {text}")


def _axis(name: str, texts: Sequence[str], where: str) -> Axis:
    if name == "cluster" or name not in NAMES:
        raise unknown_name("axis", name, NAMES[1:], where)
    whole = name in COUNTS
    values: list[Value] = []
    for text in texts:
        low, colon, rest = text.partition(":")
        if not colon:
            values.append(_number(text, where, whole=whole))
            continue
        high, colon, count = rest.partition(":")
        if not colon:
            raise UserError(
                f"the range {text} does not say how many values", where,
                f"write {text}:5 for five values in equal ratios",
            )  # fmt: skip
        ends = (_number(low, where, whole=whole), _number(high, where, whole=whole))
        number = int(_number(count, where, whole=True))
        if number > MOST_STEPS:
            raise UserError(f"{number} steps", where, f"give {MOST_STEPS} at most")
        values += steps(*ends, number, whole=whole)
    return Axis(name, tuple(values))


def _number(text: str, where: str, *, whole: bool) -> float | int:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = 0
    if not 0 < value <= LARGEST:
        kind = "whole number" if whole else "number"
        raise UserError(f"{text[:40]!r} is no {kind} above 0", where, _FIX_VALUES)
    return value


def places(axes: Sequence[Axis]) -> Iterator[Place]:
    """All points: the product of the axes, the last of `NAMES` fastest."""
    ordered = sorted(axes, key=lambda axis: NAMES.index(axis.name))
    for values in itertools.product(*(axis.values for axis in ordered)):
        yield Place(tuple(zip((axis.name for axis in ordered), values, strict=True)))
