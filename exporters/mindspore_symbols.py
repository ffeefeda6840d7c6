"""Dynamic sizes of a plan as MindSpore's `Symbol`.

What `set_inputs` is told are the sizes of one rank: the width of the split of the dataset times
divisor and remainder are those of the whole batch. Source: MindSpore 2.7.0, `dynamic_shape.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporters.errors import ExportError, Violation
from ir.plan import Plan
from ir.symbols import Symbol, parse_symbol

__all__ = ["local_symbol", "planned_sizes", "planned_symbols", "symbol_calls"]


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
    first, last = symbol.values[0], symbol.values[-1]
    return Symbol(first // parts, last // parts, symbol.divisor // parts, symbol.remainder // parts)


def symbol_calls(
    plan: Plan, width: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Arguments of `ms.Symbol` by variable, and the shape of every input in these variables.

    A dimension of the model is unique: wherever it stands it has one size. A size that follows
    from it otherwise, such as its square, becomes None.
    """
    calls: dict[str, str] = {}
    shapes: dict[str, list[str]] = {}
    symbols = planned_symbols(plan)
    for name in plan.graph.inputs:
        tensor = plan.graph.tensors[name]
        divisors = tensor.divisors or tensor.dims
        shape = []
        for size, divisor, parts in zip(tensor.dims, divisors, width[name], strict=True):
            found = _symbol_of(size, divisor, symbols)
            if found is None:
                shape.append(str(size // parts) if size == divisor else "None")
                continue
            shape.append(_variable(found, parts))
            calls[shape[-1]] = _arguments(local_symbol(symbols[found], parts))
        shapes[name] = shape
    return calls, shapes


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
    parts += [f"max={last}"] if last > first else []
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
