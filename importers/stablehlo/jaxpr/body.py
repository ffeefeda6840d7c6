"""Operations of one function while its equations are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from importers.errors import ModelError
from importers.stablehlo.jaxpr.text import Atom, Equation, Jaxpr, Literal, Record, Value
from importers.stablehlo.program import (
    Attribute,
    Dense,
    Function,
    Operation,
    Region,
    Symbol,
    TensorType,
)

MAX_OPERATIONS = 1_000_000
Int: TypeAlias = int
"""`int` where a method of that name hides it."""
_NONE: Mapping[str, Attribute] = MappingProxyType({})


def whole_numbers(value: Value) -> tuple[int, ...]:
    """The whole numbers of a tuple; none of anything else."""
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()


@dataclass(slots=True)
class Functions:
    """All functions of a module under construction."""

    named: Mapping[str, Jaxpr]
    """Jaxprs that the text calls by name."""
    where: str
    found: dict[str, Function] = field(default_factory=dict)
    count: int = 0
    """Operations in all of them."""


@dataclass(slots=True)
class Body:
    """A function that equations are added to."""

    functions: Functions
    types: dict[str, TensorType] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    line: int = 0
    _steps: int = 0

    def fault(self, what: str) -> ModelError:
        return ModelError(
            what,
            f"{self.functions.where}, line {self.line}",
            "write the text again: str(jax.make_jaxpr(f)(...)), or python -m importers.jax_trace",
        )

    def value(self, atom: Atom) -> str:
        """The value of an operand; a number becomes a constant."""
        if isinstance(atom, Literal):
            return self.number(atom.text, atom.type)
        name = f"%{atom.name}"
        if name not in self.types:
            raise self.fault(f"{atom.name} is read before it is made")
        return name

    def number(self, text: str, kind: TensorType) -> str:
        """A value that is one number throughout."""
        return self.step("stablehlo.constant", (), kind, value=Dense(f"dense<{text}>", kind))

    def step(
        self,
        name: str,
        operands: Sequence[str],
        kind: TensorType,
        *,
        words: tuple[str, ...] = (),
        regions: tuple[Region, ...] = (),
        **attributes: Attribute,
    ) -> str:
        """An operation with one result, which nobody else names."""
        self._steps += 1
        result = f"%.{self._steps}"
        self.add(name, operands, {result: kind}, attributes, words=words, regions=regions)
        return result

    def add(
        self,
        name: str,
        operands: Sequence[str],
        results: Mapping[str, TensorType],
        given: Mapping[str, Attribute] = _NONE,
        *,
        words: tuple[str, ...] = (),
        regions: tuple[Region, ...] = (),
        **attributes: Attribute,
    ) -> None:
        """An operation with these results; attributes are given, or named one by one."""
        self.functions.count += 1
        if self.functions.count > MAX_OPERATIONS:
            raise self.fault(f"the program has more than {MAX_OPERATIONS} operations")
        self.types.update(results)
        made = Operation(
            name, tuple(operands), tuple(results), tuple(results.values()),
            {**given, **attributes}, words, regions, "", self.line,
        )  # fmt: skip
        self.operations.append(made)

    def call(self, name: str, operands: Sequence[str], results: Mapping[str, TensorType]) -> None:
        self.add("func.call", operands, results, callee=Symbol(name))


@dataclass(slots=True)
class Call:
    """One equation with its operands at hand: what the table is functions of."""

    body: Body
    equation: Equation
    operands: tuple[str, ...]
    results: dict[str, TensorType]

    @property
    def kind(self) -> TensorType:
        """Type of the first result."""
        if not self.results:
            raise self.body.fault(f"{self.equation.primitive} has no result")
        return next(iter(self.results.values()))

    def type_of(self, index: int) -> TensorType:
        if index >= len(self.operands):
            raise self.body.fault(f"{self.equation.primitive} has {len(self.operands)} operands")
        return self.body.types[self.operands[index]]

    def param(self, name: str) -> Value | None:
        return self.equation.params.get(name)

    def ints(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A tuple of whole numbers."""
        value = self.param(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise self.body.fault(f"{name} of {self.equation.primitive} is no list of numbers")
        return tuple(int(v) for v in value if isinstance(v, int))

    def int(self, name: str, default: Int | None = None) -> Int:
        value = self.equation.params.get(name, default)
        if not isinstance(value, int):
            raise self.body.fault(f"{name} of {self.equation.primitive} is no whole number")
        return value

    def pairs(self, name: str) -> tuple[tuple[Int, ...], ...]:
        """A tuple of tuples of whole numbers."""
        value = self.param(name)
        rows = value if isinstance(value, tuple) else ()
        found = [r for r in rows if isinstance(r, tuple) and all(isinstance(v, int) for v in r)]
        if not isinstance(value, tuple) or len(found) != len(rows):
            raise self.body.fault(f"{name} of {self.equation.primitive} is no list of pairs")
        return tuple(tuple(int(v) for v in r if isinstance(v, int)) for r in found)

    def record(self, name: str) -> Record:
        value = self.param(name)
        if not isinstance(value, Record):
            raise self.body.fault(f"{name} of {self.equation.primitive} is no record")
        return value

    def finish(self, name: str, operands: Sequence[str], **attributes: Attribute) -> None:
        """The operation that makes the results."""
        self.body.add(name, operands, self.results, attributes)


Converter: TypeAlias = Callable[[Call], None]
