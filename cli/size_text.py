"""Networks by their sizes, as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from cli.text import table
from topology.units import format_bytes, format_flops

if TYPE_CHECKING:
    from cli.size_facts import SizeFacts
    from importers.sizes import Published


def print_list(models: Sequence[Published], out: Console) -> None:
    """The published models."""
    rows = table("Published models", ("model", "parameters", "kind", "sizes from"), right=(1,))
    for each in models:
        rows.add_row(each.name, each.parameters, str(each.config["model_type"]), each.page)
    out.print(rows)


def print_sizes(
    facts: SizeFacts, config: Mapping[str, object], output: Path | None, out: Console
) -> None:
    """What the sizes amount to, and the sizes."""
    out.print(Text(facts.name, style="bold"))
    for name, dims in facts.inputs.items():
        out.print(f"  input       {name} {'x'.join(map(str, dims))}")
    passed = facts.parameters_per_token
    share = "" if passed == facts.parameters else f", {passed:,} of them for a token"
    size = format_bytes(facts.parameter_bytes)
    out.print(f"  parameters  {facts.parameters:,}{share}, {size} ({facts.dtype})")
    flops = format_flops(facts.forward_flops).removesuffix("/s")
    out.print(f"  forward     {flops}, batch 1")
    rows = table("Sizes", ("field of config.json", "value"), right=(1,))
    for field, value in config.items():
        rows.add_row(field, str(value))
    out.print(rows)
    if facts.notes:
        out.print(Text("\nNotes", style="bold"))
    for note in facts.notes:
        out.print(f"- {note}")
    if output is not None:
        out.print(f"\nwrote {output}")
