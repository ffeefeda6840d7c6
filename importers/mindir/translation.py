"""A MindIR file as an ONNX model: what the importer of ONNX makes a graph of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import onnx

from importers.errors import ModelError
from importers.mindir.calls import MindCall
from importers.mindir.flattening import Flat, Group, Ref, Step, Value, live
from importers.mindir.indices import without_narrow_places
from importers.mindir.program import Opaque, Stored, TensorType
from importers.mindir.scopes import cell_path
from importers.mindir.table import Entry, table
from importers.onnx_checks import check_dims
from importers.onnx_values import Array
from importers.onnx_writer import OPSET, Writer, type_code
from importers.torch_export.call import Argument, Unmade, convert
from importers.torch_export.program import Node
from ir.graph import Tensor
from ir.wire import Data

DOMAIN = "mindspore"
"""Of a primitive that no line has: its kind is `mindspore::Name`."""
MAX_CONSTANT_BYTES = 2**28
"""Constants that are read; a larger one has no numbers."""
_MOST_KNOWN = 64
_STATISTICS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"BatchNorm": (3, 4), "BatchNormExt": (3, 4), "InstanceNorm": (3, 4), "SyncBatchNorm": (3, 4)}
)
"""Operands that keep means and variances, which nobody trains."""


@dataclass(frozen=True, slots=True)
class Translated:
    """An ONNX model, and what ONNX cannot say of it."""

    model: onnx.ModelProto
    trained: frozenset[str]
    tensors: Mapping[str, Tensor]
    """As the file notes them."""
    stored: Mapping[str, Stored]
    """Parameters by the names of their tensors."""
    notes: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]]
    """Operators of ONNX that each primitive became."""


def translated(flat: Flat, data: Data) -> Translated:
    """The primitives of a file as an ONNX model.

    Args:
        flat: the primitives.
        data: the file, for its constants.

    Raises:
        ModelError: a primitive that does not fit its line, or a size that is open.
    """
    work = _Translation(flat, data)
    work.run()
    return work.finished()


@dataclass(slots=True)
class _Translation:
    flat: Flat
    data: Data
    writer: Writer = field(default_factory=Writer)
    values: dict[str, Tensor] = field(default_factory=dict)
    unmade: set[str] = field(default_factory=set)
    known: dict[str, Argument] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    kinds: dict[str, dict[str, None]] = field(default_factory=dict)
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

    def _step(self, step: Step, used: frozenset[int]) -> None:
        entry = table().get(step.target)
        results = tuple(
            None if kind is None else self._result(step, index, kind)
            for index, (_, kind) in enumerate(step.results)
        )
        node = Node(step.name, step.target, (), {}, (), cell_path(step.name))
        arguments = MappingProxyType(self._arguments(step, entry))
        call = MindCall(self.writer, node, arguments, results, used, known=self.known)
        first = len(self.writer.graph.node)
        convert(call, None if entry is None else entry.convert, f"{DOMAIN}::{step.target}")
        self._name_nodes(step, first, call)
        for index, (value, _) in enumerate(step.results):
            if index in call.made:
                self.values[value] = call.made[index]
            else:
                self.unmade.add(value)

    def _result(self, step: Step, index: int, kind: TensorType) -> Tensor:
        name = f"{step.name}:{index}" if index else step.name
        return self.writer.tensor(name, _sizes(kind, name), kind.dtype)

    def _name_nodes(self, step: Step, first: int, call: MindCall) -> None:
        """The node that makes the result has MindSpore's name, those on the way longer ones."""
        made = {tensor.name for tensor in call.made.values()}
        nodes = self.writer.graph.node[first:]
        final = next((n for n in reversed(nodes) if made.intersection(n.output)), None)
        for index, node in enumerate(nodes):
            node.name = step.name if node is final else f"{step.name}/{node.op_type}_{index}"
        self.kinds.setdefault(step.target, {}).update(dict.fromkeys(n.op_type for n in nodes))

    def _arguments(self, step: Step, entry: Entry | None) -> dict[str, Argument]:
        """By the names that the line's converter uses."""
        given = {key: self._argument(value, step) for key, value in step.attributes.items()}
        operands = [self._argument(value, step) for value in step.inputs]
        if entry is None:
            return {f"#{i}": value for i, value in enumerate(operands)} | given
        if len(operands) > len(entry.parameters):
            raise ModelError(
                f"{step.target} has {len(operands)} operands, {len(entry.parameters)} are known",
                step.name,
                "export the model with MindSpore 2.10 or older",
            )
        bound = {entry.names.get(key, key): value for key, value in given.items()}
        named = (entry.names[key] for key in entry.parameters)
        return bound | dict(zip(named, operands, strict=False))

    def _argument(self, value: Value, step: Step) -> Argument:
        if isinstance(value, Ref):
            if value.name in self.unmade:
                return Unmade(value.name)
            if value.name not in self.values:
                raise ModelError(
                    f"{value.name!r} is read before it is made", step.name, "export the model again"
                )
            return self.values[value.name]
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
        model = onnx.ModelProto(ir_version=10, producer_name=self.flat.producer)
        model.opset_import.add(domain="", version=OPSET)
        without_narrow_places(self.writer.graph)
        model.graph.CopyFrom(self.writer.graph)
        return Translated(
            model=model,
            trained=self._trained(),
            tensors=self.writer.known,
            stored=self.stored,
            notes=tuple(self._notes()),
            kinds={target: tuple(found) for target, found in self.kinds.items()},
        )

    def _deliver(self) -> None:
        """Note the results; one that is an input, or two results at once, is copied."""
        graph, delivered = self.writer.graph, set[str]()
        made = {name for node in graph.node for name in node.output}
        for ref in self.flat.outputs:
            held = self.values.get(ref.name)
            if held is None:
                raise ModelError(
                    f"the result {ref.name!r} is made by no node",
                    self.flat.name,
                    "export the model again",
                )
            if held.name not in made or held.name in delivered:
                copy = self.writer.tensor(f"{held.name}/result", held.dims, held.dtype)
                self.writer.add("Identity", [held], [copy], name=copy.name)
                held = copy
            delivered.add(held.name)
            self.writer.describe(graph.output.add(), held)

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

    def _notes(self) -> Sequence[str]:
        if not self.flat.effects:
            return ()
        return (f"{self.flat.effects} primitives that no result depends on were left out",)


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
