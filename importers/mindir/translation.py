"""A MindIR file as an ONNX model: what the importer of ONNX makes a graph of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import onnx

from importers.errors import ModelError
from importers.mindir.flattening import Flat, Group, Primitive, Ref, Value, live
from importers.mindir.program import Opaque, Stored, TensorType
from importers.onnx_checks import check_dims, type_code
from importers.onnx_values import Array
from importers.traced.call import Argument, Call
from importers.traced.operations import FrontEnd, table
from importers.traced.table import Entry, arguments_of
from importers.traced.translation import Translated, Translation
from importers.traced.writer import Step, Writer
from ir.file_primitives import cell_path
from ir.graph import Tensor
from ir.mindspore_forms.foreign_kinds import DOMAIN
from ir.ops.indexing import LOOKUPS
from ir.ops.reduction import PLACES
from ir.ops.shape import MOVES
from ir.wire import Data

MAX_CONSTANT_BYTES = 2**28
"""Constants that are read; a larger one has no numbers."""
_MOST_KNOWN = 64
_STATISTICS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"BatchNorm": (3, 4), "BatchNormExt": (3, 4), "InstanceNorm": (3, 4), "SyncBatchNorm": (3, 4)}
)
"""Operands that keep means and variances, which nobody trains."""


def translated(flat: Flat, data: Data) -> tuple[Translated, Mapping[str, Stored]]:
    """The primitives of a file as an ONNX model, and parameters by the names of their tensors.

    Args:
        flat: the primitives.
        data: the file, for its constants.

    Raises:
        ModelError: a primitive that does not fit its line, or a size that is open.
    """
    work = _Translation(flat, data, again="export the model again")
    work.run()
    return work.finished(), work.stored


@dataclass(slots=True)
class _Translation(Translation):
    flat: Flat
    data: Data
    known: dict[str, Argument] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    left: int = MAX_CONSTANT_BYTES

    def run(self) -> None:
        self.writer.graph.name = self.flat.name
        for value, kind in self.flat.inputs.items():
            tensor = self._declared(value, value.partition(":")[2] or value, kind)
            self.writer.describe(self.writer.graph.input.add(), tensor)
        for value, parameter in self.flat.parameters.items():
            tensor = self._declared(value, parameter.name, parameter.type)
            self.stored[tensor.name] = parameter
            self.writer.store(tensor)
        for step, used in live(self.flat):
            self._step(step, used)

    def _declared(self, value: str, name: str, kind: TensorType) -> Tensor:
        self.values[value] = self.writer.tensor(name, _sizes(kind, name), kind.dtype)
        return self.values[value]

    def _step(self, step: Primitive, used: frozenset[int]) -> None:
        entry = table(FrontEnd.MINDIR).get(step.target)
        results = tuple(
            None if kind is None else self._result(step, index, kind)
            for index, (_, kind) in enumerate(step.results)
        )
        arguments = self._arguments(step, entry)
        call = Call(
            self.writer, step.name, step.target, cell_path(step.name), arguments, results, used,
            known=self.known,
        )  # fmt: skip
        values = [value for value, _ in step.results]
        first = self.write(call, entry, f"{DOMAIN}::{step.target}", values)
        self.writer.steps[first:] = _named(call, self.writer.steps[first:])

    def _result(self, step: Primitive, index: int, kind: TensorType) -> Tensor:
        name = f"{step.name}:{index}" if index else step.name
        return self.writer.tensor(name, _sizes(kind, name), kind.dtype)

    def _arguments(self, step: Primitive, entry: Entry | None) -> Mapping[str, Argument]:
        """By the names that the line's converter uses."""
        given = {key: self._argument(value, step) for key, value in step.attributes.items()}
        operands = [self._argument(value, step) for value in step.inputs]
        if entry is not None and len(operands) > len(entry.names):
            raise ModelError(
                f"{step.target} has {len(operands)} operands, {len(entry.names)} are known",
                step.name,
                "export the model with MindSpore 2.10 or older",
            )
        return arguments_of(entry, operands, given)

    def _argument(self, value: Value, step: Primitive) -> Argument:
        if isinstance(value, Ref):
            return self.held(value.name, step.name)
        if isinstance(value, Group):
            return tuple(self._argument(item, step) for item in value.items)
        if isinstance(value, tuple):
            return tuple(self._argument(item, step) for item in value)
        if isinstance(value, Stored):
            return self._constant(value)
        return None if isinstance(value, Opaque) else value

    def _constant(self, stored: Stored) -> Tensor:
        """A tensor with these numbers; one without them where there are none."""
        numbers = self._numbers(stored)
        if numbers is None:
            dims = _sizes(stored.type, stored.name)
            tensor = self.writer.tensor(stored.name or "constant", dims, stored.type.dtype)
            self.writer.store(tensor)
            return tensor
        made = self.writer.constant(numbers, stored.type.dtype)
        if numbers.size == 1 and numbers.dtype.kind in "iuf":
            self.known[made.name] = numbers.reshape(-1)[0].item()
        elif numbers.size <= _MOST_KNOWN and numbers.dtype.kind in "iu":
            self.known[made.name] = tuple(int(n) for n in numbers.reshape(-1))
        return made

    def _numbers(self, stored: Stored) -> Array | None:
        if stored.numbers is None or stored.numbers.size > self.left:
            return None
        self.left -= stored.numbers.size
        raw = self.data[stored.numbers.start : stored.numbers.end]
        return array_of(raw, stored.type)

    def finished(self) -> Translated:
        self._deliver()
        _without_narrow_places(self.writer)
        note = f"{self.flat.effects} primitives that no result depends on were left out"
        return Translated(
            model=self.writer.model(self.flat.producer),
            trained=self._trained(),
            becomes=self.all_becomes(),
            notes=(note,) if self.flat.effects else (),
            tensors=self.writer.tensors,
        )

    def _deliver(self) -> None:
        """Note the results; one that is an input, or two results at once, is copied."""
        graph, delivered = self.writer.graph, set[str]()
        made = {name for step in self.writer.steps for name in step.outputs}
        for held in self.results([ref.name for ref in self.flat.outputs], self.flat.name):
            if held.name not in made or held.name in delivered:
                result = self.copied(held, f"{held.name}/result", "")
            else:
                result = held
            delivered.add(result.name)
            self.writer.describe(graph.output.add(), result)

    def _trained(self) -> frozenset[str]:
        """Parameters of floating numbers that are no statistics."""
        kept = {
            value.name
            for step in self.flat.steps
            for place in _STATISTICS.get(step.target, ())
            for value in step.inputs[place : place + 1]
            if isinstance(value, Ref)
        }
        return frozenset(
            self.values[value].name
            for value, parameter in self.flat.parameters.items()
            if "float" in parameter.type.dtype and value not in kept
        )


