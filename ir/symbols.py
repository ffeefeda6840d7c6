"""Sizes that are not fixed: what a dynamic dimension can be, and what divides it whatever it is.

A model with symbols is imported several times, at neighbouring values. Sizes are polynomials of the
symbols in almost every model, so that the greatest common divisor over enough neighbours divides
them at every value; further values confirm that they are polynomials, and a size that is none of
degree `DEGREE` in each symbol is not split. See docs/concepts.md.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ir.graph import Op, OpGraph
from ir.ops import OpView, lookup
from ir.ops.windows import with_whole_positions
from ir.rule import ShardingRule

DEGREE = 2
"""Highest degree in one symbol of a size that is followed: the square of a sequence length."""
MAX_SYMBOLS = 3
"""Each further one triples the values at which the model is read."""

_TEXT = re.compile(
    r"(?P<least>[1-9]\d{0,12})\.\.(?P<most>[1-9]\d{0,12})(?P<open>\.\.)?"
    r"(/(?P<divisor>[1-9]\d{0,12})(\+(?P<remainder>\d{1,13}))?)?"
)


class SymbolError(ValueError):
    """A symbol that no size satisfies, or a model that it does not fit; the message has what, where
    and how to mend it.
    """


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a dynamic dimension can be: `divisor * n + remainder` from `least` to `most`, or beyond.

    The vocabulary is that of MindSpore's `Symbol(max, min, divisor, remainder)`.
    """

    least: int
    most: int
    divisor: int = 1
    remainder: int = 0
    is_open: bool = field(default=False, kw_only=True)
    """Whether larger sizes occur too: splits fit them, times and memory are taken up to `most`."""

    def __post_init__(self) -> None:
        if not 0 <= self.remainder < self.divisor:
            raise SymbolError(f"the remainder {self.remainder} is not below {self.divisor}")
        if self.least > self.most:
            raise SymbolError(f"the least size, {self.least}, is more than the most, {self.most}")
        if not self.values:
            raise SymbolError(f"no size from {self.least} to {self.most} is {self._form}")

    @property
    def _form(self) -> str:
        rest = f" with remainder {self.remainder}" if self.remainder else ""
        return f"a multiple of {self.divisor}{rest}"

    @property
    def values(self) -> range:
        """All sizes up to `most`, smallest first."""
        first = self.least + (self.remainder - self.least) % self.divisor
        return range(first, self.most + 1, self.divisor)

    @property
    def value(self) -> int:
        """The size at which times and memory are taken: the largest of `values`."""
        return self.values[-1]

    def __str__(self) -> str:
        """The notation of `parse_symbol`."""
        rest = f"+{self.remainder}" if self.remainder else ""
        more = ".." if self.is_open else ""
        return f"{self.least}..{self.most}{more}/{self.divisor}{rest}"


