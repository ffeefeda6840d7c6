"""Dynamic sizes as MindSpore writes them: `--bind 'batch=Symbol(divisor=8)'`.

MindSpore's symbols are of one rank, those of a plan of the whole batch: the parts into which the
dataset splits a dimension multiply divisor, remainder and range.
Source: MindSpore 2.7.0, `dynamic_shape.cc`, and `common/symbol.py` of 2.10.0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.requests.errors import UserError
from planner.requests.option_texts import MAX_SHOWN
from planner.requests.sources import ModelSource

if TYPE_CHECKING:
    from ir.symbols import Symbol
    from planner.request import SearchRequest

STEPS = 8
"""Sizes that a symbol without `max` has."""
_LARGEST = 10**12
_TEXT = re.compile(r"\s*([^=,]{1,200}?)\s*=\s*Symbol\s*\(([^()]{0,200})\)\s*(?:,|$)", re.DOTALL)
_FIX = (
    "write such as --bind 'batch=Symbol(divisor=8, max=64)'; max, min, divisor, remainder, unique"
)


@dataclass(frozen=True, slots=True)
class LocalSymbol:
    """`Symbol(max, min, divisor, remainder, unique)`: a size of one rank, divisor * N + remainder,
    N >= 1.
    """

    max: int = 0
    """0 leaves it open."""
    min: int = 1
    divisor: int = 1
    remainder: int = 0
    unique: bool = False
    """Whether it is one size wherever it stands. A named dimension of a model always is."""

    @property
    def least(self) -> int:
        return max(self.min, self.divisor + self.remainder)

    @property
    def most(self) -> int:
        """The largest size; that of the eighth step, if it is open."""
        return self._step(STEPS) if self.is_open else self.max

    @property
    def is_open(self) -> bool:
        """Whether there is no largest size: MindSpore takes no `max` that `min` reaches."""
        return self.max <= self.min

    def _step(self, number: int) -> int:
        start = max(0, -(-(self.least - self.remainder) // self.divisor) - 1)
        return (start + number) * self.divisor + self.remainder

    def whole(self, parts: int) -> Symbol:
        """The size of the whole batch, of which every rank has one of so many parts."""
        from ir.symbols import Symbol  # noqa: PLC0415  brings in the catalogue

        sizes = (self.least, self.most, self.divisor, self.remainder)
        return Symbol(*(size * parts for size in sizes), is_open=self.is_open)

    def __str__(self) -> str:
        """As Python and MindSpore write it, defaults left out."""
        values = {n: getattr(self, n) for n in ("max", "min", "divisor", "remainder", "unique")}
        usual = LocalSymbol()
        given = (f"{n}={v}" for n, v in values.items() if v != getattr(usual, n))
        return f"Symbol({', '.join(given)})"


def split_symbols(texts: Sequence[str]) -> tuple[list[str], dict[str, LocalSymbol]]:
    """The bindings that are numbers and ranges, and those that are symbols.

    >>> split_symbols(["batch=Symbol(divisor=8, max=64), seq=4096"])
    (['seq=4096'], {'batch': LocalSymbol(max=64, min=1, divisor=8, remainder=0, unique=False)})
    """
    plain: list[str] = []
    found: dict[str, LocalSymbol] = {}
    for text in texts:
        for match in _TEXT.finditer(text):
            name = match[1].strip()
            symbol = _symbol(match[2], text)
            if found.setdefault(name, symbol) != symbol:
                raise UserError(f"{name!r} is bound twice", _where(text), "bind it once")
        rest = _TEXT.sub("", text).strip(" ,")
        if rest:
            plain.append(rest)
    names = {item.partition("=")[0].strip() for text in plain for item in text.split(",")}
    twice = sorted(names & found.keys())
    if twice:
        raise UserError(f"{twice[0]!r} is bound twice", "--bind", "bind it once")
    return plain, found


def told_by(model: ModelSource, texts: Sequence[str]) -> list[str]:
    """Bindings of what the model says itself of its open dimensions, where no text binds them.

    Raises:
        ModelError: the model cannot be read.
    """
    told = model.ranges(_bound_names(texts))
    return [f"{name}={text}" for name, text in told.items()]


def _bound_names(texts: Sequence[str]) -> set[str]:
    plain, symbols = split_symbols(texts)
    items = (item.rpartition("=")[0].strip() for text in plain for item in text.split(","))
    return {*items, *symbols}


def with_open_batch(texts: Sequence[str], batch: int | None, model: ModelSource) -> list[str]:
    """The bindings, with the batch of a step among them where the model leaves the batch open and
    no text binds it.

    Raises:
        ModelError: the model cannot be read.
    """
    name = None if batch is None else model.open_batch()
    return [*texts] if name is None or name in _bound_names(texts) else [*texts, f"{name}={batch}"]


def with_symbols(
    request: SearchRequest, symbols: Mapping[str, LocalSymbol], model: ModelSource, devices: int
) -> tuple[SearchRequest, tuple[str, ...]]:
    """The request with the symbols as ranges of the whole batch, and how they became such.

    Raises:
        UserError: no size satisfies a symbol, or it stands in dimensions of different splits.
        ModelError: the model cannot be read.
    """
    if not symbols:
        return request, ()
    from ir.symbols import SymbolError  # noqa: PLC0415

    places = _places(model, dict(request.bind), symbols)
    bound = dict(request.bind)
    notes = []
    for name, symbol in symbols.items():
        parts = _parts(name, places[name], request, devices)
        try:
            bound[name] = symbol.whole(parts)
        except SymbolError as error:
            raise UserError(str(error), f"--bind {name}={symbol}", _FIX) from error
        open_ended = f"; no max is given: {STEPS} steps" if symbol.is_open else ""
        notes.append(
            f"{name}={symbol} of each of {parts} parts is {bound[name]} in all{open_ended}"
        )
    return replace(request, bind=tuple(sorted(bound.items()))), tuple(notes)


def _symbol(arguments: str, text: str) -> LocalSymbol:
    """A symbol from its arguments, all by name as MindSpore's documents write them."""
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
        assert isinstance(call, ast.Call)
        values = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        positional = [ast.literal_eval(each) for each in call.args]
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise UserError(f"{text[:MAX_SHOWN]!r} is no symbol", _where(text), _FIX) from error
    order = ("max", "min", "divisor", "remainder", "unique")
    values |= dict(zip(order, positional, strict=False))
    numbers = {name: values.get(name, getattr(LocalSymbol(), name)) for name in order}
    whole = all(type(numbers[n]) is int and 0 <= numbers[n] <= _LARGEST for n in order[:4])
    if not set(values) <= set(order) or not whole or type(numbers["unique"]) is not bool:
        raise UserError(f"{text[:MAX_SHOWN]!r} is no symbol", _where(text), _FIX)
    found = LocalSymbol(**numbers)
    if found.min < 1 or found.divisor < 1 or found.remainder >= found.divisor:
        what = "min and divisor are positive, and the remainder is below the divisor"
        raise UserError(what, _where(text), _FIX)
    return found