def _named(call: Call, steps: Sequence[Step]) -> list[Step]:
    """The step that makes the result has MindSpore's name, those on the way longer ones."""
    made = {tensor.name for tensor in call.made.values()}
    final = next((s for s in reversed(steps) if made.intersection(s.outputs)), None)
    return [
        replace(
            s, name=call.name if s is final else f"{call.name}/{s.kind.rpartition('::')[2]}_{i}"
        )
        for i, s in enumerate(steps)
    ]


def _sizes(kind: TensorType, name: str) -> tuple[int, ...]:
    if -1 in kind.dims:
        raise ModelError(
            f"dimension {kind.dims.index(-1)} of {name!r} is open",
            f"tensor {name!r}",
            "export the model with tensors of the sizes wanted as inputs",
        )
    check_dims(kind.dims, f"tensor {name!r}")
    return kind.dims


def array_of(raw: bytes, kind: TensorType) -> Array:
    """Numbers in the order of MindSpore: rows, little-endian."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(type_code(kind.dtype))
    return np.frombuffer(raw, dtype=dtype).reshape(kind.dims)


_MAKERS = frozenset({"TopK", *PLACES})
_CARRIERS = MOVES - {"Cast"}
_LOOKUPS = frozenset({*((kind, 1) for kind in LOOKUPS), ("OneHot", 0)})


def _without_narrow_places(writer: Writer) -> None:
    """Take casts between places of 32 bits and of 64 out of steps in order.

    MindSpore counts places in 32 bits, `TopK` and `ArgMax` of ONNX in 64. Where the places only say
    what to look up, they stay so, as they do in the same network from elsewhere.
    """
    only = _only_looked_up(writer.steps, {output.name for output in writer.graph.output})
    places = {n: _places(step) for step in writer.steps for n in step.outputs}
    renamed: dict[str, str] = {}
    kept: list[Step] = []
    for step in writer.steps:
        source = step.inputs[0] if step.kind == "Cast" else ""
        if source and step.outputs[0] in only and source == places.get(source):
            renamed[step.outputs[0]] = source
        else:
            kept.append(replace(step, inputs=tuple(renamed.get(n, n) for n in step.inputs)))
    writer.steps[:] = kept


def _places(step: Step) -> str:
    """The result that holds places."""
    if step.kind not in _MAKERS:
        return ""
    return step.outputs[-1 if step.kind == "TopK" else 0]


def _only_looked_up(steps: Sequence[Step], delivered: set[str]) -> set[str]:
    """Tensors that are indices of a look-up, or become such, and nothing else."""
    used_otherwise = set(delivered)
    for step in reversed(steps):
        carries = step.kind in _CARRIERS and step.outputs[0] not in used_otherwise
        for place, name in enumerate(step.inputs):
            if not (carries and place == 0) and (step.kind, place) not in _LOOKUPS:
                used_otherwise.add(name)
    return {name for step in steps for name in step.outputs} - used_otherwise
