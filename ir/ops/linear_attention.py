"""Layers that hand on a state from row to row: linear attention, selective scan, short convolution.

Linear attention keeps a matrix for every head. Kernels run it in chunks of rows: inside a chunk as
products over its rows, from chunk to chunk through the matrix. Sources: Mamba, arXiv 2312.00752;
Mamba-2 (SSD), arXiv 2405.21060, section 6; gated delta net, arXiv 2412.06464, section 3.3; ONNX,
LinearAttention and CausalConvWithState. Counts of operations are our own.
"""

from __future__ import annotations

from ir.graph import Role
from ir.ops.registry import Engine, Needs, OpView, operator, show, write
from ir.rule import FactorMap, RuleBuilder, ShardingRule, single

RECURRENT = frozenset({"LinearAttention", "SelectiveScan"})
"""Kinds that hand a state on from row to row in the place of attention."""

KEY_HEADS = "k_num_heads"
"""Attribute of LinearAttention, beside those of ONNX: heads of queries and keys where several heads
of values, `kv_num_heads` in all, share one of them, as in Mamba-2 and gated delta nets."""

LINEAR_HEAD_COUNTS = {
    "LinearAttention": ((0, "q_num_heads"), (1, KEY_HEADS), (2, "kv_num_heads")),
}
"""By kind, operands with heads in the width and the attributes that count them."""

CHANNELS_LAST = "channels_last"
"""Attribute of CausalConvWithState, beside those of ONNX: data is `batch, rows, channels`, as the
kernels of Mamba read it without a transposition. What is handed on stays as ONNX has it."""

CHUNK = 256
"""Rows of a chunk where the operator does not say: that of Mamba-2's kernel."""

DELTA_CHUNK = 64
"""The same of rules that correct what the state has: that of the delta net's kernels."""

_SCAN = 9
"""Operations of a selective scan for each channel, state and row: two products, an exponential of
two, and for the state and its result two of two."""


