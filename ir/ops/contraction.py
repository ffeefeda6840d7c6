"""Products: MatMul, Gemm and Einsum. The factor that both operands share and the result lacks
leaves a partial sum.
"""

from __future__ import annotations

from ir.ops.elementwise import pointwise_rule
from ir.ops.registry import (
    Engine,
    Needs,
    OpView,
    enter,
    forms,
    operator,
    per_result,
    primitives,
    show,
    write,
)
from ir.rule import FactorMap, RuleBuilder, ShardingRule

SCALE = "Scale"


def matmul_rule(view: OpView) -> ShardingRule:
    """`... m k, ... k n -> ... m n` with broadcast batch dimensions, `trans_a` and `trans_b`, and
    vectors.
    """
    a, b, result = view.dims(0), view.dims(1), view.result()
    builder = RuleBuilder()
    batch_rank = max(len(a), len(b), 2) - 2
    batch = builder.factors(result[:batch_rank])
    trans_a, trans_b = bool(view.int("trans_a")), bool(view.int("trans_b"))
    m = builder.factor(_matrix_dims(a, transposed=trans_a, left=True)[0])
    k = builder.factor(_matrix_dims(a, transposed=trans_a, left=True)[1])
    n = builder.factor(_matrix_dims(b, transposed=trans_b, left=False)[1])
    tail = [(f,) for f, present in ((m, len(a) > 1), (n, len(b) > 1)) if present]
    return builder.build(
        [
            _operand_map(a, result, batch, (k, m) if trans_a else (m, k), vector=k),
            _operand_map(b, result, batch, (n, k) if trans_b else (k, n), vector=k),
        ],
        [(*((f,) for f in batch), *tail)],
    )


def _matrix_dims(dims: tuple[int, ...], *, transposed: bool, left: bool) -> tuple[int, int]:
    if len(dims) == 1:
        return (1, dims[0]) if left else (dims[0], 1)
    return (dims[-1], dims[-2]) if transposed else (dims[-2], dims[-1])


def _operand_map(
    dims: tuple[int, ...],
    result: tuple[int, ...],
    batch: list[int],
    matrix: tuple[int, int],
    vector: int,
) -> FactorMap:
    if len(dims) == 1:
        return ((vector,),)
    own = dims[:-2]
    shift = len(batch) - len(own)
    head = tuple((batch[shift + i],) if d == result[shift + i] else () for i, d in enumerate(own))
    return (*head, (matrix[0],), (matrix[1],))


@operator(
    "MatMul",
    rule=matmul_rule,
    engine=Engine.MATRIX,
    needs=Needs.OTHERS,
    parameter_operands=(1,),
    broadcasts=True,
)
def matmul_flops(view: OpView) -> int:
    """One multiply and one add per element of the iteration space."""
    inner = _matrix_dims(view.dims(0), transposed=bool(view.int("trans_a")), left=True)[1]
    return 2 * view.outputs[0].elements * inner


def einsum_rule(view: OpView) -> ShardingRule:
    """Rule read off the equation; letters that one term repeats stay whole."""
    terms, result = _einsum_terms(view)
    operands = [t.dims for t in view.inputs if t is not None]
    builder = RuleBuilder()
    sizes: dict[str, int] = {}
    for term, dims in zip((*terms, result), (*operands, view.result()), strict=True):
        for name, dim in zip(term, dims, strict=True):
            sizes[name] = max(dim, sizes.get(name, 0))
    letters = {name: builder.factor(size) for name, size in sizes.items()}
    repeated = {n for term in terms for n in term if term.count(n) > 1}
    builder.locked.update(letters[n] for n in repeated)
    maps: list[FactorMap | None] = [
        tuple(
            (letters[n],) if d == sizes[n] and n not in repeated else ()
            for n, d in zip(term, dims, strict=True)
        )
        for term, dims in zip((*terms, result), (*operands, view.result()), strict=True)
    ]
    return builder.build(maps[:-1], maps[-1:])


def _einsum_terms(view: OpView) -> tuple[list[list[str]], list[str]]:
    """Names of the dimensions of every operand and of the result; those of an ellipsis are counted
    from the right.
    """
    equation = str(view.op.attributes["equation"]).replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow:
        letters = [c for c in left if c.isalpha()]
        right = "..." * ("..." in left) + "".join(
            sorted(c for c in set(letters) if letters.count(c) == 1)
        )
    ranks = [len(t.dims) for t in view.inputs if t is not None]
    terms = [_einsum_names(t, rank) for t, rank in zip(left.split(","), ranks, strict=True)]
    return terms, _einsum_names(right, len(view.result()))


def _einsum_names(term: str, rank: int) -> list[str]:
    head, dots, tail = term.partition("...")
    middle = rank - len(head) - len(tail) if dots else 0
    return [*head, *(f"...{middle - i}" for i in range(middle)), *tail]


@operator("Einsum", rule=einsum_rule, engine=Engine.MATRIX, needs=Needs.OTHERS)
def einsum_flops(view: OpView) -> int:
    """Two operations per element of the whole iteration space."""
    space = 2
    for size in einsum_rule(view).sizes:
        space *= size
    return space


enter(SCALE, rule=pointwise_rule, fusible=True, flops=per_result(1))

primitives("MatMul")
write(MatMul="matmul", Einsum="einsum", **{SCALE: "scaled"})
forms(MatMul="product")
show(
    Einsum='(float[2,4,6] x, float[2,6,8] z) => (y) {y = Einsum<equation="bij,bjk->bik">(x, z)}',
    MatMul="(float[2,4,6] x, float[6,8] w) => (y) {y = MatMul(x, w)}",
)  # fmt: skip
