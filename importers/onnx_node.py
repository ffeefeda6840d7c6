"""One ONNX node with what is known of its tensors: what converters ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import onnx

from importers.errors import ModelError
from importers.onnx_checks import describe
from importers.onnx_facts import STANDARD_DOMAINS, TensorFacts, reads_of
from importers.onnx_values import attributes_of
from ir.graph import AttributeValue, Op

_KEPT = (
    "perm", "group", "kernel_shape", "strides", "pads", "dilations", "auto_pad", "batch_dims",
    "equation", "epsilon", "size", "q_num_heads", "kv_num_heads", "is_causal", "reduction", "alpha",
    "beta", "largest", "num_groups", "num_heads", "approximate", "exclusive", "reverse", "mode",
)  # fmt: skip
ADOPTED: Mapping[str, frozenset[str]] = MappingProxyType(
    {"com.microsoft": frozenset({"Gelu", "FastGelu", "QuickGelu", "BiasGelu"})}
)
"""Operators of other domains that mean what the catalogue's entry of that name means."""

Int: TypeAlias = int
"""`int` where a method of that name hides it."""
Float: TypeAlias = float


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One node and what is known of its tensors."""

    node: onnx.NodeProto
    attributes: Mapping[str, object]
    facts: TensorFacts
    name: str
    scope: str
    opset: int

    @property
    def is_standard(self) -> bool:
        """Whether the node is one of ONNX's own operators."""
        return self.node.domain in STANDARD_DOMAINS

    @property
    def kind(self) -> str:
        """Kind in the catalogue; that of a foreign operator names its domain."""
        return kind_of(self.node)

    def dims(self, index: Int = 0) -> tuple[Int, ...]:
        """Dims of operand `index`."""
        return self.facts.dims[self.node.input[index]]

    def result(self) -> tuple[Int, ...]:
        return self.facts.dims[self.node.output[0]]

    def has(self, index: Int) -> bool:
        return index < len(self.node.input) and bool(self.node.input[index])

    def operand_ints(self, index: Int) -> tuple[Int, ...] | None:
        """Numbers of a constant integer operand; None if it is absent or not constant."""
        value = self.facts.value.get(self.node.input[index]) if self.has(index) else None
        return None if value is None else tuple(int(v) for v in np.atleast_1d(value).reshape(-1))

    def attribute_ints(self, key: str) -> tuple[Int, ...] | None:
        value = self.attributes.get(key)
        if isinstance(value, int):
            return (value,)
        return tuple(int(v) for v in value) if isinstance(value, list | tuple) else None

    def setting(self, index: Int, key: str) -> tuple[Int, ...] | None:
        """Integers that an operand holds in newer opsets and an attribute in older ones.

        Raises:
            ModelError: they are computed while the model runs.
        """
        if not self.has(index):
            return self.attribute_ints(key)
        value = self.operand_ints(index)
        if value is None:
            raise ModelError(
                f"the {key} of the node are computed while the model runs",
                describe(self.node),
                f"export the model with constant {key}",
            )
        return value

    def int(self, key: str, default: Int) -> Int:
        value = self.attributes.get(key, default)
        return value if isinstance(value, int) else default

    def float(self, key: str, default: Float = 0.0) -> Float:
        value = self.attributes.get(key, default)
        return float(value) if isinstance(value, Int | Float) else default

    def axis(self, default: Int) -> Int:
        """The attribute `axis`, counted from the front."""
        return self.normal([self.int("axis", default)], len(self.dims()))[0]

    def normal(self, axes: Iterable[Int], rank: Int) -> list[Int]:
        """Axes counted from the front.

        Raises:
            ModelError: a tensor of this rank does not have the axis.
        """
        found = list(axes)
        for axis in found:
            if not -rank <= axis < max(rank, 1):
                raise ModelError(
                    f"axis {axis} of a tensor with {rank} dimensions",
                    describe(self.node),
                    "export the model again",
                )
        return [a + rank if a < 0 else a for a in found]

    def kept(self, *keys: str) -> dict[str, AttributeValue]:
        """Those of these attributes that the node has, as far as they are numbers or texts."""
        found: dict[str, AttributeValue] = {}
        for key in keys:
            value = self.attributes.get(key)
            if isinstance(value, int | float | str):
                found[key] = value
            elif isinstance(value, list | tuple) and _are_simple(value):
                found[key] = tuple(value)
        return found

    def plain(self) -> dict[str, AttributeValue]:
        """Attributes that rules and counts read."""
        return self.kept(*_KEPT)

    def op(
        self, kind: str, inputs: Sequence[str], attributes: dict[str, AttributeValue] | None = None
    ) -> Op:
        """An operator with the results of the node."""
        outputs = tuple(self.node.output)
        return Op(self.name, kind, tuple(inputs), outputs, attributes or {}, self.scope)

    def passed(self) -> list[Op]:
        """The first operand as it is."""
        return [self.op("Identity", self.node.input[:1])]

    def same(self, operands: Int | None = None, **attributes: AttributeValue) -> list[Op]:
        """The node as one operator of its own kind.

        Args:
            operands: how many of its operands count; all by default, with those of sub-graphs.
            attributes: in addition to the plain ones.
        """
        inputs = self.node.input[:operands] if operands is not None else self._inputs()
        return [self.op(self.kind, inputs, {**self.plain(), **attributes})]

    def _inputs(self) -> list[str]:
        captured = reads_of(self.node)[sum(1 for n in self.node.input if n) :]
        return [*self.node.input, *captured]

    def new_tensor(self, suffix: str, dims: tuple[Int, ...] | None = None) -> str:
        """A tensor like the first result unless told its dims, under a name that nobody has."""
        facts, result = self.facts, self.node.output[0]
        name = result + suffix
        while name in facts.dims:
            name += "'"
        facts.learn(name, facts.dims[result] if dims is None else dims, facts.code[result])
        return name


Converter: TypeAlias = Callable[[NodeContext], list[Op]]
"""What makes operators of a node."""


def kind_of(node: onnx.NodeProto) -> str:
    """Kind of a node in the graph; that of a foreign operator names its domain."""
    adopted = node.op_type in ADOPTED.get(node.domain, ())
    plain = node.domain in STANDARD_DOMAINS or adopted
    return str(node.op_type) if plain else f"{node.domain}::{node.op_type}"


def _are_simple(values: Sequence[object]) -> bool:
    return bool(values) and all(isinstance(v, int | float | str) for v in values)


def node_context(node: onnx.NodeProto, index: int, facts: TensorFacts, opset: int) -> NodeContext:
    """Context of a node; the scope is the exporter's module path without class names."""
    namespace = next((p.value for p in node.metadata_props if p.key == "namespace"), "")
    steps = [part.split(":")[0].strip() for part in namespace.split("/")]
    scope = next((s for s in reversed(steps[:-1]) if s), "") if len(steps) > 1 else ""
    name = node.name or f"{node.op_type}_{index}"
    return NodeContext(node, attributes_of(node), facts, name, scope, opset)


def name_results(node: onnx.NodeProto, facts: TensorFacts) -> None:
    """Give the absent results in front of a present one names, so that dims are known of all."""
    last = max(i for i, n in enumerate(node.output) if n)
    for position, name in enumerate(node.output[:last]):
        if not name:
            fresh = f"{node.output[last]}/unused{position}"
            while fresh in facts.dims:
                fresh += "'"
            node.output[position] = fresh
