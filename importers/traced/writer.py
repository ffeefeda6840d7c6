"""A program while it is translated: steps over a table of tensors, which become an ONNX model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from importers.onnx_checks import type_code
from ir.graph import Tensor, unused_name

OPSET = 23
"""The first with `Attention` and `RMSNormalization`."""
Attribute: TypeAlias = int | float | str | Sequence[int] | Sequence[float]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator."""

    name: str
    kind: str
    """Of ONNX, or with its domain in front: `"mindspore::Twist"`."""
    inputs: tuple[str, ...]
    """`""` is an absent operand."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    scope: str = ""


@dataclass(slots=True)
class Builder(ABC):
    """Steps in order over a table of tensors."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def tensor(self, name: str, dims: tuple[int, ...], dtype: str) -> Tensor:
        """A new tensor under this name, or one like it that nobody has."""
        made = Tensor(unused_name(name, self.tensors), dims, dtype)
        self.tensors[made.name] = made
        return made

    @abstractmethod
    def constant(self, values: object, dtype: str) -> Tensor:
        """A tensor with these numbers; equal ones are one."""

    @abstractmethod
    def add(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        *,
        name: str,
        scope: str = "",
        **attributes: Attribute,
    ) -> Sequence[Tensor | None]:
        """One operator.

        Args:
            kind: of ONNX, or with its domain in front.
            inputs: its operands; None for one that is absent.
            outputs: results with their dims and types; those that are not made yet get a name that
                nobody has.
            name: of the operator.
            scope: path of the module.
            attributes: of the operator.

        Returns:
            What holds the results.
        """

    def mark(self) -> tuple[int, ...]:
        """A place to go back to."""
        return (len(self.steps),)

    def forget(self, mark: tuple[int, ...]) -> None:
        """Take the steps from a place on away."""
        del self.steps[mark[0] :]


@dataclass(slots=True)
class Writer(Builder):
    """Steps as they are told, and the model that they are."""

    graph: onnx.GraphProto = field(default_factory=onnx.GraphProto)
    """All but the nodes."""
    _constants: dict[tuple[object, ...], Tensor] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        *,
        name: str,
        scope: str = "",
        **attributes: Attribute,
    ) -> Sequence[Tensor | None]:
        """As `Builder` says."""
        made = [
            t
            if t is None or self.tensors.get(t.name) is t
            else self.tensor(t.name, t.dims, t.dtype)
            for t in outputs
        ]
        operands = ["" if t is None else t.name for t in inputs]
        while operands and not operands[-1]:
            operands.pop()
        results = tuple("" if t is None else t.name for t in made)
        self.steps.append(Step(name, kind, tuple(operands), results, attributes, scope))
        if "::" in kind:
            for tensor in filter(None, made):
                self.describe(self.graph.value_info.add(), tensor)
        return made

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
        """The model with these steps."""
        model = onnx.ModelProto(ir_version=10, producer_name=producer)
        model.opset_import.add(domain="", version=OPSET)
        model.graph.CopyFrom(self.graph)
        for step in self.steps:
            domain, _, kind = step.kind.rpartition("::")
            node = model.graph.node.add(op_type=kind, name=step.name, domain=domain)
            node.input.extend(step.inputs)
            node.output.extend(step.outputs)
            for key, value in step.attributes.items():
                empty = onnx.AttributeProto.INTS if value in ([], ()) else None
                node.attribute.append(onnx.helper.make_attribute(key, value, attr_type=empty))
            if step.scope:
                node.metadata_props.add(key="namespace", value=f"{step.scope}/{kind}")
        return model

    def rename(self, names: Mapping[str, str]) -> None:
        """Give tensors other names, throughout the graph."""
        for index, step in enumerate(self.steps):
            inputs, outputs = (
                tuple(names.get(n, n) for n in side) for side in (step.inputs, step.outputs)
            )
            self.steps[index] = replace(step, inputs=inputs, outputs=outputs)
        for value in self.graph.value_info:
            value.name = names.get(value.name, value.name)
        for old, new in names.items():
            self.tensors[new] = replace(self.tensors.pop(old), name=new)
