"""The axes of a sweep: which values each parameter takes, and the machine of a point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from planner.requests.errors import UserError, unknown_name
from topology.cluster import Cluster

Value: TypeAlias = int | float | str

FACTORS = ("bandwidth", "latency", "memory", "compute")
"""What is multiplied on the machine: bandwidth and latency of every link, capacity of the memory of
every device, arithmetic rates of every device."""
COUNTS = ("devices", "batch", "sequence")
"""Whole numbers: devices of the job, samples of a step, tokens of a sample."""
NAMES = ("cluster", *COUNTS, *FACTORS)
"""Every axis, in the order in which a sweep runs: the last one fastest. Open dimensions of a model
file, by their names, stand between sizes and factors."""
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
        return Place(tuple((each, known[each]) for each in sorted(known, key=position)))

    def machine(self) -> Place:
        """What is no size: the machine, its devices and the factors on it."""
        kept = {"cluster", "devices", *FACTORS}
        return Place(tuple(pair for pair in self.values if pair[0] in kept))

    def __str__(self) -> str:
        return ", ".join(f"{name} {shown(value)}" for name, value in self.values)


def position(name: str) -> tuple[int, str]:
    """Where an axis stands in the order of a sweep."""
    last = NAMES.index(COUNTS[-1])
    return (NAMES.index(name), "") if name in NAMES else (last, name)


def is_count(name: str) -> bool:
    """Whether the values of an axis are whole numbers: counts, and sizes of open dimensions."""
    return name != "cluster" and name not in FACTORS


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


def parse_axes(text: str, dimensions: Callable[[], Collection[str]] = tuple) -> tuple[Axis, ...]:
    """Axes of a text such as `bandwidth=0.5:2:5,batch=64,128,256`.

    Args:
        text: what the user wrote.
        dimensions: names of open dimensions of the model, asked for where a name is no other axis.

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
            raise UserError(f"{item!r} is no axis", f"--vary {text}", _FIX)
    axes = tuple(_axis(name, values, f"--vary {text}", dimensions) for name, values in groups)
    check_distinct(axes, f"--vary {text}")
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


def _axis(
    name: str,
    texts: Sequence[str],
    where: str,
    dimensions: Callable[[], Collection[str]] = tuple,
) -> Axis:
    if name not in NAMES[1:]:
        found = () if name == "cluster" else dimensions()
        if name not in found:
            raise unknown_name("axis", name, dict.fromkeys((*NAMES[1:], *found)), where)
    whole = is_count(name)
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
    ordered = sorted(axes, key=lambda axis: position(axis.name))
    for values in itertools.product(*(axis.values for axis in ordered)):
        yield Place(tuple(zip((axis.name for axis in ordered), values, strict=True)))


def of_place(cluster: Cluster, place: Place) -> Cluster:
    """The machine of a point."""
    return cluster.scaled(**{name: place.factor(name) for name in FACTORS})
