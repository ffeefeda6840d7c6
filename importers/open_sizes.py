"""A model whose dimensions are open: read at example sizes, its numbers as formulas of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from importers.errors import ModelError, UnboundError
from importers.model_file import ModelFormat
from ir.graph import OpGraph
from ir.symbols import DEGREE, MAX_SYMBOLS, Binding, sample_points

Sizes: TypeAlias = Mapping[str, int]
Numbers: TypeAlias = Mapping[str, int]

SCALES = (1, 4, 14)
"""Times the example sizes: a network of images may need positions enough for its windows."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A model at one size of each open dimension."""

    graph: OpGraph
    sizes: Sizes
    """Example sizes of the dimensions that nobody bound."""
    at: Callable[[Sizes], OpGraph]
    """The model at other sizes of these."""


def reading(source: ModelFormat, path: Path, bind: Binding) -> Reading:
    """The model with what is bound, and examples for what is not.

    Raises:
        ModelError: it cannot be read, or not at the example sizes.
    """
    bound = sample_points(bind)[0]

    def at(sizes: Sizes) -> OpGraph:
        return source.graph(path, {**bound, **sizes})

    sizes: dict[str, int] = {}
    while True:
        try:
            return _scaled(at, sizes)
        except UnboundError as error:
            sizes |= error.sizes


def _scaled(at: Callable[[Sizes], OpGraph], sizes: Sizes) -> Reading:
    """The reading at the least scale of the sizes at which the model can be read."""
    first: ModelError | None = None
    for scale in SCALES if sizes else SCALES[:1]:
        scaled = {name: size * scale for name, size in sizes.items()}
        try:
            return Reading(at(scaled), scaled, at)
        except UnboundError:
            raise
        except ModelError as error:
            first = first or error
    assert first is not None
    raise first


def formulas(found: Reading, numbers: Callable[[OpGraph], Numbers]) -> dict[str, str]:
    """What numbers of the model are at every size, as polynomials of the open dimensions.

    A number that is none of degree `DEGREE` in each dimension is left out, and so is everything
    where the model cannot be read at the multiples of its example sizes that would tell.
    """
    if not 0 < len(found.sizes) <= MAX_SYMBOLS:
        return {}
    steps = range(1, DEGREE + 2)
    grid = list(itertools.product(steps, repeat=len(found.sizes)))
    beyond = (DEGREE + 2,) * len(found.sizes)
    try:
        known = {p: numbers(found.at(_times(found.sizes, p))) for p in (*grid, beyond)}
    except ModelError:
        return {}
    out: dict[str, str] = {}
    for name in known[beyond]:
        terms = _coefficients(
            {p: Fraction(known[p][name]) for p in grid}, list(found.sizes.values())
        )
        if _value(terms, list(_times(found.sizes, beyond).values())) == known[beyond][name]:
            out[name] = _text(terms, list(found.sizes))
    return out


def _times(sizes: Sizes, steps: Sequence[int]) -> dict[str, int]:
    return {name: size * step for (name, size), step in zip(sizes.items(), steps, strict=True)}


Terms: TypeAlias = dict[tuple[int, ...], Fraction]
"""Coefficients by the powers of each dimension."""


def _coefficients(values: Terms, sizes: Sequence[int]) -> Terms:
    """The polynomial through values at multiples of sizes, one dimension after the other."""
    for axis, size in enumerate(sizes):
        out: Terms = {}
        for place in {(*p[:axis], *p[axis + 1 :]) for p in values}:
            line = [values[(*place[:axis], s, *place[axis:])] for s in _steps(values, axis)]
            for power, coefficient in enumerate(_through(line, size)):
                out[(*place[:axis], power, *place[axis:])] = coefficient
        values = out
    return values


def _steps(values: Terms, axis: int) -> list[int]:
    return sorted({place[axis] for place in values})


def _through(line: Sequence[Fraction], size: int) -> tuple[Fraction, Fraction, Fraction]:
    """Coefficients of the parabola through values at 1, 2 and 3 times a size."""
    one, two, three = line
    square = (three - 2 * two + one) / 2
    linear = two - one - 3 * square
    return one - linear - square, linear / size, square / size**2


def _value(terms: Terms, sizes: Sequence[int]) -> Fraction:
    return sum(
        (
            coefficient * math.prod(s**p for p, s in zip(powers, sizes, strict=True))
            for powers, coefficient in terms.items()
        ),
        Fraction(0),
    )


def _text(terms: Terms, names: Sequence[str]) -> str:
    """As people write a polynomial, its highest powers last.

    >>> _text({(1, 2): Fraction(3), (0, 0): Fraction(5), (1, 0): Fraction(0)}, ["b", "s"])
    '5 + 3*b*s^2'
    """
    shown = []
    for powers in sorted(terms, key=lambda p: (sum(p), p)):
        if terms[powers]:
            factors = [n if p == 1 else f"{n}^{p}" for n, p in zip(names, powers, strict=True) if p]
            shown.append("*".join([str(terms[powers]), *factors]))
    return " + ".join(shown).replace("+ -", "- ") or "0"
