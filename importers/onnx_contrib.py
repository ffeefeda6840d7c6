"""Operators of ONNX Runtime (domain `com.microsoft`): fused normalisations, and all by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx

from importers import onnx_foreign_shapes as shapes
from importers.onnx_attention import MICROSOFT_ATTENTION
from importers.onnx_experts import MICROSOFT_EXPERTS
from importers.onnx_facts import STANDARD_DOMAINS
from importers.onnx_foreign import MICROSOFT, Foreign, Operands
from importers.onnx_node import NodeContext
from importers.onnx_products import MICROSOFT_PRODUCTS
from importers.onnx_rewriting import Rewriting
from ir.graph import Op
from ir.ops import BIAS_ADD

_EPSILON = 1e-12
"""Source: ONNX Runtime, docs/ContribOperators.md, SkipLayerNormalization."""


def _total(work: Rewriting, terms: Sequence[str], result: str) -> str:
    """The sum of several tensors."""
    found = terms[0]
    for index, term in enumerate(terms[1:], 1):
        last = index == len(terms) - 1
        out = result if last and result else work.context.new_tensor(f"/sum{index}")
        found = work.into(out).add(found, term)
    return found


def _trimmed(names: Sequence[str]) -> list[str]:
    """Names without the absent ones at the end."""
    out = list(names)
    while out and not out[-1]:
        out.pop()
    return out


def _skip_layer_norm(context: NodeContext) -> list[Op]:
    """Results: the normal form, mean, inverse deviation, and what was normalised."""
    work = Rewriting(context)
    simple = context.node.op_type == "SkipSimplifiedLayerNormalization"
    bias = work.operand(3 if simple else 4)
    terms = [work.operand(0), work.operand(1), *([bias] if bias else [])]
    total = _total(work, terms, work.output(3))
    first, mean, inverse = (work.output(i) for i in range(3))
    _norm(work, total, [work.operand(2), "" if simple else work.operand(3)],
          [first, inverse] if simple else [first, mean, inverse], simple=simple)  # fmt: skip
    return work.written


def _norm(
    work: Rewriting, data: str, vectors: Sequence[str], outputs: Sequence[str], *, simple: bool
) -> None:
    kind = "RMSNormalization" if simple else "LayerNormalization"
    axis = len(work.context.result()) - 1
    epsilon = work.float("epsilon", _EPSILON)
    made = _trimmed(outputs)
    work.write(kind, [data, *vectors], *[()] * len(made), outputs=made, axis=axis, epsilon=epsilon)


def _embed_layer_norm(context: NodeContext) -> list[Op]:
    """Words, positions and segments looked up, added and normalised."""
    work = Rewriting(context)
    ids, segments, words, places, segment_table, scale, bias, mask, numbers = (
        work.operand(i) for i in range(9)
    )
    rows = context.dims()[1]
    terms = [work.into(context.new_tensor("/words")).gather(words, ids, 0)]
    if numbers:
        terms.append(work.into(context.new_tensor("/places")).gather(places, numbers, 0))
    elif context.dims(3)[0] == rows:
        terms.append(places)
    else:
        first = context.new_tensor("/places", (rows, context.dims(3)[1]))
        terms.append(work.into(first).cut(places, 0, 0, rows))
    if segments and segment_table:
        found = context.new_tensor("/segments")
        terms.append(work.into(found).gather(segment_table, segments, 0))
    total = _total(work, terms, work.output(2))
    _norm(work, total, [scale, bias], [work.output(0)], simple=False)
    if mask and work.output(1):
        work.into(work.output(1)).reduce_sum(mask, 1, keep=False)
    return work.written


def _bias_softmax(context: NodeContext) -> list[Op]:
    """All dimensions from `axis` on are one."""
    work = Rewriting(context)
    total = _total(work, [work.operand(0), work.operand(1)], "")
    axis = context.axis(1)
    ends = {"to_end": 1} if any(d > 1 for d in context.dims()[axis + 1 :]) else {}
    work.into(work.output(0)).softmax(total, axis, **ends)
    return work.written


def _group_norm(context: NodeContext) -> list[Op]:
    """Channels are last unless told; a skip and a bias may come before, a SiLU after."""
    work = Rewriting(context)
    dims = context.dims()
    last = bool(context.int("channels_last", 1))
    data = work.operand(0)
    if context.node.op_type == "SkipGroupNorm":
        data = _with_skip(work, channels_last=last)
    front = (dims[0], dims[-1], *dims[1:-1]) if last else dims
    to_front, to_back = (0, len(dims) - 1, *range(1, len(dims) - 1)), (0, *range(2, len(dims)), 1)
    if last:
        data = work.into(context.new_tensor("/front", front)).transpose(data, *to_front)
    inputs = [data, work.operand(1), work.operand(2)]
    groups, epsilon = context.int("groups", 1), work.float("epsilon", 1e-5)
    activates = bool(context.int("activation", 0))
    out = context.new_tensor("/normal", front) if last or activates else work.output(0)
    work.into(out).op("GroupNormalization", inputs, num_groups=groups, epsilon=epsilon)
    if activates:
        gate = work.into(context.new_tensor("/gate", front)).sigmoid(out)
        result = context.new_tensor("/active", front) if last else work.output(0)
        out = work.into(result).mul(out, gate)
    if last:
        work.into(work.output(0)).transpose(out, *to_back)
    return work.written


def _with_skip(work: Rewriting, *, channels_last: bool) -> str:
    context = work.context
    skip, bias = work.operand(3), work.operand(4)
    dims = context.dims(3)
    if len(dims) == 2:
        places = (1, 2) if channels_last else (2, 3)
        wide = (dims[0], 1, 1, dims[1]) if channels_last else (*dims, 1, 1)
        skip = work.into(context.new_tensor("/skip", wide)).unsqueeze(skip, *places)
    if not bias or channels_last:
        return _total(work, [work.operand(0), skip, *([bias] if bias else [])], work.output(1))
    total = _total(work, [work.operand(0), skip], "")
    result = work.output(1) or context.new_tensor("/biased")
    return work.into(result).op(BIAS_ADD, [total, bias], axis=1)


OPERATORS: Mapping[str, Foreign] = MappingProxyType(
    {
        "SkipLayerNormalization": Foreign(
            _skip_layer_norm, shapes.skip_norm, (2, 3, 4),
            "(float[2,4,6] x, float[2,4,6] z, float[6] s, float[6] b) => (float[2,4,6] y) "
            "{y = *(x, z, s, b)}",
        ),
        "SkipSimplifiedLayerNormalization": Foreign(
            _skip_layer_norm, shapes.skip_norm, (2, 3),
            "(float[2,4,6] x, float[2,4,6] z, float[6] s) => (float[2,4,6] y) {y = *(x, z, s)}",
        ),
        "SimplifiedLayerNormalization": Foreign(infer=shapes.simple_norm),
        "EmbedLayerNormalization": Foreign(
            _embed_layer_norm, shapes.embed_norm, (2, 3, 4, 5, 6),
            "(int32[2,6] i, int32[2,6] g, float[20,8] w, float[6,8] p, float[2,8] t, float[8] s, "
            "float[8] b) => (float[2,6,8] y) {y = *(i, g, w, p, t, s, b)}",
        ),
        "BiasSoftmax": Foreign(
            _bias_softmax, shapes.like_first(2), (),
            "(float[2,4,6,8] x, float[2,1,6,8] b) => (float[2,4,6,8] y) "
            "{y = *<axis=3, is_inner_broadcast=0>(x, b)}",
        ),
        "GroupNorm": Foreign(
            _group_norm, shapes.like_first(2), (1, 2),
            "(float[2,6,8,4] x, float[4] s, float[4] b) => (float[2,6,8,4] y) "
            "{y = *<groups=2, activation=1>(x, s, b)}",
        ),
        "SkipGroupNorm": Foreign(
            _group_norm, shapes.like_first(2), (1, 2, 4),
            "(float[2,6,8,4] x, float[4] s, float[4] b, float[2,6,8,4] z) => (float[2,6,8,4] y) "
            "{y = *<groups=2, activation=1>(x, s, b, z)}",
        ),
        **MICROSOFT_ATTENTION,
        **MICROSOFT_EXPERTS,
        **MICROSOFT_PRODUCTS,
    }
)  # fmt: skip
"""By kind."""


def foreign_types(node: onnx.NodeProto, operands: Operands) -> Mapping[str, onnx.TypeProto]:
    """Types of the results of a node as far as they are known here.

    Args:
        node: the node.
        operands: None for an absent one.
    """
    known = node.op_type in OPERATORS and node.domain in {*STANDARD_DOMAINS, MICROSOFT}
    infer = OPERATORS[node.op_type].infer if known else None
    if infer is None or not operands or operands[0] is None:
        return {}
    found = infer(node, operands)
    return {
        name: onnx.helper.make_tensor_type_proto(code, list(dims))
        for name, (dims, code) in zip(node.output, found, strict=False)
        if name
    }
