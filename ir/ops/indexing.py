"""Gathers and scatters."""

from __future__ import annotations

from ir.ops.registry import Needs, OpView, operator
from ir.rule import FactorMap, RuleBuilder, ShardingRule, single


def gather_rule(view: OpView) -> ShardingRule:
    """`a... v c..., i... -> a... i... c...`: split rows of the table are looked up under a mask
    and summed.
    """
    builder = RuleBuilder()
    data, indices, axis = view.dims(0), view.dims(1), view.int("axis")
    table = builder.factors(data)
    rows = builder.factors(indices)
    if not indices:
        builder.locked.add(table[axis])
    builder.lookup.add(table[axis])
    result = single([*table[:axis], *rows, *table[axis + 1 :]])
    return builder.build([single(table), single(rows)], [result], order=(*rows, *table))


def gather_nd_rule(view: OpView) -> ShardingRule:
    """`b... j... c..., b... i... j -> b... i... c...`: looked-up dimensions stay whole.

    The attribute `identity_coordinates` lists pairs (data dimension, index dimension) whose
    coordinate is the position itself; those two are one factor.
    """
    builder = RuleBuilder()
    data, indices, batch = view.dims(0), view.dims(1), view.int("batch_dims")
    index_factors = builder.factors(indices[:-1])
    looked_up = indices[-1]
    operand: list[tuple[int, ...]] = [(f,) for f in index_factors[:batch]] + [()] * looked_up
    rest = builder.factors(data[batch + looked_up :])
    operand += [(f,) for f in rest]
    pairs = view.ints("identity_coordinates")
    for data_dim, index_dim in zip(pairs[::2], pairs[1::2], strict=True):
        operand[data_dim] = (index_factors[index_dim],)
    return builder.build(
        [tuple(operand), (*single(index_factors), ())], [single([*index_factors, *rest])]
    )


def elements_rule(view: OpView) -> ShardingRule:
    """Gather or scatter of single elements along `axis`: the other dimensions pass where all
    tensors share them.
    """
    builder = RuleBuilder()
    axis = view.int("axis")
    tensors = [t for t in (*view.inputs, *view.outputs) if t is not None]
    factors = [
        None if d == axis or len({t.dims[d] for t in tensors}) > 1 else builder.factor(size)
        for d, size in enumerate(view.dims(0))
    ]
    mapping: FactorMap = tuple(() if f is None else (f,) for f in factors)
    return builder.build([mapping if t is not None else None for t in view.inputs], [mapping])


def scatter_nd_rule(view: OpView) -> ShardingRule:
    """`j... c..., i... j, i... c... -> j... c...`: addressed dimensions stay whole."""
    builder = RuleBuilder()
    data, indices = view.dims(0), view.dims(1)
    looked_up = indices[-1]
    rest = builder.factors(data[looked_up:])
    whole: FactorMap = (*((),) * looked_up, *single(rest))
    index: FactorMap = ((),) * len(indices)
    updates: FactorMap = (*((),) * (len(indices) - 1), *single(rest))
    return builder.build([whole, index, updates], [whole])


def _looked_up_bytes(view: OpView) -> int:
    """Rows read and written, and the indices: not the whole table."""
    index = view.inputs[1]
    return 2 * view.outputs[0].nbytes + (index.nbytes if index else 0)


@operator(
    "Gather",
    rule=gather_rule,
    needs=Needs.OTHERS,
    differentiable=(0,),
    parameter_operands=(0,),
    touched_bytes=_looked_up_bytes,
)
@operator(
    "GatherND",
    rule=gather_nd_rule,
    needs=Needs.OTHERS,
    differentiable=(0,),
    touched_bytes=_looked_up_bytes,
)
@operator("GatherElements", rule=elements_rule, needs=Needs.OTHERS, differentiable=(0,))
@operator("ScatterElements", rule=elements_rule, needs=Needs.OTHERS, differentiable=(0, 2))
@operator("ScatterND", rule=scatter_nd_rule, needs=Needs.OTHERS, differentiable=(0, 2))
def _indexing_flops(_: OpView) -> int:
    return 0
