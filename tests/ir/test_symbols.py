"""Sizes that are not fixed: their notation, and what divides them whatever they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.graph import Op, OpGraph, Role, Tensor
from ir.symbols import Symbol, SymbolError, parse_symbol, sample_points, with_divisors


@st.composite
def symbols(draw: st.DrawFn) -> Symbol:
    divisor = draw(st.integers(1, 64))
    least, steps = draw(st.integers(1, 500)), draw(st.integers(1, 30))
    return Symbol(least, least + steps * divisor, divisor, draw(st.integers(0, divisor - 1)))


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


def test_a_model_of_other_operators_is_refused() -> None:
    first = _graph({"x": 8}, {"b": 8})
    other = _graph({"z": 4}, {"b": 4})
    with pytest.raises(SymbolError, match="other operators where b=4, from 'x' on"):
        with_divisors(replace(first, variants=(other,)))
