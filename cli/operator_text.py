"""One operator of a plan as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from cli.text import head, show
from report.plan_operator import NamedTensor, OperatorReport
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
    yield Lines("Operands", tuple(_tensors(facts.operands)))
    yield Lines("Results", tuple(_tensors(facts.results)))
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


def _tensors(tensors: Sequence[NamedTensor]) -> Iterator[str]:
    for each in tensors:
        layout = f"{each.layout} of {_dims(each.shard)}" if each.layout else each.role
        yield f"{each.tensor} {_dims(each.dims)} {each.dtype}: {layout}"
        yield from (f"  {line}" for line in each.neighbours[:_MOST_NEIGHBOURS])
        if len(each.neighbours) > _MOST_NEIGHBOURS:
            yield f"  and {len(each.neighbours) - _MOST_NEIGHBOURS} others"


def _dims(dims: Sequence[int]) -> str:
    return "x".join(str(d) for d in dims) or "1"