def linear_attention_rule(view: OpView) -> ShardingRule:
    """`b t! (g r d!), b t! (g d!), b t! (g e!), state, decay, rate -> b t! (g r e!), b g d! e!`, or
    `b t! (g d!), b t! (g d!), b t! (g r e!) -> b t! (g r e!)` with fewer heads of keys than values.

    Rows follow one another; a decay with one row may hold for all. The state that is handed on has
    no query heads: these stay whole then.
    """
    builder = RuleBuilder()
    query, value = view.dims(0), view.dims(2)
    heads, values = view.int("q_num_heads"), view.int("kv_num_heads")
    groups = view.int(KEY_HEADS, values)
    b, g = builder.factor(query[0]), builder.factor(groups)
    r = builder.factor(max(heads, values) // groups, locked=len(view.outputs) > 1)
    t = builder.factor(query[1], locked=True)
    d = builder.factor(query[2] // heads, locked=True)
    e = builder.factor(value[2] // values, locked=True)
    each = (g,) if heads > groups or values == groups else (g, r)
    asked = (g, r) if heads > groups else (g,)
    operands: list[FactorMap | None] = [
        ((b,), (t,), (*asked, d)), ((b,), (t,), (g, d)), ((b,), (t,), (*each, e)),
    ]  # fmt: skip
    state: FactorMap = ((b,), each, (d,), (e,))
    for index in range(3, len(view.op.inputs)):
        if not view.has(index):
            operands.append(None)
        elif index == 3:
            operands.append(state)
        else:
            last = view.dims(index)[2]
            wide = (*each, d) if last != values else each
            place: FactorMap = ((), ()) if _is_fixed(view, index) else ((b,), (t,))
            operands.append((*place, () if last == 1 else wide))
    result: FactorMap = ((b,), (t,), (g, r, e))
    return builder.build(operands, [result, state][: len(view.outputs)])


def _is_fixed(view: OpView, index: int) -> bool:
    """Whether an operand is a number for each head, for all samples and rows."""
    tensor = view.inputs[index]
    if tensor is None or tensor.dims[:2] != (1, 1):
        return False
    return tensor.role is Role.CONSTANT or view.dims(0)[:2] != (1, 1)


@operator(
    "LinearAttention",
    rule=linear_attention_rule,
    engine=Engine.ATTENTION,
    needs=Needs.OPERANDS_AND_RESULT,
    backward_ratio=2.5 / 4,
)
def _linear_attention_flops(view: OpView) -> int:
    """In chunks of rows: scores and what they weigh inside, the matrix between.

    Of rules that correct what the state has also keys with keys and a triangular inverse. Backward
    takes as much over forward as of attention, shared out over four operands.
    """
    query, value = view.dims(0), view.dims(2)
    heads, values = view.int("q_num_heads"), view.int("kv_num_heads")
    wide, tall = query[2] // heads, value[2] // values
    delta = "delta" in str(view.op.attributes.get("update_rule", "gated_delta"))
    chunk = view.int("chunk_size") or (DELTA_CHUNK if delta else CHUNK)
    inside = min(chunk, query[1])
    outer = max(heads, values)
    scores, results, matrix = 2 * inside * wide, 2 * inside * tall, 2 * wide * tall
    asked = outer if delta else heads
    row = asked * scores + outer * (results + matrix) + values * matrix
    if delta:
        row += values * (2 * scores + results + matrix + inside**2 // 3)
    return query[0] * query[1] * row


def selective_scan_rule(view: OpView) -> ShardingRule:
    """`b t! c, b t! c, c d!, b t! d!, b t! d! -> b t! c`: each channel by itself."""
    builder = RuleBuilder()
    batch, rows, channels = view.dims(0)
    b, c = builder.factor(batch), builder.factor(channels)
    t = builder.factor(rows, locked=True)
    d = builder.factor(view.dims(2)[1], locked=True)
    line: FactorMap = ((b,), (t,), (c,))
    shared: FactorMap = ((b,), (t,), (d,))
    return builder.build([line, line, ((c,), (d,)), shared, shared], [line])


@operator(
    "SelectiveScan",
    rule=selective_scan_rule,
    engine=Engine.VECTOR,
    needs=Needs.OPERANDS,
    backward_ratio=2.5 / 5,
)
def _selective_scan_flops(view: OpView) -> int:
    """A state of a few numbers for every channel, changed and read row by row.

    Operands: values, steps of time (both `batch, rows, channels`), decay `channels, state`, what
    writes and what reads `batch, rows, state`.
    """
    return _SCAN * view.outputs[0].elements * view.dims(2)[1]


def causal_conv_rule(view: OpView) -> ShardingRule:
    """`b c l!, c 1 k!, c, b c p! -> b c l!, b c p!`: each channel by itself, positions whole."""
    builder = RuleBuilder()
    batch, channels, length = view.dims(0)
    last = view.int(CHANNELS_LAST)
    if last:
        channels, length = length, channels
    b, c = builder.factor(batch), builder.factor(channels)
    line = builder.factor(length, locked=True)
    data = single([b, line, c] if last else [b, c, line])
    shapes: list[FactorMap] = [data, ((c,), (), ()), ((c,),), ((b,), (c,), ())]
    operands = [shapes[i] if view.has(i) else None for i in range(len(view.op.inputs))]
    return builder.build(operands, [shapes[0], shapes[3]][: len(view.outputs)])


@operator(
    "CausalConvWithState",
    rule=causal_conv_rule,
    engine=Engine.CONVOLUTION,
    needs=Needs.OPERANDS_AND_RESULT,
    parameter_operands=(1, 2),
)
def _causal_conv_flops(view: OpView) -> int:
    return 2 * view.outputs[0].elements * view.dims(1)[2]


write(
    LinearAttention="linear_attention", SelectiveScan="selective_scan",
    CausalConvWithState="causal_conv",
)  # fmt: skip
show(
    CausalConvWithState="(float[2,4,6] x, float[4,1,3] w) => (y, s) {y, s = "
    "CausalConvWithState(x, w)}",
    LinearAttention="(float[2,6,32] q, float[2,6,32] k, float[2,6,32] v) => (y, s) {y, s = "
    'LinearAttention<q_num_heads=4, kv_num_heads=4, update_rule="linear">(q, k, v)}',
)  # fmt: skip
