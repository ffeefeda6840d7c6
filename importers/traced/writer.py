"""ONNX nodes while a program is translated: names, types, constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from ir.graph import Tensor, unused_name

OPSET = 23
"""The first with `Attention` and `RMSNormalization`."""
Attribute: TypeAlias = int | float | str | Sequence[int] | Sequence[float]
_CODES = {"float32": "FLOAT", "float64": "DOUBLE"}


def type_code(dtype: str) -> int:
    """ONNX's number of an element type."""
    return int(onnx.TensorProto.DataType.Value(_CODES.get(dtype, dtype.upper())))


class Builder(Protocol):
    """What the operators of a call are written with."""

    def tensor(self, name: str, dims: tuple[int, ...], dtype: str) -> Tensor:
        """A new tensor under this name, or one like it that nobody has."""

    def constant(self, values: object, dtype: str) -> Tensor:
        """A tensor with these numbers; equal ones are one."""

    def add(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        *,
        name: str,
        scope: str = "",
        domain: str = "",
        **attributes: Attribute,
    ) -> Sequence[Tensor | None]:
        """One operator.

        Args:
            kind: of ONNX.
            inputs: its operands; None for one that is absent.
            outputs: results with their dims and types; those that are not made yet get a name that
                nobody has.
            name: of the operator.
            scope: path of the module.
            domain: of the kind, if it is none of ONNX.
            attributes: of the operator.

        Returns:
            What holds the results.
        """

    def mark(self) -> tuple[int, ...]:
        """A place to go back to."""

    def forget(self, mark: tuple[int, ...]) -> None:
        """Take the operators from a place on away."""


@dataclass(slots=True)
class Writer:
    """A graph under construction."""

    graph: onnx.GraphProto = field(default_factory=onnx.GraphProto)
    known: dict[str, Tensor] = field(default_factory=dict)
    _constants: dict[tuple[object, ...], Tensor] = field(default_factory=dict)

    def tensor(self, name: str, dims: tuple[int, ...], dtype: str) -> Tensor:
        """A new tensor under this name, or one like it that nobody has."""
        made = Tensor(unused_name(name, self.known), dims, dtype)
        self.known[made.name] = made
        return made

    def add(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        *,
        name: str,
        scope: str = "",
        domain: str = "",
        **attributes: Attribute,
    ) -> Sequence[Tensor | None]:
        """One node, and its results."""
        outputs = [
            t if t is None or self.known.get(t.name) is t else self.tensor(t.name, t.dims, t.dtype)
            for t in outputs
        ]
        node = self.graph.node.add(op_type=kind, name=name, domain=domain)
        node.input.extend("" if t is None else t.name for t in inputs)
        node.output.extend("" if t is None else t.name for t in outputs)
        while node.input and not node.input[-1]:
            del node.input[-1]
        for key, value in attributes.items():
            empty = onnx.AttributeProto.INTS if value in ([], ()) else None
            node.attribute.append(onnx.helper.make_attribute(key, value, attr_type=empty))
        if scope:
            node.metadata_props.add(key="namespace", value=f"{scope}/{kind}")
        if domain:
            for tensor in outputs:
                if tensor is not None:
                    self.describe(self.graph.value_info.add(), tensor)
        return outputs

    def mark(self) -> tuple[int, ...]:
        """A place to go back to."""
        return (len(self.graph.node),)

    def forget(self, mark: tuple[int, ...]) -> None:
        """Take the nodes from a place on away."""
        del self.graph.node[mark[0] :]

    def describe(self, value: onnx.ValueInfoProto, tensor: Tensor) -> None:
        """Note dims and type of a tensor."""
        code = type_code(tensor.dtype)
        value.CopyFrom(onnx.helper.make_tensor_value_info(tensor.name, code, tensor.dims))

    def store(self, tensor: Tensor) -> None:
        """Make a tensor a stored one whose numbers are elsewhere."""
        proto = self.graph.initializer.add(
            name=tensor.name, data_type=type_code(tensor.dtype), dims=tensor.dims
        )
        proto.data_location = onnx.TensorProto.EXTERNAL
        proto.external_data.add(key="location", value="weights")

    def constant(self, values: object, dtype: str) -> Tensor:
        """A tensor with these numbers; equal ones are one."""
        numbers = onnx.helper.tensor_dtype_to_np_dtype(type_code(dtype))
        with np.errstate(all="ignore"):
            array = np.asarray(values).astype(numbers)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            made = self.tensor(f"constant_{len(self._constants)}", array.shape, dtype)
            proto = numpy_helper.from_array(array, made.name)
            self.graph.initializer.append(proto)
            self._constants[key] = made
        return self._constants[key]

    def model(self, producer: str) -> onnx.ModelProto:
        """The model with this graph."""
        model = onnx.ModelProto(ir_version=10, producer_name=producer)
        model.opset_import.add(domain="", version=OPSET)
        model.graph.CopyFrom(self.graph)
        return model

    def rename(self, names: dict[str, str]) -> None:
        """Give tensors other names, throughout the graph."""
        for node in self.graph.node:
            for side in (node.input, node.output):
                for position, name in enumerate(side):
                    if name in names:
                        side[position] = names[name]
        for value in self.graph.value_info:
            value.name = names.get(value.name, value.name)
        for old, new in names.items():
            tensor = self.known.pop(old)
            self.known[new] = Tensor(new, tensor.dims, tensor.dtype)
