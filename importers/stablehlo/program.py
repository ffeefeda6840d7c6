"""A StableHLO module as its text tells it: functions of operations over typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dims and element type of a value."""

    dims: tuple[int, ...]
    dtype: str
    """As graphs call it, e.g. `"bfloat16"`."""


@dataclass(frozen=True, slots=True)
class Dense:
    """Numbers as the file writes them: `dense<…>`."""

    text: str
    type: TensorType | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or another named thing of the module: `@name`."""

    name: str


Attribute: TypeAlias = (
    int | float | bool | str | Symbol | Dense | TensorType | tuple["Attribute", ...]
    | Mapping[str, "Attribute"]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation."""

    name: str
    """With its dialect: `"stablehlo.add"`."""
    operands: tuple[str, ...]
    results: tuple[str, ...]
    types: tuple[TensorType, ...]
    """Of the results."""
    attributes: Mapping[str, Attribute]
    words: tuple[str, ...]
    """What stands alone, e.g. `("LT", "SIGNED")`."""
    regions: tuple[Region, ...] = ()
    location: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """A body inside an operation; it sees the values around it."""

    arguments: tuple[str, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a function."""

    value: str
    type: TensorType
    label: str = ""
    """Its place in the arguments of the traced function: `"params['up']['kernel']"`."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function."""

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """Places in what the traced function returns, `""` where the file tells none."""
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """All functions of a file."""

    name: str
    functions: Mapping[str, Function]
    locations: Mapping[str, str] = field(default_factory=dict)
    """Names that locations stand for, by their alias: `"#loc27"` is `"jit(f)/dot_general"`."""
