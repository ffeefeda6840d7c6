"""A traced PyTorch program as both file forms tell it: nodes over values with dims and types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from importers.traced.call import ElementType


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that another node, or the caller, makes."""

    name: str


@dataclass(frozen=True, slots=True)
class Size:
    """A number that follows from sizes: `"2*s0 + 1"`."""

    text: str


Value: TypeAlias = (
    Reference | Size | ElementType | tuple["Value", ...] | str | int | float | bool | None
)
"""An argument of a node."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What the tracer noted of a tensor."""

    dims: tuple[int | str, ...]
    """A text is an expression of symbols."""
    dtype: str


@dataclass(frozen=True, slots=True)
class Node:
    """One call."""

    name: str
    target: str
    """Namespace, name and overload: `"aten.add.Tensor"`."""
    positional: tuple[Value, ...]
    named: Mapping[str, Value]
    results: tuple[str, ...]
    """Names of the tensors that it makes, `""` for what is none."""
    scope: str = ""
    """Path of the module, e.g. `"model.layers.0.mlp"`."""


class Kind(StrEnum):
    """What a stored tensor is for."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor that the program brings along."""

    name: str
    """Full path in the module, e.g. `"layers.0.weight"`."""
    kind: Kind


class Purpose(StrEnum):
    """What a result of the program is for."""

    USER = "user"
    LOSS = "loss"
    GRADIENT = "gradient"
    MUTATION = "mutation"
    """The new content of a buffer."""


@dataclass(frozen=True, slots=True)
class Output:
    """One result."""

    value: str
    purpose: Purpose
    of: str = ""
    """The parameter whose gradient it is, or the buffer whose content it is."""


@dataclass(frozen=True, slots=True)
class Range:
    """Least and largest value of a symbol."""

    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes in order over a table of values."""

    name: str
    producer: str
    """Who wrote it, e.g. `"torch 2.13.0"`."""
    form: str
    """`"pt2"` or `"fx"`."""
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    """Tensors that the caller gives."""
    outputs: tuple[Output, ...]
    stored: Mapping[str, Stored]
    """By the name of the value."""
    metas: Mapping[str, Meta]
    symbols: Mapping[str, Range] = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)
    """Sizes that the symbols had while the program was traced."""
    guards: tuple[str, ...] = ()
    """Conditions on sizes, as Python expressions."""
