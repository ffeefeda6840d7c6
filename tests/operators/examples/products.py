"""Examples of products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from tests.operators.example import Draw, Example, Maker, example, floats, some_dims


def _matmul(draw: Draw) -> Iterator[Example]:
    """Matrices, batches that broadcast, transposed operands, vectors, odd extents."""
    m, k, n = some_dims(draw, 3, (3, 4, 6, 8))
    yield example("MatMul", [floats(draw, m, k), floats(draw, k, n)], [(m, n)])
    yield example("MatMul", [floats(draw, 8, 6), floats(draw, 6, 4)], [(8, 4)])
    yield example("MatMul", [floats(draw, 2, m, k), floats(draw, n, k)], [(2, m, n)], trans_b=1)
    yield example("MatMul", [floats(draw, 4, k, m), floats(draw, 4, k, n)], [(4, m, n)], trans_a=1)
    yield example("MatMul", [floats(draw, 1, 3, m, k), floats(draw, 4, 1, k, n)], [(4, 3, m, n)])
    yield example("MatMul", [floats(draw, k), floats(draw, k, n)], [(n,)])
    yield example("MatMul", [floats(draw, m, k), floats(draw, k)], [(m,)])
    yield example("MatMul", [floats(draw, k), floats(draw, k)], [()])
    yield example("MatMul", [floats(draw, k), floats(draw, 2, 1, k, n)], [(2, 1, n)])
    yield example("MatMul", [floats(draw, 2, m, k), floats(draw, k)], [(2, m)])
    yield example("MatMul", [floats(draw, m, k), floats(draw, n, k)], [(m, n)], trans_b=1)
    yield example("MatMul", [floats(draw, 2, m, k), floats(draw, k, n)], [(2, m, n)])
    yield example("MatMul", [floats(draw, k, m), floats(draw, k, n)], [(m, n)], trans_a=1)
    data = [floats(draw, 2, 6, 4), floats(draw, 2, 2, 6)]
    yield example("MatMul", data, [(2, 4, 2)], trans_a=1, trans_b=1)
    yield example("MatMul", [floats(draw, 2, 1, 4, 6), floats(draw, 8, 6, 2)], [(2, 8, 4, 2)])


def _einsum(draw: Draw) -> Iterator[Example]:
    """Products, traces, sums, batches of any rank, three operands, dimensions that broadcast."""
    cases: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
        ("ij,jk->ik", ((8, 4), (4, 8))), ("ij,jk", ((3, 4), (4, 5))), ("ba,bc", ((4, 2), (4, 6))),
        ("...ij,...jk->...ik", ((2, 3, 4), (4, 6))), ("b...i,...i->b...", ((3, 4, 6), (4, 6))),
        ("bhid,bhjd->bhij", ((2, 3, 4, 5), (2, 3, 6, 5))), ("...i,i", ((2, 4, 6), (6,))),
        ("ii->i", ((4, 4),)), ("bii->b", ((3, 4, 4),)), ("ij->", ((3, 4),)), ("ij->ji", ((3, 4),)),
        ("bij,bjk,bk->bi", ((2, 4, 6), (2, 6, 3), (2, 3))), ("i,j->ij", ((5,), (6,))),
        ("...ij,...ij->...ij", ((1, 3, 4), (2, 3, 4))),
        ("bi,bj->bij", ((2, 4), (1, 6))),
    )  # fmt: skip
    for equation, shapes in cases:
        operands = [floats(draw, *dims) for dims in shapes]
        dims = np.einsum(equation, *operands).shape
        yield example("Einsum", operands, [dims], equation=equation)


def _scale(draw: Draw) -> Iterator[Example]:
    for dims in ((), (8, 8, 8), (3, 5)):
        yield example("Scale", [floats(draw, *dims)], [dims], scale=-1.7)


PRODUCTS: Mapping[str, Maker] = MappingProxyType(
    {"MatMul": _matmul, "Einsum": _einsum, "Scale": _scale}
)
