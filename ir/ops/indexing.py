"""Gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence

from ir.ops.registry import Needs, OpView, Resizing, enter, forms, primitives, show, write
from ir.rule import FactorMap, RuleBuilder, ShardingRule, single


def gather_rule(view: OpView) -> ShardingRule:
    """`a... v c..., i... -> a... i... c...`: split rows of the table are looked up under a mask
    and summed. MindSpore does so along the first dimension of a vector or a matrix alone.
    """
    builder = RuleBuilder()
    data, indices, axis = view.dims(0), view.dims(1), view.int("axis")
    table = builder.factors(data)
    rows = builder.factors(indices)
    if not indices:
        builder.locked.add(table[axis])
    builder.lookup.add(table[axis])
    if axis or len(data) > 2:
        builder.uncut.add(table[axis])
    result = single([*table[:axis], *rows, *table[axis + 1 :]])
    return builder.build([single(table), single(rows)], [result], order=(*rows, *table))


def gather_nd_rule(view: OpView) -> ShardingRule:
    """`b... j... c..., b... i... j -> b... i... c...`: looked-up dimensions stay whole. MindSpore
    keeps all of the data whole.

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
    builder.uncut.update(f for dim in operand for f in dim)
    return builder.build(
        [tuple(operand), (*single(index_factors), ())], [single([*index_factors, *rest])]
    )


def gather_elements_rule(view: OpView) -> ShardingRule:
    """Single elements along `axis`: other dimensions pass where all tensors have the same, and the
    indices may be shared out along the axis.
    """
    builder = RuleBuilder()
    data, indices, axis = view.dims(0), view.dims(1), view.int("axis")
    same = [d == s and i != axis for i, (d, s) in enumerate(zip(data, indices, strict=True))]
    factors = [builder.factor(s) if f or i == axis else None
               for i, (s, f) in enumerate(zip(indices, same, strict=True))]  # fmt: skip
    builder.uncut.update(f for i, f in enumerate(factors) if i == axis and f is not None)
    rows: FactorMap = tuple(() if f is None else (f,) for f in factors)
    table: FactorMap = tuple(m if f else () for m, f in zip(rows, same, strict=True))
    return builder.build([table, rows], [rows])


def scatter_elements_rule(view: OpView) -> ShardingRule:
    """Single elements along `axis`: the other dimensions pass where all tensors have the same.

    Updates that are added may be shared out along the axis: the results are terms of a sum, of
    which one has the data.
    """
    builder = RuleBuilder()
    data, indices, axis = view.dims(0), view.dims(1), view.int("axis")
    same = [d == s and i != axis for i, (d, s) in enumerate(zip(data, indices, strict=True))]
    whole: FactorMap = tuple(
        (builder.factor(s),) if f else () for s, f in zip(data, same, strict=True)
    )
    shared = _shared_out(builder, [indices[axis]], view)
    rows: FactorMap = tuple(m if i != axis else shared[0] for i, m in enumerate(whole))
    return builder.build([whole, rows, rows], [whole])


def _shared_out(builder: RuleBuilder, dims: Sequence[int], view: OpView) -> FactorMap:
    """Dimensions of updates that devices may share out: those of a sum."""
    if view.op.attributes.get("reduction") != "add":
        return ((),) * len(dims)
    factors = builder.factors(dims)
    builder.uncut.update(factors)
    return single(factors)


def scatter_nd_rule(view: OpView) -> ShardingRule:
    """`j... c..., i... j, i... c... -> j... c...`: every device takes the updates of its own rows.

    Updates that are added may be shared out: the results are terms of a sum, of which one has the
    data.
    """
    builder = RuleBuilder()
    data, indices = view.dims(0), view.dims(1)
    looked_up = indices[-1]
    table = builder.factors(data)
    builder.uncut.update(table[:looked_up])
    index = _shared_out(builder, indices[:-1], view)
    updates: FactorMap = (*index, *single(table[looked_up:]))
    return builder.build([single(table), (*index, ()), updates], [single(table)])


