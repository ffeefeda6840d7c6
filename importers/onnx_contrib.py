"""Fused normalisations of ONNX Runtime (domain `com.microsoft`) as the operators that they fuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from importers.onnx_attention import MICROSOFT_ATTENTION
from importers.onnx_experts import MICROSOFT_EXPERTS
from importers.onnx_node import NodeContext
from importers.onnx_products import MICROSOFT_PRODUCTS
from importers.onnx_statistics import Converter
from ir.graph import AttributeValue, Op

_EPSILON = 1e-12
"""Source: ONNX Runtime, docs/ContribOperators.md, SkipLayerNormalization."""


class _Writer:
    """Operators of one node while they are written."""

    def __init__(self, context: NodeContext) -> None:
        self.context, self.ops = context, list[Op]()

    def operand(self, index: int) -> str:
        """Name of an operand, "" where there is none."""
        return str(self.context.node.input[index]) if self.context.has(index) else ""

    def output(self, index: int) -> str:
        """Name of a result, "" where nobody wants it."""
        names = self.context.node.output
        return str(names[index]) if index < len(names) else ""

    def tensor(self, suffix: str, dims: tuple[int, ...] | None = None) -> str:
        """A new tensor with the dims of the first result unless told."""
        name = self.context.new_tensor(suffix)
        if dims is not None:
            facts = self.context.facts
            facts.learn(name, dims, facts.code[name])
        return name

    def add(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: AttributeValue
    ) -> str:
        """One more operator; returns its first result."""
        name = self.context.name if not self.ops else f"{self.context.name}/{len(self.ops)}"
        scope = self.context.scope
        self.ops.append(Op(name, kind, tuple(inputs), tuple(outputs), attributes, scope))
        return outputs[0]

    def total(self, terms: Sequence[str], result: str) -> str:
        """The sum of several tensors."""
        found = terms[0]
        for index, term in enumerate(terms[1:], 1):
            last = index == len(terms) - 1
            out = result if last and result else self.tensor(f"/sum{index}")
            found = self.add("Add", [found, term], [out])
        return found

    def float(self, key: str, default: float) -> float:
        value = self.context.attributes.get(key, default)
        return float(value) if isinstance(value, int | float) else default


def _trimmed(names: Sequence[str]) -> list[str]:
    """Names without the absent ones at the end."""
    out = list(names)
    while out and not out[-1]:
        out.pop()
    return out


def _skip_layer_norm(context: NodeContext) -> list[Op]:
    """Results: the normal form, mean, inverse deviation, and what was normalised."""
    writer = _Writer(context)
    simple = context.node.op_type == "SkipSimplifiedLayerNormalization"
    bias = writer.operand(3 if simple else 4)
    terms = [writer.operand(0), writer.operand(1), *([bias] if bias else [])]
    total = writer.total(terms, writer.output(3))
    first, mean, inverse = (writer.output(i) for i in range(3))
    _norm(writer, total, [writer.operand(2), "" if simple else writer.operand(3)],
          [first, inverse] if simple else [first, mean, inverse], simple=simple)  # fmt: skip
    return writer.ops


def _norm(
    writer: _Writer, data: str, vectors: Sequence[str], outputs: Sequence[str], *, simple: bool
) -> None:
    kind = "RMSNormalization" if simple else "LayerNormalization"
    axis = len(writer.context.result()) - 1
    epsilon = writer.float("epsilon", _EPSILON)
    inputs = _trimmed([data, *vectors])
    writer.add(kind, inputs, _trimmed(outputs), axis=axis, epsilon=epsilon)


def _embed_layer_norm(context: NodeContext) -> list[Op]:
    """Words, positions and segments looked up, added and normalised."""
    writer = _Writer(context)
    ids, segments, words, places, segment_table, scale, bias, mask, numbers = (
        writer.operand(i) for i in range(9)
    )
    rows = context.dims()[1]
    terms = [writer.add("Gather", [words, ids], [writer.tensor("/words")], axis=0)]
    if numbers:
        terms.append(writer.add("Gather", [places, numbers], [writer.tensor("/places")], axis=0))
    elif context.dims(3)[0] == rows:
        terms.append(places)
    else:
        first = writer.tensor("/places", (rows, context.dims(3)[1]))
        cut: dict[str, AttributeValue] = {"axes": (0,), "slice_axes": (0,), "steps": (1,)}
        terms.append(writer.add("Slice", [places], [first], starts=(0,), ends=(rows,), **cut))
    if segments and segment_table:
        found = writer.tensor("/segments")
        terms.append(writer.add("Gather", [segment_table, segments], [found], axis=0))
    total = writer.total(terms, writer.output(2))
    _norm(writer, total, [scale, bias], [writer.output(0)], simple=False)
    if mask and writer.output(1):
        writer.add("ReduceSum", [mask], [writer.output(1)], axes=(1,))
    return writer.ops


def _bias_softmax(context: NodeContext) -> list[Op]:
    """All dimensions from `axis` on are one."""
    writer = _Writer(context)
    total = writer.total([writer.operand(0), writer.operand(1)], "")
    axis = context.axis(1)
    ends = {"to_end": 1} if any(d > 1 for d in context.dims()[axis + 1 :]) else {}
    writer.add("Softmax", [total], [writer.output(0)], axis=axis, **ends)
    return writer.ops


def _group_norm(context: NodeContext) -> list[Op]:
    """Channels are last unless told; a skip and a bias may come before, a SiLU after."""
    writer = _Writer(context)
    dims = context.dims()
    last = bool(context.int("channels_last", 1))
    data = writer.operand(0)
    if context.node.op_type == "SkipGroupNorm":
        data = _with_skip(writer, channels_last=last)
    front = (dims[0], dims[-1], *dims[1:-1]) if last else dims
    to_front, to_back = (0, len(dims) - 1, *range(1, len(dims) - 1)), (0, *range(2, len(dims)), 1)
    if last:
        data = writer.add("Transpose", [data], [writer.tensor("/front", front)], perm=to_front)
    inputs = [data, writer.operand(1), writer.operand(2)]
    groups, epsilon = context.int("groups", 1), writer.float("epsilon", 1e-5)
    activates = bool(context.int("activation", 0))
    out = writer.tensor("/normal", front) if last or activates else writer.output(0)
    writer.add("GroupNormalization", inputs, [out], num_groups=groups, epsilon=epsilon)
    if activates:
        gate = writer.add("Sigmoid", [out], [writer.tensor("/gate", front)])
        result = writer.tensor("/active", front) if last else writer.output(0)
        out = writer.add("Mul", [out, gate], [result])
    if last:
        writer.add("Transpose", [out], [writer.output(0)], perm=to_back)
    return writer.ops


def _with_skip(writer: _Writer, *, channels_last: bool) -> str:
    context = writer.context
    skip, bias = writer.operand(3), writer.operand(4)
    dims = context.dims(3)
    if len(dims) == 2:
        places = (1, 2) if channels_last else (2, 3)
        wide = (dims[0], 1, 1, dims[1]) if channels_last else (*dims, 1, 1)
        skip = writer.add("Unsqueeze", [skip], [writer.tensor("/skip", wide)], axes=places)
    if not bias or channels_last:
        return writer.total([writer.operand(0), skip, *([bias] if bias else [])], writer.output(1))
    total = writer.total([writer.operand(0), skip], "")
    result = writer.output(1) or writer.tensor("/biased")
    return writer.add("BiasAdd", [total, bias], [result], axis=1)


_MICROSOFT: Mapping[str, Converter] = MappingProxyType(
    {
        **dict.fromkeys(
            ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_layer_norm
        ),
        "EmbedLayerNormalization": _embed_layer_norm,
        "BiasSoftmax": _bias_softmax,
        **dict.fromkeys(("GroupNorm", "SkipGroupNorm"), _group_norm),
        **MICROSOFT_ATTENTION,
        **MICROSOFT_EXPERTS,
        **MICROSOFT_PRODUCTS,
    }
)
FOREIGN: Mapping[str, Mapping[str, Converter]] = MappingProxyType({"com.microsoft": _MICROSOFT})
"""Converters by domain."""