def parse_symbol(text: str) -> Symbol:
    """A symbol from its notation.

    >>> parse_symbol("16..64/16")
    Symbol(least=16, most=64, divisor=16, remainder=0, is_open=False)
    >>> str(parse_symbol("3..99/8+3"))
    '3..99/8+3'
    >>> parse_symbol("16..64../16").is_open
    True

    Raises:
        SymbolError: it is not in that notation, or no size satisfies it.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise SymbolError(f"{text!r} is no range of sizes such as 16..64/16")
    divisor, remainder = int(match["divisor"] or 1), int(match["remainder"] or 0)
    least, most, is_open = int(match["least"]), int(match["most"]), match["open"] is not None
    return Symbol(least, most, divisor, remainder, is_open=is_open)


Binding = Mapping[str, int | Symbol]
"""What dynamic dimensions are: a size, or a range of sizes."""


def sample_points(bind: Binding) -> tuple[dict[str, int], ...]:
    """The values at which a model is read: first those at which it is planned.

    They are the `DEGREE + 1` largest values of each symbol in all combinations, which tell what
    divides a polynomial, then smaller ones to confirm that a size is one.

    Raises:
        SymbolError: more symbols than can be followed.
    """
    fixed = {name: size for name, size in bind.items() if isinstance(size, int)}
    symbols = {name: each for name, each in bind.items() if isinstance(each, Symbol)}
    if len(symbols) > MAX_SYMBOLS:
        raise SymbolError(
            f"{len(symbols)} dimensions have ranges\n  at:  --bind\n"
            f"  fix: give at most {MAX_SYMBOLS} a range, and the others one size"
        )
    grid = itertools.product(*(_neighbours(s) for s in symbols.values()))
    points = [*grid, *_confirming(list(symbols.values()))]
    return tuple(
        {**fixed, **dict(zip(symbols, point, strict=True))} for point in dict.fromkeys(points)
    )


def _neighbours(symbol: Symbol) -> Sequence[int]:
    """The largest values, the largest first."""
    return symbol.values[: -DEGREE - 2 : -1]


def _confirming(symbols: Sequence[Symbol]) -> list[tuple[int, ...]]:
    """Values of all symbols further down: of one alone, and of all together."""
    largest = tuple(s.value for s in symbols)
    out: list[tuple[int, ...]] = []
    for index, symbol in enumerate(symbols):
        count = len(symbol.values)
        for place in (0, 1, count // 3, count // 2):
            value = symbol.values[min(place, count - 1)]
            out.append((*largest[:index], value, *largest[index + 1 :]))
    out.append(tuple(s.values[0] for s in symbols))
    return out


def with_divisors(graph: OpGraph) -> OpGraph:
    """The graph alone, with what divides each size and factor at every value of the symbols.

    Args:
        graph: prepared, and with it its variants at the other values of `sample_points`.

    Raises:
        SymbolError: the model has other operators at other values.
    """
    if not graph.variants:
        return graph
    for variant in graph.variants:
        _check_same(graph, variant)
    reader = _Divisors(graph)
    tensors = {
        name: replace(tensor, divisors=reader.divisors([g.tensors[name].dims for g in reader.all]))
        for name, tensor in graph.tensors.items()
    }
    ops = tuple(reader.operator(i) for i in range(len(graph.ops)))
    return replace(graph, tensors=tensors, ops=ops, variants=())


def _check_same(graph: OpGraph, variant: OpGraph) -> None:
    here, there = ([(o.name, o.kind, o.inputs, o.outputs) for o in g.ops] for g in (graph, variant))
    ranks = all(
        name in variant.tensors and len(variant.tensors[name].dims) == len(tensor.dims)
        for name, tensor in graph.tensors.items()
    )
    if here == there and ranks:
        return
    first = next((a[0] for a, b in zip(here, there, strict=False) if a != b), graph.ops[-1].name)
    values = ", ".join(f"{name}={size}" for name, size in variant.symbols.items())
    raise SymbolError(
        f"the model has other operators where {values}, from {first!r} on\n"
        "  at:  --bind\n  fix: give the dimension one size, or a range without this value"
    )


class _Divisors:
    """What divides the sizes of a graph, read off its variants."""

    def __init__(self, graph: OpGraph) -> None:
        self.all = (graph, *graph.variants)
        points = [tuple(g.symbols.values()) for g in self.all]
        axes = list(zip(*points, strict=True))
        self.grid = [sorted(set(axis), reverse=True)[: DEGREE + 1] for axis in axes]
        inside = [all(v in a for v, a in zip(p, self.grid, strict=True)) for p in points]
        self.near = [i for i, flag in enumerate(inside) if flag]
        self.points = points
        self.weights = {i: self._weights(points[i]) for i, flag in enumerate(inside) if not flag}

    def divisors(self, dims: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """What divides each size.

        Args:
            dims: the sizes in each of the graphs.
        """
        return tuple(self._divisor(tuple(s), list(self.weights)) for s in zip(*dims, strict=True))

    def operator(self, index: int) -> Op:
        """An operator with what divides its factors: 1 where they cannot be told from one another,
        because its rule is another one near by, or at all values further down.

        Further down alone it may be another one: a batch of 1 is not followed everywhere. Positions
        are told apart from the others: those that windows keep step with at some values only are
        divided by 1.
        """
        op = self.all[0].ops[index]
        rules, out_of_step = _alike([_rule(g, index) for g in self.all])
        first = rules[0]
        same = [i for i, rule in enumerate(rules) if replace(rule, sizes=first.sizes) == first]
        far = [i for i in same if i in self.weights]
        if not set(self.near) <= set(same) or (self.weights and not far):
            return replace(op, divisors=(1,) * len(first.sizes))
        sizes = (
            [rules[i].sizes[f] if i in same else 0 for i in range(len(rules))]
            for f in range(len(first.sizes))
        )
        found = [self._divisor(tuple(s), far) for s in sizes]
        known = (1 if f in out_of_step else divisor for f, divisor in enumerate(found))
        return replace(op, divisors=tuple(known))

    def _divisor(self, sizes: tuple[int, ...], far: Sequence[int]) -> int:
        """What divides a size, given in all graphs; 1 unless it is a polynomial also `far` down."""
        near = [sizes[i] for i in self.near]
        fine = all(
            sum(w * s for w, s in zip(self.weights[i], near, strict=True)) == sizes[i] for i in far
        )
        return math.gcd(*near) if fine else 1

    def _weights(self, point: tuple[int, ...]) -> list[int]:
        """Those with which the sizes near give that of a polynomial at another point (Lagrange)."""
        out: list[int] = []
        for i in self.near:
            weight = 1
            for value, node, axis in zip(point, self.points[i], self.grid, strict=True):
                others = [a for a in axis if a != node]
                weight *= math.prod(value - a for a in others)
                # Exact: the values of an axis are equally far apart, and `value` is one of them.
                weight //= math.prod(node - a for a in others)
            out.append(weight)
        return out


def _alike(rules: list[ShardingRule]) -> tuple[list[ShardingRule], frozenset[int]]:
    """Rules of one operator, positions whole where not all have the same windows, and the factors
    of those windows.
    """
    every = [frozenset(rule.windows) for rule in rules]
    out_of_step = frozenset().union(*every) - every[0].intersection(*every)
    if not out_of_step:
        return rules, frozenset()
    positions = frozenset(window.factor for window in out_of_step)
    return [with_whole_positions(rule) for rule in rules], positions


def _rule(graph: OpGraph, index: int) -> ShardingRule:
    op = graph.ops[index]
    return lookup(op.kind).rule(OpView(op, graph))
