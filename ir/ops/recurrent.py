"""Recurrent networks: steps of time follow each other, sequences and directions are independent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from ir.ops.registry import Engine, Needs, OpView, operator, show, write
from ir.rule import FactorMap, RuleBuilder, ShardingRule

GATES: Mapping[str, int] = MappingProxyType({"RNN": 1, "GRU": 3, "LSTM": 4})
"""Products of every step: rows of a weight over the hidden size."""
LENGTHS = 4
"""The operand that holds the lengths of the sequences."""
_STATES = (5, 6)
"""Operands that hold the state before the first step."""


def recurrent_rule(view: OpView) -> ShardingRule:
    """`x: t b i, w: d g i, r: d g h, bias: d 2g, lengths: b, states: d b h, peepholes: d 3h ->
    y: t d b h, states: d b h`.

    Only the batch and the directions may be split. With `layout` the batch is first.
    """
    builder = RuleBuilder()
    first = bool(view.int("layout"))
    x, w = view.dims(0), view.dims(1)
    time = builder.factor(x[1 if first else 0], locked=True)
    batch = builder.factor(x[0 if first else 1])
    directions = builder.factor(w[0])
    builder.uncut.add(directions)
    data: FactorMap = ((batch,), (time,), ()) if first else ((time,), (batch,), ())
    state: FactorMap = ((batch,), (directions,), ()) if first else ((directions,), (batch,), ())
    y: FactorMap = (data[0], data[1], (directions,), ())
    if not first:
        y = (data[0], (directions,), data[1], ())
    operands: list[FactorMap | None] = [data]
    for index in range(1, len(view.op.inputs)):
        if not view.has(index):
            operands.append(None)
        elif index == LENGTHS:
            operands.append(((batch,),))
        elif index in _STATES:
            operands.append(state)
        else:
            operands.append(((directions,), *[()] * (len(view.dims(index)) - 1)))
    return builder.build(operands, [y, *[state] * (len(view.outputs) - 1)])


@operator(
    *GATES,
    rule=recurrent_rule,
    engine=Engine.MATRIX,
    needs=Needs.OPERANDS_AND_RESULT,
    differentiable=(0, 1, 2, 3, 5, 6, 7),
    # Each product is done twice more backward; four operands usually have a gradient.
    backward_ratio=0.5,
    parameter_operands=(1, 2, 3, 7),
)
def _recurrent_flops(view: OpView) -> int:
    """Both products of every gate, step, sequence and direction."""
    x, w, r = view.dims(0), view.dims(1), view.dims(2)
    return 2 * x[0] * x[1] * (math.prod(w) + math.prod(r))


write(**dict.fromkeys(GATES, "recurrent"))
show(
    GRU="(float[6,2,4] x, float[1,24,4] w, float[1,24,8] r) => (y) {y = GRU<hidden_size=8>(x, "
    "w, r)}",
    LSTM="(float[6,2,4] x, float[1,32,4] w, float[1,32,8] r) => (y) {y = LSTM<hidden_size=8>(x, "
    "w, r)}",
    RNN="(float[6,2,4] x, float[1,8,4] w, float[1,8,8] r) => (y) {y = RNN<hidden_size=8>(x, w, "
    "r)}",
)  # fmt: skip
