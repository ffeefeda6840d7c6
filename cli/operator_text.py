"""One operator of a plan as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from cli.text import head, show
from report.plan_operator import OperatorReport, Port
from report.tables import Lines, Part, Table, Unit
from topology.units import format_seconds

_MOST_NEIGHBOURS = 8


def print_operator(facts: OperatorReport, out: Console) -> None:
    """What it is, how it is split, what it costs, and what stands around it."""
    place = f"at {facts.scope}" if facts.scope else ""
    share = f"{100 * facts.compute_share:.1f} % of all operators"
    computes = f"computes {format_seconds(facts.compute_s)} in a step, {share}"
    head(f"{facts.label} {facts.name}", (place, computes, *facts.split), out)
    show(_parts(facts), out)


def _parts(facts: OperatorReport) -> Iterator[Part]:
    yield Lines("Operands", tuple(_ports(facts.operands)))
    yield Lines("Results", tuple(_ports(facts.results)))
    if not facts.collectives:
        yield Lines("", ("\nNo collectives",))
        return
    columns = (
        "collective", ("count", Unit.NUMBER), ("bytes", Unit.BYTES), ("exposed", Unit.SECONDS),
        ("hidden", Unit.SECONDS), "over", "for",
    )  # fmt: skip
    rows = [
        (c.kind.replace("_", "-"), c.count, c.nbytes, c.exposed_s, c.hidden_s,
         f"{'*'.join(c.axes)} ({c.group_size})", f"{c.cause} {c.tensor}".rstrip())
        for c in facts.collectives
    ]  # fmt: skip
    yield Table.of("Collectives", columns, rows)


def _ports(ports: Sequence[Port]) -> Iterator[str]:
    for port in ports:
        layout = f"{port.layout} of {_dims(port.shard)}" if port.layout else port.role
        yield f"{port.tensor} {_dims(port.dims)} {port.dtype}: {layout}"
        yield from (f"  {line}" for line in port.neighbours[:_MOST_NEIGHBOURS])
        if len(port.neighbours) > _MOST_NEIGHBOURS:
            yield f"  and {len(port.neighbours) - _MOST_NEIGHBOURS} others"


def _dims(dims: Sequence[int]) -> str:
    return "x".join(str(d) for d in dims) or "1"
