"""Rotary embeddings."""

from __future__ import annotations

from ir.ops.registry import Needs, OpView, enter, per_result, show, write
from ir.rule import FactorMap, RuleBuilder, ShardingRule


def rotary_rule(view: OpView) -> ShardingRule:
    """`b h s d!, p! c!, p! c!, b s -> b h s d!`, or `b s (h d!)` with heads in the width.

    Positions of rank 1 are those of the first rows, of each batch or of all. Without them the
    tables have a dimension of rows, or rows count from the attribute `position_offset`.
    """
    builder = RuleBuilder()
    dims = view.dims(0)
    b = builder.factor(dims[0])
    rows = builder.factor(dims[-2])
    if len(dims) == 4:
        width = builder.factor(dims[3], locked=True)
        data: FactorMap = ((b,), (builder.factor(dims[1]),), (rows,), (width,))
    else:
        heads = max(1, view.int("num_heads", 1))
        width = builder.factor(dims[2] // heads, locked=True)
        data = ((b,), (rows,), (builder.factor(heads), width))
    tables: list[FactorMap] = [
        ((b,), (rows,), ()) if len(view.dims(i)) == 3 else ((), ()) for i in (1, 2)
    ]
    places: list[FactorMap | None] = []
    if view.has(3):
        each = (b,) if view.dims(3)[0] == dims[0] else ()
        places.append((each, (rows,))[: len(view.dims(3))])
    absent: list[FactorMap | None] = [None] * (len(view.op.inputs) - 3 - len(places))
    return builder.build([data, *tables, *places, *absent], [data])


# Two products and an addition for every element.
enter(
    "RotaryEmbedding",
    rule=rotary_rule,
    needs=Needs.OTHERS,
    differentiable=(0,),
    buffer_operands=(1, 2),
    flops=per_result(3),
)

write(RotaryEmbedding="rotary")
show(
    RotaryEmbedding="(float[2,4,6,8] x, float[12,4] c, float[12,4] s, int64[2,6] p) => (y) {y = "
    "RotaryEmbedding(x, c, s, p)}",
)  # fmt: skip
