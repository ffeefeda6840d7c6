"""Dynamic sizes of a plan as MindSpore's `Symbol`.

What `set_inputs` is told are the sizes of one rank: the width of the split of the dataset times
divisor and remainder are those of the whole batch. Source: MindSpore 2.7.0, `dynamic_shape.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from exporters.errors import ExportError
from ir.plan import Plan
from ir.symbols import Symbol, parse_symbol
from ir.violations import Violation

__all__ = ["label_shapes", "local_symbol", "planned_sizes", "planned_symbols", "symbol_calls"]


def planned_symbols(plan: Plan) -> dict[str, Symbol]:
    """The dimensions that the plan fits at every size, by name."""
    pairs = plan.request.get("bind")
    found = pairs if isinstance(pairs, list | tuple) else ()
    return {
        str(name): parse_symbol(size)
        for name, size in (pair for pair in found if isinstance(pair, list | tuple))
        if isinstance(size, str)
    }


def local_symbol(symbol: Symbol, parts: int) -> Symbol:
    """What one of so many ranks has of it.

    >>> str(local_symbol(parse_symbol("64..512/64"), 8))
    '8..64/8'
    >>> str(local_symbol(parse_symbol("64..512../64"), 8))
    '8..64../8'

    Raises:
        ExportError: not every size divides.
    """
    if symbol.divisor % parts or symbol.remainder % parts:
        raise ExportError(
            Violation(
                f"sizes {symbol} do not all split {parts} ways",
                "--set dataset_strategy",
                "plan with a divisor that is a multiple of the parts, or give full_batch",
            )
        )
    sizes = (symbol.values[0], symbol.values[-1], symbol.divisor, symbol.remainder)
    return Symbol(*(size // parts for size in sizes), is_open=symbol.is_open)


Calls: TypeAlias = dict[str, str]
"""Arguments of `ms.Symbol` by variable."""


def symbol_calls(
    plan: Plan, width: Mapping[str, tuple[int, ...]]
) -> tuple[Calls, dict[str, list[str]]]:
    """Arguments of `ms.Symbol` by variable, and the shape of every input in these variables.

    A dimension of the model is unique: wherever it stands it has one size. A size that follows
    from it otherwise, such as its square, becomes None.
    """
    calls: Calls = {}
    shapes = {
        name: [_dimension(plan, name, dim, parts, calls) for dim, parts in enumerate(width[name])]
        for name in plan.graph.inputs
    }
    return calls, shapes


def label_shapes(plan: Plan, cuts: Sequence[Sequence[int]], calls: Calls) -> list[list[str]]:
    """The shapes of labels that come with the model's inputs: rows as the first input has them, and
    any other sizes.

    Args:
        plan: of the model.
        cuts: of each label, in how many parts its dimensions arrive.
        calls: gets the symbols that are not among them.
    """
    first = plan.graph.inputs[0]
    return [
        [_dimension(plan, first, 0, own[0], calls), *["None"] * (len(own) - 1)] if own else []
        for own in cuts
    ]


def _dimension(plan: Plan, name: str, dim: int, parts: int, calls: Calls) -> str:
    """A dimension of an input on one rank, as Python writes it."""
    tensor, symbols = plan.graph.tensors[name], planned_symbols(plan)
    size, divisor = tensor.dims[dim], (tensor.divisors or tensor.dims)[dim]
    found = _symbol_of(size, divisor, symbols)
    if found is None:
        return "None" if size != divisor or size % parts else str(size // parts)
    variable = _variable(found, parts)
    calls[variable] = _arguments(local_symbol(symbols[found], parts))
    return variable


def _symbol_of(size: int, divisor: int, symbols: Mapping[str, Symbol]) -> str | None:
    """The name of the symbol whose largest size a dimension has."""
    if size == divisor:
        return None
    names = [name for name, symbol in symbols.items() if symbol.value == size]
    return names[0] if len(names) == 1 else None


def _variable(name: str, parts: int) -> str:
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return f"size_{plain}" + (f"_of_{parts}" if parts > 1 else "")


def _arguments(symbol: Symbol) -> str:
    first, last = symbol.values[0], symbol.values[-1]
    parts = [f"min={first}"] if first > symbol.divisor + symbol.remainder else []
    parts += [f"max={last}"] if last > first and not symbol.is_open else []
    parts += [f"divisor={symbol.divisor}"] if symbol.divisor > 1 else []
    parts += [f"remainder={symbol.remainder}"] if symbol.remainder else []
    return ", ".join([*parts, "unique=True"])


def planned_sizes(plan: Plan) -> dict[str, int]:
    """The sizes of `input.dimension` that the plan was made with; those of a micro-batch, if it
    makes some.
    """
    out = {}
    for name in plan.graph.symbols:
        label, _, axis = name.rpartition(".")
        if label in plan.graph.tensors and axis.isdecimal():
            dims = plan.graph.tensors[label].dims
            out.update({name: dims[int(axis)]} if int(axis) < len(dims) else {})
    return out
