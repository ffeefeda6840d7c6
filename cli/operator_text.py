"""One operator of a plan as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from cli.operator_facts import OperatorFacts, Port
from cli.text import table
from topology.units import format_bytes, format_seconds

_MOST_NEIGHBOURS = 8


def print_operator(facts: OperatorFacts, out: Console) -> None:
    """What it is, how it is split, what it costs, and what stands around it."""
    out.print(Text(f"{facts.label} {facts.name}", style="bold"))
    if facts.scope:
        out.print(f"  at {facts.scope}")
    out.print(
        f"  computes {format_seconds(facts.compute_s)} in a step, "
        f"{100 * facts.compute_share:.1f} % of all operators"
    )
    for line in facts.split:
        out.print(f"  {line}")
    _ports("Operands", facts.operands, out)
    _ports("Results", facts.results, out)
    _collectives(facts, out)


def _ports(title: str, ports: Sequence[Port], out: Console) -> None:
    if not ports:
        return
    out.print(Text(f"\n{title}", style="bold"))
    for port in ports:
        layout = f"{port.layout} of {_dims(port.shard)}" if port.layout else port.role
        out.print(f"{port.tensor} {_dims(port.dims)} {port.dtype}: {layout}")
        for line in port.neighbours[:_MOST_NEIGHBOURS]:
            out.print(f"  {line}")
        if len(port.neighbours) > _MOST_NEIGHBOURS:
            out.print(f"  and {len(port.neighbours) - _MOST_NEIGHBOURS} others")


def _dims(dims: Sequence[int]) -> str:
    return "x".join(str(d) for d in dims) or "1"


def _collectives(facts: OperatorFacts, out: Console) -> None:
    if not facts.collectives:
        out.print(Text("\nNo collectives", style="bold"))
        return
    columns = ["collective", "count", "bytes", "time", "over", "for"]
    made = table("Collectives", columns, right=(1, 2, 3))
    for item in facts.collectives:
        made.add_row(
            item.kind.replace("_", "-"),
            str(item.count),
            format_bytes(item.nbytes),
            format_seconds(item.time_s),
            f"{'*'.join(item.axes)} ({item.group_size})",
            f"{item.cause} {item.tensor}".rstrip(),
        )
    out.print(made)
