"""Networks by their sizes, as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from cli.text import head, show
from report.tables import Lines, Table, Unit, numbers
from topology.units import format_bytes, format_flops

if TYPE_CHECKING:
    from importers.sizes import Published
    from report.sizes import SizeFacts


def print_list(models: Sequence[Published], out: Console) -> None:
    """The published models."""
    rows = [(m.name, m.parameters, m.config["model_type"], m.page) for m in models]
    columns = ("model", ("parameters", Unit.NUMBER), "kind", "sizes from")
    show((Table.of("Published models", columns, rows),), out)


def print_sizes(
    facts: SizeFacts, config: Mapping[str, object], output: Path | None, out: Console
) -> None:
    """What the sizes amount to, and the sizes."""
    lines = [f"input       {name} {'x'.join(map(str, d))}" for name, d in facts.inputs.items()]
    passed = facts.parameters_per_token
    share = "" if passed == facts.parameters else f", {passed:,} of them for a token"
    size = format_bytes(facts.parameter_bytes)
    lines.append(f"parameters  {facts.parameters:,}{share}, {size} ({facts.dtype})")
    flops = format_flops(facts.forward_flops).removesuffix("/s")
    lines.append(f"forward     {flops}, batch 1")
    head(facts.name, lines, out)
    rows = [(field, str(value)) for field, value in config.items()]
    sizes = Table.of("Sizes", ("field of config.json", *numbers("value")), rows)
    show((sizes, Lines("Notes", facts.notes, "- ")), out)
    if output is not None:
        out.print(f"\nwrote {output}")
