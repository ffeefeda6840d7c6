"""The facts of a model in sentences and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from report.model import ModelFacts
from report.tables import Head, Lines, Part, Table, Unit, numbers, share
from topology.units import format_bytes, format_flops

MOST_ROWS = 20
"""Rows of one table; what is left out is counted."""


def parts(facts: ModelFacts) -> Iterator[Part]:
    """The whole report."""
    yield Head(facts.name, tuple(_head(facts)))
    yield _kinds(facts)
    yield _blocks(facts)
    yield from _unknown(facts)
    yield Lines("Notes", facts.notes, "- ")


def _head(facts: ModelFacts) -> Iterator[str]:
    opsets = facts.file["opsets"]
    versions = opsets.items() if isinstance(opsets, dict) else ()
    opset = ", ".join(f"{domain} {version}" for domain, version in versions)
    nodes = f"{facts.file['nodes']} nodes"
    yield (
        f"file        opset {opset}; {nodes}; by {_producer(facts)}"
        if opset
        else (f"file        {_producer(facts)}; {nodes}")
    )
    for name, (dtype, dims) in facts.inputs.items():
        yield f"input       {name} {dtype} {_dims(dims)}"
    for dim in facts.dynamic_dims:
        sizes = f", of {dim.sizes}" if dim.sizes else ""
        where = f"dimension {dim.axis} of {dim.tensor}"
        value = "open" if dim.value is None else f"= {dim.value}{sizes}"
        yield f"dynamic     {dim.name} {value} ({where})"
    dtypes = ", ".join(facts.parameter_dtypes) or "none"
    yield (
        f"parameters  {facts.parameter_elements:,} in {facts.parameters} tensors, "
        f"{format_bytes(facts.parameter_bytes)} ({dtypes})"
    )
    flops = format_flops(facts.forward_flops).removesuffix("/s")
    batch = _at(facts) or f", batch {facts.batch or 'unknown'}"
    yield from _number("forward", f"{flops}{batch}", facts, ("forward_flops", "FLOP"))
    yield from _number("activations", _activations(facts), facts, ("activation_bytes", "B"))
    if facts.digest:
        text = "the same for equal networks under other names"
        yield f"graph       {facts.digest[:12]}, {text}"


def _dims(dims: Sequence[int | str]) -> str:
    between = "x" if all(isinstance(d, int) for d in dims) else " x "
    return between.join(str(d).replace("*", " x ") for d in dims) or "scalar"


def _number(label: str, text: str, facts: ModelFacts, formula: tuple[str, str]) -> Iterator[str]:
    """A number; where sizes are open its formula, by name and unit, and the number at examples."""
    name, unit = formula
    told = re.sub(r"(?<![\w.])\d{4,}", lambda m: f"{int(m[0]):,}", facts.formulas.get(name, ""))
    if told:
        yield f"{label:11} {told.replace('*', ' x ')} {unit}"
        label = ""
    yield f"{label:11} {text}"


def _at(facts: ModelFacts) -> str:
    """The sizes at which numbers are taken, where some are open."""
    sizes = ", ".join(f"{name}={size}" for name, size in facts.sizes.items())
    return f" at {sizes}" if sizes else ""


def _producer(facts: ModelFacts) -> str:
    return str(facts.file["producer"]) or "an unnamed exporter"


def _activations(facts: ModelFacts) -> str:
    if facts.activation_bytes is None:
        return "in the graph: it is a traced training step"
    nbytes = f"{format_bytes(facts.activation_bytes)}{_at(facts)}"
    return f"{nbytes} kept for the backward pass, nothing recomputed"


def _kinds(facts: ModelFacts) -> Table:
    rows = [
        (kind.kind, kind.count, format_flops(kind.flops).removesuffix("/s"),
         share(kind.flops, facts.forward_flops),
         "recognised as one operator" if kind.kind in facts.composites else "")
        for kind in facts.kinds[:MOST_ROWS]
    ]  # fmt: skip
    rest = facts.kinds[MOST_ROWS:]
    after = [f"and {sum(k.count for k in rest)} others of {len(rest)} kinds"] if rest else []
    columns = (
        ("kind", Unit.NAME), ("count", Unit.NUMBER), ("forward FLOP", Unit.NUMBER),
        ("%", Unit.SHARE), "",
    )  # fmt: skip
    title = f"{facts.operators} operators in normal form{_at(facts)}"
    return Table.of(title, columns, rows, after=after)


def _blocks(facts: ModelFacts) -> Table:
    rows = [
        (b.name, b.count, f"{b.operators / b.count:,.4g}", f"{b.parameters / b.count:,.0f}")
        for b in facts.blocks[:MOST_ROWS]
    ]
    more = len(facts.blocks) - MOST_ROWS
    after = [f"and {more} others"] if more > 0 else []
    columns = (("module", Unit.NAME), *numbers("count", "operators each", "parameters each"))
    return Table.of("Blocks", columns, rows, after=after)


def _unknown(facts: ModelFacts) -> Iterator[Lines]:
    given = tuple(f"{kind}: {rule}" for kind, rule in facts.given_rules.items())
    yield Lines("Operators with a given rule", given)
    lines = tuple(
        f"{item.count} x {item.kind}, such as {item.example}: {item.treatment}"
        for item in facts.unknown
    )
    yield Lines("Operators without a sharding rule", lines)
    if not lines:
        yield Lines("", ("\nEvery operator has a sharding rule.",))
