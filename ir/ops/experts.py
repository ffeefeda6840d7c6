"""Mixture of experts in its grouped form: tokens sorted by expert, one product per expert, and
back.

The load is taken as balanced: every expert has the same number of token slots. The second operand
of `Dispatch` and `Combine` is the expert of every token; the tokens of an expert take its slots in
their order, slots without a token are zeros, and what finds no slot cannot be run.
"""

from __future__ import annotations

from ir.graph import OpGraph
from ir.ops.registry import (
    Engine,
    Needs,
    OpView,
    Resizing,
    enter,
    forms,
    lookup,
    operator,
    primitives,
    write,
)
from ir.rule import FactorMap, RuleBuilder, ShardingRule, single

COMBINE = "Combine"
DISPATCH = "Dispatch"
EXPERT_MATMUL = "ExpertMatMul"


def dispatch_rule(view: OpView) -> ShardingRule:
    """`(c e!) ..., (c e!) -> x c ...`: a slice of the tokens becomes a slice of every expert's
    slots.

    A split of the experts x leaves the gradient of the tokens partial; from split slots to split
    experts is an all-to-all. Within a slice too every expert has as many tokens as slots.
    """
    builder = RuleBuilder()
    tokens, slots, index = _routed(view, view.result(), view.dims(0), builder)
    return builder.build([tokens, index], [slots])


def combine_rule(view: OpView) -> ShardingRule:
    """`x c ..., (c e!) -> (c e!) ...`: split experts leave a partial sum."""
    builder = RuleBuilder()
    tokens, slots, index = _routed(view, view.dims(0), view.result(), builder)
    return builder.build([slots, index], [tokens])


def _routed(
    view: OpView, slots: tuple[int, ...], tokens: tuple[int, ...], builder: RuleBuilder
) -> tuple[FactorMap, FactorMap, FactorMap | None]:
    """Maps of tokens, of slots and of the experts of the tokens.

    Where some slots stay empty, a slice of the tokens does not fill a slice of the slots.
    """
    experts, capacity = slots[:2]
    full = experts * capacity == tokens[0]
    x, c = builder.factor(experts), builder.factor(capacity, locked=not full)
    inner = builder.factor(experts, locked=True)
    rest = builder.factors(slots[2:])
    rows = (c, inner) if full else ()
    index = (rows, *((),) * (len(view.dims(1)) - 1)) if view.has(1) else None
    return (rows, *single(rest)), single([x, c, *rest]), index


def slot_tensors(graph: OpGraph) -> frozenset[str]:
    """Tensors whose first dimension is the experts: between a `Dispatch` and its `Combine`."""
    found: set[str] = set()
    for op in graph.ops:
        if op.kind == DISPATCH:
            found.update(op.outputs)
        elif op.kind != COMBINE and not found.isdisjoint(op.inputs):
            view = OpView(op, graph)
            rule = lookup(op.kind).rule(view)
            experts = {f for n, m in zip(op.inputs, rule.operands, strict=True)
                       if n in found and m for f in m[0]}  # fmt: skip
            found.update(
                name
                for name, mapping in zip(op.outputs, rule.results, strict=True)
                if mapping and experts.intersection(mapping[0])
            )
    return frozenset(found)


def expert_matmul_rule(view: OpView) -> ShardingRule:
    """`e c h 1, e f h -> e c f 1`, or `e c 1 h, e h f -> e c 1 f` where `row` is set."""
    builder = RuleBuilder()
    tokens, weight = view.dims(0), view.dims(1)
    row = bool(view.int("row"))
    e, c = builder.factor(tokens[0]), builder.factor(tokens[1])
    h = builder.factor(weight[1] if row else weight[2])
    f = builder.factor(weight[2] if row else weight[1])
    inner, outer = (((), (x,)) if row else ((x,), ()) for x in (h, f))
    matrix = ((e,), (h,), (f,)) if row else ((e,), (f,), (h,))
    return builder.build([((e,), (c,), *inner), matrix], [((e,), (c,), *outer)], order=(e, c, h, f))


def packed_expert_matmul_rule(view: OpView) -> ShardingRule:
    """`e c (k q!) 1, e f (k p!), e f k, zeros -> e c f 1`: blocks of `q` weights stay together, in
    `p` bytes.

    Without blocks, or with zero points, which share bytes, the sum stays whole; so do rows whose
    zero points do.
    """
    builder = RuleBuilder()
    tokens, weight = view.dims(0), view.dims(1)
    block, bits = view.int("block_size"), view.int("bits", 4)
    blocks = tokens[2] // block if block else 1
    zeros = view.dims(3) if view.has(3) else ()
    e, c = builder.factor(tokens[0]), builder.factor(tokens[1])
    f = builder.factor(weight[1], locked=len(zeros) == 2 and bits < 8)
    k = builder.factor(blocks, locked=bool(zeros))
    q, p = (builder.factor(n // blocks, locked=True) for n in (tokens[2], weight[2]))
    scale: FactorMap = ((e,), (f,), (k,))[: len(view.dims(2))]
    operands: list[FactorMap | None] = [((e,), (c,), (k, q), ()), ((e,), (f,), (k, p)), scale]
    if view.has(3):
        rows = () if f in builder.locked else (f,)
        operands.append(((e,), rows, ())[: len(zeros)])
    return builder.build(operands, [((e,), (c,), (f,), ())])


for _kind, _rule in ((COMBINE, combine_rule), (DISPATCH, dispatch_rule)):
    enter(_kind, rule=_rule, differentiable=(0,), whole_at_any_size=True, resizing=Resizing.SLOTS)


@operator(
    EXPERT_MATMUL,
    rule=expert_matmul_rule,
    engine=Engine.MATRIX,
    needs=Needs.OTHERS,
    parameter_operands=(1,),
)
def expert_matmul_flops(view: OpView) -> int:
    """Two operations per token slot, row and column of one expert's weight."""
    tokens, weight = view.dims(0), view.dims(1)
    return 2 * tokens[0] * tokens[1] * weight[1] * weight[2]


@operator(
    "ExpertMatMulNBits",
    rule=packed_expert_matmul_rule,
    engine=Engine.MATRIX,
    needs=Needs.OTHERS,
    differentiable=(0,),
    buffer_operands=(1, 2, 3),
)
def _packed_expert_flops(view: OpView) -> int:
    """The product, and a shift, a difference and a factor for each weight."""
    tokens, rows = view.dims(0), view.dims(1)[1]
    return (2 * tokens[1] + 3) * tokens[0] * tokens[2] * rows


primitives(ExpertMatMul="BatchMatMul")


write(
    **{DISPATCH: "dispatch", COMBINE: "combine", EXPERT_MATMUL: "expert_matmul"},
    ExpertMatMulNBits="packed_expert_matmul",
)  # fmt: skip
forms(ExpertMatMul="expert_product")
