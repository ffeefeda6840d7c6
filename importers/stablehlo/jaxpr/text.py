"""What the text of a jaxpr tells: equations over typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from importers.stablehlo.program import TensorType


@dataclass(frozen=True, slots=True)
class Variable:
    """A value by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number in the text: `0.5:f32[]`."""

    text: str
    type: TensorType


Atom: TypeAlias = Variable | Literal


@dataclass(frozen=True, slots=True)
class Word:
    """What stands for itself, such as `None`, `float32` or `jvp`."""

    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """A named tuple: `ConvDimensionNumbers(lhs_spec=(0, 1, 2, 3), …)`."""

    name: str
    fields: Mapping[str, Value]
    items: tuple[Value, ...] = ()


Value: TypeAlias = "int | float | str | bool | Word | Record | Jaxpr | tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class Equation:
    """One call of a primitive."""

    primitive: str
    results: tuple[tuple[str, TensorType], ...]
    """Names and types; `_` is a result that nobody reads."""
    operands: tuple[Atom, ...]
    params: Mapping[str, Value]
    line: int


@dataclass(frozen=True, slots=True)
class Jaxpr:
    """A function: arguments, equations, results."""

    constants: tuple[tuple[str, TensorType], ...]
    arguments: tuple[tuple[str, TensorType], ...]
    equations: tuple[Equation, ...]
    results: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A whole text: named jaxprs, and the one that is the program."""

    named: Mapping[str, Jaxpr]
    main: Jaxpr
