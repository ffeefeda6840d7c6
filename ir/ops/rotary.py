"""Position and state beside attention: rotary embeddings, linear attention, causal convolution."""

from __future__ import annotations

from ir.ops.registry import Engine, Needs, OpView, operator
from ir.rule import FactorMap, RuleBuilder, ShardingRule, single


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


def linear_attention_rule(view: OpView) -> ShardingRule:
    """`b t! (g r d!), b t! (g d!), b t! (g e!), state, decay, rate -> b t! (g r e!), b g d! e!`.

    Rows follow one another. The state that is handed on has no query heads: these stay whole then.
    """
    builder = RuleBuilder()
    heads, groups = view.int("q_num_heads"), view.int("kv_num_heads")
    query, value = view.dims(0), view.dims(2)
    b, g = builder.factor(query[0]), builder.factor(groups)
    r = builder.factor(heads // groups, locked=len(view.outputs) > 1)
    t = builder.factor(query[1], locked=True)
    d = builder.factor(query[2] // heads, locked=True)
    e = builder.factor(value[2] // groups, locked=True)
    state: FactorMap = ((b,), (g,), (d,), (e,))
    operands: list[FactorMap | None] = [
        ((b,), (t,), (g, r, d)), ((b,), (t,), (g, d)), ((b,), (t,), (g, e)),
    ]  # fmt: skip
    for index in range(3, len(view.op.inputs)):
        if not view.has(index):
            operands.append(None)
        elif index == 3:
            operands.append(state)
        else:
            last = view.dims(index)[2]
            wide = (g, d) if last != groups else (g,)
            operands.append(((b,), (t,), () if last == 1 else wide))
    return builder.build(operands, [((b,), (t,), (g, r, e)), state][: len(view.outputs)])


def causal_conv_rule(view: OpView) -> ShardingRule:
    """`b c l!, c 1 k!, c, b c p! -> b c l!, b c p!`: each channel by itself, positions whole."""
    builder = RuleBuilder()
    dims = view.dims(0)
    b, c = builder.factor(dims[0]), builder.factor(dims[1])
    line = builder.factor(dims[2], locked=True)
    shapes: list[FactorMap] = [
        single([b, c, line]), ((c,), (), ()), ((c,),), ((b,), (c,), ())
    ]  # fmt: skip
    operands = [shapes[i] if view.has(i) else None for i in range(len(view.op.inputs))]
    return builder.build(operands, [shapes[0], shapes[3]][: len(view.outputs)])


@operator(
    "RotaryEmbedding",
    rule=rotary_rule,
    needs=Needs.OTHERS,
    differentiable=(0,),
    buffer_operands=(1, 2),
)
def _rotary_flops(view: OpView) -> int:
    """Two products and an addition for every element."""
    return 3 * view.outputs[0].elements


@operator(
    "LinearAttention",
    rule=linear_attention_rule,
    engine=Engine.ATTENTION,
    needs=Needs.OPERANDS_AND_RESULT,
)
def _linear_attention_flops(view: OpView) -> int:
    """Write and read of a matrix for every row and head, and what the rule corrects."""
    query, value = view.dims(0), view.dims(2)
    heads, groups = view.int("q_num_heads"), view.int("kv_num_heads")
    matrix = query[2] // heads * (value[2] // groups)
    delta = "delta" in str(view.op.attributes.get("update_rule", "gated_delta"))
    return 2 * query[0] * query[1] * matrix * (heads + groups * (2 if delta else 1))


@operator(
    "CausalConvWithState",
    rule=causal_conv_rule,
    engine=Engine.CONVOLUTION,
    needs=Needs.OPERANDS_AND_RESULT,
    parameter_operands=(1, 2),
)
def _causal_conv_flops(view: OpView) -> int:
    return 2 * view.outputs[0].elements * view.dims(1)[2]
