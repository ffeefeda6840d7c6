"""One call of a program with its arguments at hand: what the tables are functions of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from importers.errors import MISFITS, ModelError, UnsupportedError
from importers.onnx_checks import type_code
from importers.operators import Operators
from importers.parameters import parametrised
from importers.traced.making import Making
from importers.traced.writer import Attribute, Builder
from ir.graph import Tensor

Dims: TypeAlias = tuple[int, ...]
Int: TypeAlias = int
"""`int` where a method of that name hides it."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type as an argument."""

    name: str
    """As graphs call it, e.g. `"bfloat16"`."""


@dataclass(frozen=True, slots=True)
class Unmade:
    """A result of a call that has no equal: what reads it has none either."""

    name: str


Argument: TypeAlias = (
    Tensor | Unmade | ElementType | tuple["Argument", ...] | str | int | float | bool | None
)
"""An argument with sizes bound and values looked up."""


@dataclass(slots=True)
class Call(Operators[Tensor]):
    """A call in the program, and the ONNX nodes that it becomes."""

    writer: Builder
    name: str
    target: str
    """What is called, as the program has it: `"aten.add.Tensor"`."""
    scope: str
    """Path of the module, e.g. `"model.layers.0.mlp"`."""
    arguments: Mapping[str, Argument]
    """By the names of the operator's schema."""
    results: tuple[Tensor | None, ...]
    """What the tracer noted of the results; None for what is no tensor."""
    used: frozenset[Int]
    """Results that somebody reads."""
    where: str = ""
    again: str = "export the program again"
    """Where the call stands and what mends it, for messages; the first by its name unless told."""
    known: Mapping[str, Argument] = field(default_factory=dict)
    """Numbers of small constant tensors, by their names: a shape may be one."""
    made: dict[Int, Tensor] = field(default_factory=dict)
    """Tensors that hold the results."""
    _steps: Int = 0

    def get(self, name: str, default: Argument = None) -> Argument:
        """An argument, or the numbers of a constant in its place; the default where it is None."""
        value = self.arguments.get(name)
        return default if value is None else self.known.get(getattr(value, "name", ""), value)

    def has(self, name: str) -> bool:
        return self.arguments.get(name) is not None

    def tensor(self, name: str) -> Tensor:
        """A tensor argument.

        Raises:
            ModelError: it is something else.
        """
        value = self.arguments.get(name)
        if isinstance(value, Unmade):
            raise UnsupportedError(value.name)
        if not isinstance(value, Tensor):
            raise self.fault(f"its argument {name!r} is no tensor")
        return value

    def optional(self, name: str) -> Tensor | None:
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Tensor | None]:
        """A list of tensors, some of which may be absent."""
        value = self.arguments.get(name)
        missing = [v for v in value if isinstance(v, Unmade)] if isinstance(value, tuple) else []
        if missing:
            raise UnsupportedError(missing[0].name)
        if not isinstance(value, tuple) or not all(
            v is None or isinstance(v, Tensor) for v in value
        ):
            raise self.fault(f"its argument {name!r} is no list of tensors")
        return [v if isinstance(v, Tensor) else None for v in value]

    def int(self, name: str, default: Int | None = None) -> Int:
        """A number, or a tuple of one."""
        value = self.get(name, default)
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, int):
            raise self.fault(f"its argument {name!r} is no integer")
        return int(value)

    def float(self, name: str, default: float) -> float:
        value = self.get(name, default)
        if not isinstance(value, int | float):
            raise self.fault(f"its argument {name!r} is no number")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        return bool(self.get(name, default))

    def ints(self, name: str, default: Sequence[Int] = ()) -> tuple[Int, ...]:
        """A list of integers; one alone is a list too."""
        value = self.get(name, tuple(default))
        if isinstance(value, int):
            return (int(value),)
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise self.fault(f"its argument {name!r} is no list of integers")
        return tuple(int(v) for v in value if isinstance(v, int))

    def text(self, name: str, default: str) -> str:
        return str(self.get(name, default))

    def axis(self, name: str, rank: Int, default: Int | None = None) -> Int:
        """A dimension, counted from the front."""
        return self.normal(self.int(name, default), rank)

    def normal(self, axis: Int, rank: Int) -> Int:
        """A dimension counted from the front.

        Raises:
            ModelError: a tensor of this rank does not have it.
        """
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise self.fault(f"dimension {axis} of a tensor with {rank}")
        return axis + max(rank, 1) if axis < 0 else axis

    @property
    def result(self) -> Tensor:
        """The first result, as the tracer noted it."""
        first = next((r for r in self.results if r is not None), None)
        if first is None:
            raise self.fault("it makes no tensor")
        return first

    def is_read(self, index: Int) -> bool:
        """Whether somebody reads this result."""
        return index in self.used and self.results[index] is not None

    def fault(self, what: str) -> ModelError:
        return ModelError(
            f"the call does not fit its operator: {what}",
            f"{self.target}, {self.where}" if self.where else f"{self.target} {self.name!r}",
            self.again,
        )

    def alias(self, tensor: Tensor, index: Int = 0) -> None:
        """Let a result be a tensor that exists."""
        self.made[index] = tensor

    def emit(
        self, kind: str, inputs: Sequence[Tensor | None], *, count: Int = 0, **attributes: Attribute
    ) -> None:
        """A node that makes the results, the first `count` of them if told."""
        made = self._add(kind, inputs, self.results[: count or len(self.results)], attributes)
        self.made.update({i: t for i, t in enumerate(made) if t is not None})

    def emit_as(
        self, dtype: str, kind: str, inputs: Sequence[Tensor | None], **attributes: Attribute
    ) -> None:
        """As `emit`, of an operator that makes this type; a cast follows if need be."""
        if self.result.dtype == dtype:
            self.emit(kind, inputs, count=0, **attributes)
        else:
            self.finish(self.op(kind, inputs, self.result.dims, dtype, **attributes))

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        dims: Sequence[Int] | None = None,
        dtype: str = "",
        **attributes: Attribute,
    ) -> Tensor:
        """A node on the way, with one result like the first operand unless told."""
        like = next(t for t in inputs if t is not None)
        own = like.dims if dims is None else tuple(dims)
        wanted = Tensor(f"{self.name}/{self._steps}", own, dtype or like.dtype)
        (made,) = self._add(kind, inputs, [wanted], attributes)
        return made or wanted

    def _add(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        attributes: Mapping[str, Attribute],
    ) -> Sequence[Tensor | None]:
        name = f"{self.name}/{kind}_{self._steps}" if self._steps else self.name
        self._steps += 1
        return self.writer.add(kind, inputs, outputs, name=name, scope=self.scope, **attributes)

    def write(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        ending: str = "",
        **attributes: Attribute,
    ) -> None:
        """A node named after the call, with these results."""
        name = self.name + ending
        self.writer.add(kind, inputs, outputs, name=name, scope=self.scope, **attributes)

    def scalar(self, value: Argument, dtype: str) -> Tensor:
        """One number as a tensor."""
        if not isinstance(value, int | float):
            raise self.fault(f"{value!r:.60} is no number")
        return self.writer.constant(value, dtype)

    def shape(self, values: Sequence[Int]) -> Tensor:
        """Integers as an operand."""
        return self.writer.constant(list(values) or [], "int64")

    @property
    def answer(self) -> Making:
        """Writes the operator that makes the first result."""
        return Making(self.result, partial(self.emit, count=1), self.shape)

    def dims(self, value: Tensor) -> Dims:
        return value.dims

    def dtype_of(self, value: Tensor) -> str:
        return value.dtype

    def broadcast(self, kind: str, *values: Tensor) -> Dims:
        """As `Operators` says; what does not fit is a fault of the program."""
        try:
            return Operators.broadcast(self, kind, *values)
        except ValueError as error:
            raise self.fault(f"the operands of {kind} have other dims") from error

    def cast_settings(self, dtype: str) -> Mapping[str, Int]:
        return {"to": type_code(dtype)}

    def with_numbers(
        self,
        kind: str,
        value: Tensor,
        dims: Sequence[Int],
        numbers: Mapping[str, Sequence[Int]],
        **told: Attribute,
    ) -> Tensor:
        operands = [value, *(self.shape(each) for each in numbers.values())]
        return self.op(kind, operands, dims, "", **told)

    def operand(self, name: str, dtype: str) -> Tensor:
        """A tensor or a number in an element type."""
        value = self.arguments.get(name)
        if isinstance(value, Unmade):
            raise UnsupportedError(value.name)
        if value is None:
            raise self.fault(f"its argument {name!r} is missing")
        return self.cast(value, dtype) if isinstance(value, Tensor) else self.scalar(value, dtype)

    def finish(self, tensor: Tensor, index: Int = 0) -> None:
        """Let a result be a tensor made here, in the type that the tracer noted."""
        wanted = self.results[index]
        self.alias(tensor if wanted is None else self.cast(tensor, wanted.dtype), index)


