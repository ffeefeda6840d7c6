"""Scaled dot-product attention as one operator, in the four-dimensional form batch, heads, rows,
width.

Also the three-dimensional form of ONNX's `Attention` (batch, rows, heads times width).
"""

from __future__ import annotations

from dataclasses import dataclass

from ir.ops.reduction import SOFTMAXES
from ir.ops.registry import Engine, Needs, OpView, Resizing, operator, show, write
from ir.rule import FactorMap, RuleBuilder, ShardingRule

HEAD_COUNTS = {
    "Attention": ((0, "q_num_heads"), (1, "kv_num_heads")),
    "PackedMultiHeadAttention": ((0, "num_heads"),),
}
"""By kind, operands that may have heads in the width and the attributes that count them."""


@dataclass(frozen=True, slots=True)
class _Space:
    """Factors of attention by letter, and whether heads are a dimension of their own."""

    b: int
    g: int
    r: int
    s: int
    t: int
    d: int
    e: int
    apart: bool

    def rows(self, heads: tuple[int, ...], row: int, width: int) -> FactorMap:
        """Map of queries, keys, values or the result."""
        if self.apart:
            return ((self.b,), heads, (row,), (width,))
        return ((self.b,), (row,), (*heads, width))


def attention_rule(view: OpView) -> ShardingRule:
    """`b (g r) s d!, b g t! d!, b g t! e!, mask -> b (g r) s e!` with g key heads and r query
    heads to each.

    Key rows stay whole: splitting them needs a running maximum and sum (ring attention). With a
    causal mask a device needs to know which query rows it has. Keys and values that are handed on
    have no query heads and rows: these stay whole then, for every device would have all of them.
    """
    builder = RuleBuilder()
    space = _space(view, builder)
    heads = (space.g, space.r)
    operands: list[FactorMap | None] = [
        space.rows(heads, space.s, space.d),
        space.rows((space.g,), space.t, space.d),
        space.rows((space.g,), space.t, space.e),
    ]
    operands += [_extra_operand(view, i, space, builder) for i in range(3, len(view.op.inputs))]
    extra: list[FactorMap | None] = [
        ((space.b,), (space.g,), (), (space.d,)),
        ((space.b,), (space.g,), (), (space.e,)),
        ((space.b,), heads, (space.s,), ()),
    ]
    results = [space.rows(heads, space.s, space.e), *extra[: len(view.outputs) - 1]]
    return builder.build(operands, results)


def _space(view: OpView, builder: RuleBuilder) -> _Space:
    heads, key_heads = attention_heads(view)
    caches = len(view.outputs) > 1
    if heads % key_heads:
        raise ValueError(f"{heads} query heads are no multiple of {key_heads} key heads")
    query, key, value = view.dims(0), view.dims(1), view.dims(2)
    apart = len(query) == 4
    rows = -2
    return _Space(
        b=builder.factor(query[0]),
        g=builder.factor(key_heads),
        r=builder.factor(heads // key_heads, locked=caches),
        s=builder.factor(query[rows], locked=caches),
        t=builder.factor(key[rows], locked=True),
        d=builder.factor(query[-1] if apart else query[-1] // heads, locked=True),
        e=builder.factor(value[-1] if apart else value[-1] // key_heads, locked=True),
        apart=apart,
    )


def attention_heads(view: OpView) -> tuple[int, int]:
    """Number of query heads and of key heads."""
    if len(view.dims(0)) == 4:
        return view.dims(0)[1], view.dims(1)[1]
    heads = view.int("q_num_heads", 1)
    return heads, view.int("kv_num_heads", heads)


def _extra_operand(
    view: OpView, index: int, space: _Space, builder: RuleBuilder
) -> FactorMap | None:
    """Mask, keys and values of earlier rows, and the lengths of the keys, by position."""
    if not view.has(index):
        return None
    dims = view.dims(index)
    if index == 3:
        full = ((space.b,), (space.g, space.r), (space.s,), (space.t,))
        own = full[4 - len(dims) :]
        known = [_size(m, builder) for m in own]
        return tuple(m if d == k else () for m, d, k in zip(own, dims, known, strict=True))
    if index in {4, 5}:
        return ((space.b,), (space.g,), (), (space.d if index == 4 else space.e,))
    return ((space.b,), *((),) * (len(dims) - 1))


def _size(factors: tuple[int, ...], builder: RuleBuilder) -> int:
    size = 1
    for factor in factors:
        size *= builder.sizes[factor]
    return size


def packed_attention_rule(view: OpView) -> ShardingRule:
    """`t! (h d!), t! (h d!), t! (h e!), ends -> t! (h e!)`: rows of several sequences one behind
    the other, which see those of their own sequence.
    """
    builder = RuleBuilder()
    heads, rows = view.int("num_heads", 1), view.dims(0)[0]
    t, h = builder.factor(rows, locked=True), builder.factor(heads)
    d, e = (builder.factor(view.dims(i)[1] // heads, locked=True) for i in (0, 2))
    data = [((t,), (h, d)), ((t,), (h, d)), ((t,), (h, e))]
    return builder.build([*data, ((),)], [((t,), (h, e))])


@operator(
    "Attention",
    rule=attention_rule,
    resizing=Resizing.HEADS,
    whole_at_any_size=True,
    engine=Engine.ATTENTION,
    broadcasts=True,
    needs=Needs.OPERANDS_AND_RESULT,
    differentiable=(0, 1, 2),
    backward_ratio=2.5 / 3,
)
def attention_flops(view: OpView) -> int:
    """Two products over all pairs of rows, no saving for a causal mask; backward makes five
    products of two.

    Source: Dao et al., FlashAttention, arXiv 2205.14135, section 3 and algorithm 4.
    """
    heads, key_heads = attention_heads(view)
    query, key, value = view.dims(0), view.dims(1), view.dims(2)
    apart = len(query) == 4
    width = query[-1] if apart else query[-1] // heads
    width += value[-1] if apart else value[-1] // key_heads
    rows = key[-2] + (view.dims(4)[2] if view.has(4) else 0)
    return 2 * query[0] * heads * query[-2] * rows * width


@operator(
    "PackedMultiHeadAttention",
    rule=packed_attention_rule,
    engine=Engine.ATTENTION,
    needs=Needs.OPERANDS_AND_RESULT,
    differentiable=(0, 1, 2),
    backward_ratio=2.5 / 3,
)
def _packed_attention_flops(view: OpView) -> int:
    """Two products over the pairs of rows of sequences that are taken as equally long."""
    rows, sequences = view.dims(0)[0], max(1, view.dims(3)[0] - 1)
    return 2 * rows * -(-rows // sequences) * (view.dims(0)[1] + view.dims(2)[1])


MIXERS = frozenset({"Attention", *(kind for kind, log in SOFTMAXES.items() if not log)})
"""Kinds without which a model is no transformer."""

write(Attention="attention", PackedMultiHeadAttention="packed_attention")
show(
    Attention="(float[2,8,6,16] q, float[2,4,12,16] k, float[2,4,12,16] v) => (y) {y = "
    "Attention(q, k, v)}",
    PackedMultiHeadAttention="(float[12,32] q, float[12,32] k, float[12,32] v, int32[2,6] t, "
    "int32[3] n) => (float[12,32] y) {y = "
    "com.microsoft.PackedMultiHeadAttention<num_heads=4>(q, k, v, , t, n)}",
)  # fmt: skip
