"""Sizes that are not fixed: their notation, and what divides them whatever they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.graph import Op, OpGraph, Role, Tensor
from ir.ops import OpView, lookup
from ir.symbols import Symbol, SymbolError, parse_symbol, sample_points, with_divisors
from tests.builders import GraphBuilder


@st.composite
def symbols(draw: st.DrawFn) -> Symbol:
    divisor = draw(st.integers(1, 64))
    least, steps = draw(st.integers(1, 500)), draw(st.integers(1, 30))
    remainder, is_open = draw(st.integers(0, divisor - 1)), draw(st.booleans())
    return Symbol(least, least + steps * divisor, divisor, remainder, is_open=is_open)


@given(symbols())
def test_a_symbol_is_read_back_from_its_notation(symbol: Symbol) -> None:
    assert parse_symbol(str(symbol)) == symbol


@given(symbols())
def test_values_are_all_sizes_of_the_form(symbol: Symbol) -> None:
    every = range(symbol.least, symbol.most + 1)
    fitting = [v for v in every if v % symbol.divisor == symbol.remainder]
    assert list(symbol.values) == fitting
    assert symbol.value == max(fitting)


@pytest.mark.parametrize("text", ["", "16", "16..8", "8..16/0", "1..7/8", "8..64/8+8", "0..4", "a"])
def test_what_is_no_range_of_sizes_is_refused(text: str) -> None:
    with pytest.raises(SymbolError):
        parse_symbol(text)


def test_too_many_ranges_are_refused() -> None:
    with pytest.raises(SymbolError, match="4 dimensions have ranges"):
        sample_points({name: Symbol(1, 9) for name in "abcd"})


def _graph(sizes: dict[str, int], point: dict[str, int]) -> OpGraph:
    """One vector of each size, and nothing done to it."""
    tensors = {n: Tensor(n, (size,), "float32", Role.INPUT) for n, size in sizes.items()}
    tensors |= {f"{n}'": Tensor(f"{n}'", (size,), "float32") for n, size in sizes.items()}
    ops = tuple(Op(n, "Relu", (n,), (f"{n}'",)) for n in sizes)
    outputs = tuple(f"{n}'" for n in sizes)
    return OpGraph("g", tensors, ops, tuple(sizes), outputs, symbols=point)


FORMULAS: dict[str, Callable[[int, int], int]] = {
    "linear": lambda b, _: 6 * b + 4,
    "product": lambda b, s: 3 * b * s,
    "square": lambda b, s: b * s * s + s,
    "halves": lambda b, _: 8 * (b // 2),
    "sevenths": lambda b, s: s * (b // 7 + 1),
    "larger": lambda b, s: 12 * max(b, s),
    "fixed": lambda _, __: 25,
}


@given(symbols(), symbols())
def test_divisors_divide_at_every_value(b: Symbol, s: Symbol) -> None:
    points = sample_points({"b": b, "s": s})
    graphs = [_graph({n: f(p["b"], p["s"]) for n, f in FORMULAS.items()}, p) for p in points]
    made = with_divisors(replace(graphs[0], variants=tuple(graphs[1:])))
    for op, (name, formula) in zip(made.ops, FORMULAS.items(), strict=True):
        true = math.gcd(*(formula(x, y) for x in b.values for y in s.values))
        (found,) = made.tensors[name].divisors or made.tensors[name].dims
        assert true % found == 0
        assert all(true % divisor == 0 for divisor in op.divisors)
        if name in {"linear", "product", "square", "fixed"}:
            assert found == true
            assert op.divisors in {(true,), ()}
    assert made.variants == ()


def _strided(height: int, kernel: int, pads: tuple[int, int]) -> OpGraph:
    """A convolution whose windows keep step with even heights, if with any."""
    build = GraphBuilder("strided")
    operands = (build.input("x", (8, 4, height, 16)), build.weight("w", (4, 4, kernel, kernel)))
    made = (height + sum(pads) - kernel) // 2 + 1
    result = build.op(
        "Conv", operands, (8, 4, made, 8), strides=(2, 2), pads=(pads[0], 0, pads[1], kernel - 2)
    )
    return replace(build.build(result), symbols={"h": height})


@pytest.mark.parametrize("symbol", [Symbol(9, 40), Symbol(8, 40, 4)])
def test_images_are_split_whatever_the_positions_are(symbol: Symbol) -> None:
    """Positions may be cut only where windows keep step with them at every size."""
    graphs = [_strided(point["h"], 3, (1, 1)) for point in sample_points({"h": symbol})]
    (op,) = with_divisors(replace(graphs[0], variants=tuple(graphs[1:]))).ops
    rule = lookup("Conv").rule(OpView(op, graphs[0]))
    images, _, read, made, rows, columns = (op.divisors[f] for f in (0, 1, 2, 3, 4, 6))
    assert (images, read, made, columns) == (8, 4, 4, 8)
    assert rows == (1 if symbol.divisor == 1 else 2)
    assert rule.windows[0].factor == 4


def test_a_model_of_other_operators_is_refused() -> None:
    first = _graph({"x": 8}, {"b": 8})
    other = _graph({"z": 4}, {"b": 4})
    with pytest.raises(SymbolError, match="other operators where b=4, from 'x' on"):
        with_divisors(replace(first, variants=(other,)))