Converter: TypeAlias = Callable[[Any], None]
"""What writes a call: a function of a `Call`, or of what a front end makes of one."""


@parametrised
def with_arguments(call: Call, /, convert: Converter, **arguments: Argument) -> None:
    """What writes another operator, of which this one is the case with these arguments."""
    call.arguments = {**call.arguments, **arguments}
    convert(call)


def convert(call: Call, converter: Converter | None, kind: str, own: Mapping[str, str]) -> None:
    """Write the nodes of a call.

    Args:
        call: what is called, with what.
        converter: what writes it; None if no table has it.
        kind: name of the operator that stands for a call that cannot be said in ONNX, to be
            described with `--rule`.
        own: what the tracer calls the arguments, by the names that the converter uses.
    """
    mark = call.writer.mark()
    try:
        if converter is not None:
            converter(call)
            return
    except ModelError:
        raise
    except MISFITS as error:
        raise call.fault("its operands do not fit each other") from error
    except UnsupportedError:
        call.writer.forget(mark)
        call.made.clear()
    attributes: dict[str, Any] = {
        own.get(key, key): value
        for key, value in call.arguments.items()
        if isinstance(value, int | float | str) and key.isidentifier()
    }
    call.emit(kind, list(_tensors(call.arguments.values())), **attributes)


def _tensors(arguments: Iterable[Argument]) -> Iterator[Tensor]:
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, tuple):
            yield from _tensors(argument)
