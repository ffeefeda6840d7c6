"""A MindIR file in memory: graphs of nodes, what they are called with, and what they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from importers.mindir.wire import Span


@dataclass(frozen=True, slots=True)
class TensorType:
    """What the file notes of a tensor; a size of -1 is open."""

    dims: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """What is no number and no tensor: a monad that orders side effects, a function."""

    what: str
    """MindSpore's name of its type, e.g. `"UMONAD"`."""

    @property
    def is_monad(self) -> bool:
        return self.what in {"UMONAD", "IOMONAD"}


ResultType: TypeAlias = TensorType | Opaque | tuple["ResultType", ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor that the file brings along, or that lies in a file beside it."""

    name: str
    type: TensorType
    numbers: Span | None = None
    """Where they are in the file; None where they are not, or not as they are computed with."""
    outside: str = ""
    """The file beside it that has them."""
    offset: int = 0


Literal: TypeAlias = int | float | bool | str | Stored | Opaque | tuple["Literal", ...] | None
"""A constant, or an attribute of a primitive."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph."""

    name: str
    target: str
    """The primitive, or a function's name; empty for a constant."""
    inputs: tuple[str, ...]
    result: ResultType
    scope_name: str
    """MindSpore's full name with scope, e.g. `"Default/up-Dense/MatMul-op0"`."""
    attributes: Mapping[str, Literal] = field(default_factory=dict)
    constant: Literal = None
    is_call: bool = False
    """Whether the target is no primitive."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in order. Names of values are unique in the whole file."""

    name: str
    inputs: tuple[tuple[str, ResultType], ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    parameters: Mapping[str, Stored]
    """By the name of the value."""


@dataclass(frozen=True, slots=True)
class MindFile:
    """What a file holds."""

    name: str
    producer: str
    main: Graph
    functions: Mapping[str, Graph]
