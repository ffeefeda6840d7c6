"""Operators as ONNX nodes with the shapes of one device, so that ONNX's reference runs them.

The importer brought operators into one form: axes are attributes, shapes are told by results. The
functions here are its inverse, for whatever dims the parts on a device have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import onnx

from ir.graph import AttributeValue, Op

Dims: TypeAlias = tuple[int, ...]
OPSET = 26
RUNS_AS = MappingProxyType(dict.fromkeys(("bfloat16", "float16", "float32"), "float64"))
"""Element types are computed in double precision, so that a wrong split shows."""


@dataclass(slots=True)
class Form:
    """The nodes of one operator while they are written.

    Attributes:
        op: the operator.
        operands: dims of every operand on the device, None where there is none.
        results: dims of every result on the device.
        result_dtypes: element types of the results.
    """

    op: Op
    operands: Sequence[Dims | None]
    results: Sequence[Dims]
    result_dtypes: Sequence[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    count: int = 0

    @property
    def inputs(self) -> list[str]:
        """Name of every operand in the form; "" for an absent one."""
        return [f"in{i}" if n else "" for i, n in enumerate(self.op.inputs)]

    @property
    def outputs(self) -> list[str]:
        return [f"out{i}" if n else "" for i, n in enumerate(self.op.outputs)]

    def dims(self, index: int = 0) -> Dims:
        found = self.operands[index]
        if found is None:
            raise ValueError(f"operator {self.op.name} has no operand {index}")
        return found

    def has(self, index: int) -> bool:
        return index < len(self.op.inputs) and bool(self.op.inputs[index])

    def int(self, key: str, default: int = 0) -> int:
        return int(str(self.op.attributes.get(key, default)))

    def ints(self, key: str, default: Dims = ()) -> Dims:
        value = self.op.attributes.get(key, default)
        return tuple(int(v) for v in value) if isinstance(value, tuple) else (int(str(value)),)

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Name of an operand that is known."""
        name = f"constant{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype=dtype)
        return name

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str] | None = None,
        /,
        **attributes: Any,
    ) -> str:
        """One more node; returns the name of its first output."""
        if outputs is None:
            self.count += 1
            outputs = [f"inner{self.count}"]
        node = onnx.NodeProto(op_type=kind, input=list(inputs), output=list(outputs))
        node.attribute.extend(attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        return outputs[0]

    def same(self, kind: str | None = None, **more: Any) -> None:
        """One node of the operator's own kind, operands, results and attributes."""
        attributes = {**self.op.attributes, **more}
        kept = {k: v for k, v in attributes.items() if k not in OWN_ATTRIBUTES}
        self.add(kind or self.op.kind, self.inputs, self.outputs, **kept)


OWN_ATTRIBUTES = frozenset(
    {
        "to_end",
        "slice_axes",
        "stop_gradient",
        "label",
        "identity_coordinates",
        "index_blocks",
        "training",
        "row",
    }
)
"""Attributes that ONNX does not know."""

Writer = Callable[[Form], None]


def attribute(name: str, value: AttributeValue) -> onnx.AttributeProto:
    """An attribute of a node; an empty list is one of whole numbers."""
    kind = onnx.AttributeProto.INTS if value == () else None
    return onnx.helper.make_attribute(name, value, attr_type=kind)
