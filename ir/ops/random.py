"""Random numbers: every element is drawn by itself, so that a device can draw its part alone."""

from __future__ import annotations

from ir.ops.elementwise import aligned_map
from ir.ops.registry import OpView, catalogue, enter, kinds_of, operator, per_result, show, write
from ir.rule import RuleBuilder, ShardingRule, single


def drawn_rule(view: OpView) -> ShardingRule:
    """Factors of the result alone, or of an operand that tells dims or probabilities."""
    builder = RuleBuilder()
    result = view.result()
    factors = builder.factors(result)
    if not view.op.inputs:
        builder.uncut.update(factors)
    operands = [None if t is None else aligned_map(t.dims, result, factors) for t in view.inputs]
    return builder.build(operands, [single(factors)])


def multinomial_rule(view: OpView) -> ShardingRule:
    """Rows are drawn by themselves, each from all of its classes."""
    builder = RuleBuilder()
    rows, classes = builder.factors(view.dims(0))
    builder.locked.add(classes)
    return builder.build([((rows,), (classes,))], [((rows,), ())])


# A counter-based generator takes some ten integer operations for a number.
# Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011 (Philox, 10 rounds).
enter(
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    rule=drawn_rule,
    differentiable=(),
    flops=per_result(10),
)
enter("RandomNormal", "RandomUniform", rule=drawn_rule, differentiable=(), flops=per_result(10))


@operator("Multinomial", rule=multinomial_rule, differentiable=())
def _multinomial_flops(view: OpView) -> int:
    """Cumulative probabilities of each row, and a draw for each sample."""
    return 2 * view.graph.tensors[view.op.inputs[0]].elements + 10 * view.outputs[0].elements


DRAWN = kinds_of("random") | {kind for kind, each in catalogue().items() if each.draws}
"""Each of them draws numbers of its own."""

write(
    RandomNormal="normal", RandomNormalLike="normal", RandomUniform="uniform",
    RandomUniformLike="uniform", Bernoulli="bernoulli", Multinomial="multinomial",
)  # fmt: skip
show(
    Multinomial="(float[2,6] x) => (y) {y = Multinomial<sample_size=4>(x)}",
    RandomNormal="() => (y) {y = RandomNormal<shape=[4,6]>()}",
    RandomUniform="() => (y) {y = RandomUniform<shape=[4,6]>()}",
)  # fmt: skip