def _where(text: str) -> str:
    return f"--bind {text[:MAX_SHOWN]}"


def _places(
    model: ModelSource, bind: Mapping[str, int | Symbol], symbols: Mapping[str, LocalSymbol]
) -> dict[str, set[tuple[int, int]]]:
    """Where each symbol stands: numbers of inputs and of their dimensions.

    The model is read with two sizes of each; what differs is the symbol's.
    """

    def dims(values: Mapping[str, int | Symbol]) -> list[tuple[int, ...]]:
        graph = model.graph(values)
        return [graph.tensors[name].dims for name in graph.inputs]

    usual = {**bind, **{name: symbol.least for name, symbol in symbols.items()}}
    first = dims(usual)
    found: dict[str, set[tuple[int, int]]] = {}
    for name, symbol in symbols.items():
        second = dims({**usual, name: symbol.least + symbol.divisor})
        found[name] = {
            (i, d)
            for i, (one, other) in enumerate(zip(first, second, strict=True))
            for d, (a, b) in enumerate(zip(one, other, strict=True))
            if a != b
        }
    return found


def _parts(name: str, places: set[tuple[int, int]], request: SearchRequest, devices: int) -> int:
    """Into how many parts the dataset splits the dimensions of a symbol."""
    strategy = request.dataset_strategy or ("data_parallel" if request.training else "full_batch")
    if strategy == "full_batch":
        return 1
    if isinstance(strategy, str):
        found = {devices if dim == 0 else 1 for _, dim in places}
    else:
        found = {
            strategy[i][d] if i < len(strategy) and d < len(strategy[i]) else 1 for i, d in places
        }
    if len(found) > 1:
        raise UserError(
            f"the dataset splits {name!r} into {' and '.join(map(str, sorted(found)))} parts",
            "--dataset-strategy",
            "split it alike everywhere, or give dimensions of their own names",
        )
    return found.pop() if found else 1
