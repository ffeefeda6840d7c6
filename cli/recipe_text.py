"""A recipe and the advice on it for people, from its JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.text import show
from ir.throughput import peak_text
from report.tables import Table, numbers

if TYPE_CHECKING:
    from rich.console import Console

_GIB = 2.0**30
_STAGES = ("first stage", "fullest inner stage", "last stage")


def print_recipe(found: Mapping[str, Any], out: Console) -> None:
    """Print what was understood, the step, and the advice."""
    own = found["own"]
    out.print(
        f"{found['title']} ({found['release']}), priced as {found['software']}", soft_wrap=True
    )
    out.print(
        f"{found['model']} on {found['devices']:,} x {found['machine']} in {found['precision']}: "
        f"{own['layout']}",
        soft_wrap=True,
    )
    between = "" if own["low_s"] is None else f" ({own['low_s']:.4g} to {own['high_s']:.4g})"
    peak = peak_text(own["peak_flops"] or 0.0, own["precision"])
    out.print(
        f"\nstep {own['step_s']:.4g} s{between}, {own['tokens_per_s'] or 0:,.0f} tokens/s, "
        f"MFU {100 * own['model_flops_utilisation']:.1f} % of {peak}",
        soft_wrap=True,
    )
    if own["look_up"]:
        out.print(own["look_up"], soft_wrap=True)
    out.print(f"memory {_memory(own)}; fits with {100 * own['chance']:.0f} %", soft_wrap=True)
    _print_list("Read", found["remarks"], out)
    _print_list("Warnings", found["warnings"], out)
    _print_changes(found, out)
    for path in found["files"]:
        out.print(f"\nwrote {path}")


def _memory(own: Mapping[str, Any]) -> str:
    stages = own["stage_bytes"]
    ends = _STAGES if len(stages) > 2 else (_STAGES[0], _STAGES[-1])
    names = ends if len(stages) > 1 else ("each device",)
    parts = [f"{n} {b / _GIB:.1f} GiB" for n, b in zip(names, stages, strict=True)]
    return f"{', '.join(parts)} of {own['limit_bytes'] / _GIB:.1f} GiB"


def _print_list(title: str, lines: Sequence[str], out: Console) -> None:
    if lines:
        out.print(f"\n{title}", style="bold")
    for line in lines:
        out.print(f"- {line}", soft_wrap=True)


def _print_changes(found: Mapping[str, Any], out: Console) -> None:
    own, best = found["own"], found["best"]
    if found["changes"]:
        columns = ("change", *numbers("step s", "saves", "GiB"))
        rows = [(change["change"], *_figures(own, change)) for change in found["changes"]]
        title = "Best single changes; *: beyond what was measured"
        show([Table.of(title, columns, rows)], out)
    if best is None:
        out.print("\nno layout that fits is faster")
        return
    step, saves, gib = _figures(own, best)
    out.print(f"\nBest of all: {step} s (saves {saves}), {gib} GiB", style="bold")
    out.print(best["layout"], soft_wrap=True)
    _print_list("Beyond what was measured", best["unmeasured"], out)
    out.print(f"\n{found['diff']}", soft_wrap=True)
    _print_list("Not in these files", found["aside"], out)


def _figures(own: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, str, str]:
    saved = own["step_s"] - other["step_s"]
    return (
        f"{other['step_s']:.4g}{'*' * bool(other['unmeasured'])}",
        f"{saved:.3g} s, {100 * saved / own['step_s']:.1f} %",
        f"{other['memory_bytes'] / _GIB:.1f}",
    )