def tensor_scatter_rule(view: OpView) -> ShardingRule:
    """A cache, new rows, and for every batch where they go: all dimensions pass but the rows."""
    builder = RuleBuilder()
    rank = len(view.dims(0))
    axis = view.int("axis", rank - 2)
    factors = builder.factors(view.dims(0))
    builder.locked.add(factors[axis])
    new: FactorMap = tuple((f,) if i != axis else () for i, f in enumerate(factors))
    first: list[FactorMap | None] = [((factors[0],),)] if view.has(2) else []
    absent: list[FactorMap | None] = [None] * (len(view.op.inputs) - 2 - len(first))
    return builder.build([single(factors), new, *first, *absent], [single(factors)])


def _looked_up_bytes(view: OpView) -> int:
    """Rows read and written, and the indices: not the whole table."""
    index = view.inputs[1]
    return 2 * view.outputs[0].nbytes + (index.nbytes if index else 0)


ROW_LOOKUPS = ("Gather", "GatherND")
"""What takes the parts of a table that an index names."""
LOOKUPS = (*ROW_LOOKUPS, "GatherElements")
"""The same, with what takes single elements."""
BY_ELEMENT = ("GatherElements", "ScatterElements")
"""Each index is the place of one element along an axis."""
BY_COORDINATES = ("GatherND", "ScatterND")
"""Each row of indices is the place of an element, or of a part, in several dimensions."""

enter("TensorScatter", rule=tensor_scatter_rule, needs=Needs.OTHERS, differentiable=(0, 1))
enter(
    "ScatterND", rule=scatter_nd_rule, needs=Needs.OTHERS, differentiable=(0, 2),
    resizing=Resizing.COORDINATES,
)  # fmt: skip
enter(
    "ScatterElements", rule=scatter_elements_rule, needs=Needs.OTHERS, differentiable=(0, 2),
    resizing=Resizing.ELEMENTS,
)  # fmt: skip
enter(
    "GatherElements", rule=gather_elements_rule, needs=Needs.OTHERS, differentiable=(0,),
    resizing=Resizing.ELEMENTS,
)  # fmt: skip
enter(
    "GatherND",
    rule=gather_nd_rule,
    needs=Needs.OTHERS,
    differentiable=(0,),
    touched_bytes=_looked_up_bytes,
)
enter(
    "Gather",
    rule=gather_rule,
    resizing=Resizing.ROWS,
    whole_at_any_size=True,
    needs=Needs.OTHERS,
    differentiable=(0,),
    parameter_operands=(0,),
    touched_bytes=_looked_up_bytes,
)

write(
    TensorScatter="tensor_scatter",
    Gather="gather", GatherElements="gather_elements", GatherND="gather_nd",
    ScatterElements="scatter_elements", ScatterND="scatter_nd",
)  # fmt: skip
primitives("Gather", GatherElements="GatherD", GatherND="GatherNd")
forms(ScatterND="scatter", GatherND="gather_nd")
show(
    Gather="(float[12,6] x, int64[2,4] i) => (y) {y = Gather(x, i)}",
    GatherElements="(float[2,4] x, int64[2,6] i) => (y) {y = GatherElements<axis=1>(x, i)}",
    GatherND="(float[4,6,8] x, int64[2,2] i) => (y) {y = GatherND(x, i)}",
    ScatterElements="(float[2,4] x, int64[2,6] i, float[2,6] u) => (y) {y = "
    "ScatterElements<axis=1>(x, i, u)}",
    ScatterND="(float[4,6,8] x, int64[2,1] i, float[2,6,8] u) => (y) {y = ScatterND(x, i, u)}",
    TensorScatter="(float[2,4,8,6] x, float[2,4,3,6] u, int64[2] i) => (y) {y = "
    "TensorScatter(x, u, i)}",
)  # fmt: skip
