"""A traced program as an ONNX model, and the graph that the importer of ONNX makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from importers.errors import ModelError
from importers.onnx import import_model
from importers.traced.call import Call, Unmade, convert
from importers.traced.table import Entry
from importers.traced.writer import Writer
from ir.graph import OpGraph, Role, Tensor

MAX_BYTES = 2**28
"""A larger array is not read."""
MAX_TOTAL_BYTES = 2**30
"""Nor are those that come after so much."""


@dataclass(frozen=True, slots=True)
class Translated:
    """An ONNX model, and what ONNX cannot say of it."""

    model: onnx.ModelProto
    trained: frozenset[str]
    """Stored tensors that are parameters."""
    becomes: Mapping[str, tuple[str, ...]]
    """Operators of ONNX by the operation that they come from."""
    notes: tuple[str, ...] = ()
    gradients: Mapping[str, str] | None = None
    """Parameter to the output that holds its gradient; None where only names may tell it."""
    state: frozenset[str] = frozenset()
    """Inputs that the program keeps from step to step: neither given nor constant."""
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    """As the tracer noted them."""

    def graph(self, name: str, again: str) -> OpGraph:
        """The operator graph.

        Args:
            name: what it is called.
            again: what mends a program whose operators make other sizes than it notes.

        Raises:
            ModelError: it cannot be planned from.
        """
        graph = import_model(self.model, name, {}, self.trained)
        self._check_sizes(graph, again)
        notes, gradients = [*graph.notes, *self.notes], graph.gradients
        if self.gradients is not None:
            made = self.gradients.items()
            gradients = {p: g for p, g in made if g in graph.outputs and p in graph.tensors}
        if gradients and not graph.gradients:
            count = len(gradients)
            notes.append(f"a traced training step: {count} gradients are outputs of the graph")
        tensors = {
            n: replace(t, role=Role.BUFFER) if n in self.state else t
            for n, t in graph.tensors.items()
        }
        inputs = tuple(n for n in graph.inputs if n not in self.state)
        graph = replace(
            graph, tensors=tensors, inputs=inputs, gradients=gradients, notes=tuple(notes)
        )
        return graph.with_ops(graph.ops)

    def _check_sizes(self, graph: OpGraph, again: str) -> None:
        """What the operators make must be what the tracer noted."""
        for name, tensor in graph.tensors.items():
            noted = self.tensors.get(name)
            if noted is not None and noted.dims != tensor.dims:
                raise ModelError(
                    f"the file says that {name!r} is {list(noted.dims)}, "
                    f"its operator makes {list(tensor.dims)}",
                    f"tensor {name!r}",
                    again,
                )


@dataclass(slots=True, kw_only=True)
class Translation:
    """Calls of a program while they become nodes."""

    again: str
    """How the program is written anew."""
    writer: Writer = field(default_factory=Writer)
    values: dict[str, Tensor] = field(default_factory=dict)
    """What holds each value of the program at this place of it."""
    unmade: set[str] = field(default_factory=set)
    """Results that operators of the catalogue do not have."""
    becomes: dict[str, dict[str, None]] = field(default_factory=dict)

    def held(self, value: str, where: str) -> Tensor | Unmade:
        """What holds a value that is read.

        Raises:
            ModelError: nothing made it before.
        """
        if value in self.unmade:
            return Unmade(value)
        if value not in self.values:
            raise ModelError(f"{value!r} is read before it is made", where, self.again)
        return self.values[value]

    def write(self, call: Call, entry: Entry | None, kind: str, values: Sequence[str]) -> int:
        """Write the steps of a call, and note what holds its results.

        Args:
            call: what is called, with what.
            entry: its line in the table; None if it has none.
            kind: name of the operator that stands for it where it has no equal.
            values: its results in the program, `""` for what is no tensor.

        Returns:
            Where the steps begin.
        """
        first = len(self.writer.steps)
        own = {} if entry is None else {used: told for told, used in entry.names.items()}
        convert(call, entry.convert if entry else None, kind, own)
        kinds = (step.kind.rpartition("::")[2] for step in self.writer.steps[first:])
        self.becomes.setdefault(call.target, {}).update(dict.fromkeys(kinds))
        for index, value in enumerate(values):
            if value and index in call.made:
                self.values[value] = call.made[index]
            elif value:
                self.unmade.add(value)
        return first

    def copied(self, held: Tensor, name: str, step: str) -> Tensor:
        """A result of its own for what is an input, or another result too."""
        made = self.writer.tensor(name, held.dims, held.dtype)
        self.writer.add("Identity", [held], [made], name=made.name + step)
        return made

    def results(self, values: Sequence[str], where: str) -> Iterator[Tensor]:
        """What holds the results of the program.

        Raises:
            ModelError: nothing makes one.
        """
        for value in values:
            if value not in self.values:
                raise ModelError(f"the result {value!r} is made by no node", where, self.again)
            yield self.values[value]

    def all_becomes(self) -> dict[str, tuple[str, ...]]:
        """Operators of ONNX that the calls of each target became."""
        return {target: tuple(found) for target, found in self.becomes.items()}


def with_numbers(
    model: onnx.ModelProto, numbers_of: Callable[[onnx.TensorProto], bytes | None]
) -> onnx.ModelProto:
    """The model with the numbers of its stored tensors.

    Args:
        model: as translated.
        numbers_of: bytes of a tensor as ONNX has them; None where they are not at hand.
    """
    filled, left = onnx.ModelProto(), MAX_TOTAL_BYTES
    filled.CopyFrom(model)
    for proto in filled.graph.initializer:
        raw = numbers_of(proto) if proto.external_data else None
        if raw is None:
            continue
        left -= len(raw)
        if left < 0:
            break
        del proto.external_data[:]
        proto.data_location = onnx.TensorProto.DEFAULT
        proto.raw_data = raw
    return filled
