"""A recipe and the advice on it in sentences and tables, from its JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ir.throughput import peak_text
from report.tables import Head, Lines, Part, Table, numbers

_GIB = 2.0**30
_STAGES = ("first stage", "fullest inner stage", "last stage")


def parts(found: Mapping[str, Any]) -> Iterator[Part]:
    """What was understood, the step, and the advice."""
    yield Lines("", tuple(_step(found)), soft_wrap=True)
    yield Lines("Read", tuple(found["remarks"]), "- ", soft_wrap=True)
    yield Lines("Warnings", tuple(found["warnings"]), "- ", soft_wrap=True)
    yield from _changes(found)
    yield Lines("", tuple(f"\nwrote {path}" for path in found["files"]))


def _step(found: Mapping[str, Any]) -> Iterator[str]:
    own = found["own"]
    yield f"{found['title']} ({found['release']}), priced as {found['software']}"
    where = f"{found['devices']:,} x {found['machine']} in {found['precision']}"
    yield f"{found['model']} on {where}: {own['layout']}"
    between = "" if own["low_s"] is None else f" ({own['low_s']:.4g} to {own['high_s']:.4g})"
    peak = peak_text(own["peak_flops"] or 0.0, own["precision"])
    yield (
        f"\nstep {own['step_s']:.4g} s{between}, {own['tokens_per_s'] or 0:,.0f} tokens/s, "
        f"MFU {100 * own['model_flops_utilisation']:.1f} % of {peak}"
    )
    if own["look_up"]:
        yield own["look_up"]
    yield f"memory {_memory(own)}; fits with {100 * own['chance']:.0f} %"


def _memory(own: Mapping[str, Any]) -> str:
    stages = own["stage_bytes"]
    ends = _STAGES if len(stages) > 2 else (_STAGES[0], _STAGES[-1])
    names = ends if len(stages) > 1 else ("each device",)
    parts = [f"{n} {b / _GIB:.1f} GiB" for n, b in zip(names, stages, strict=True)]
    return f"{', '.join(parts)} of {own['limit_bytes'] / _GIB:.1f} GiB"


def _changes(found: Mapping[str, Any]) -> Iterator[Part]:
    own, best = found["own"], found["best"]
    columns = ("change", *numbers("step s", "saves", "GiB"))
    rows = [(change["change"], *_figures(own, change)) for change in found["changes"]]
    yield Table.of("Best single changes; *: beyond what was measured", columns, rows)
    if best is None:
        yield Lines("", ("\nno layout that fits is faster",))
        return
    step, saves, gib = _figures(own, best)
    yield Head(f"\nBest of all: {step} s (saves {saves}), {gib} GiB")
    yield Lines("", (best["layout"],), soft_wrap=True)
    yield Lines("Beyond what was measured", tuple(best["unmeasured"]), "- ", soft_wrap=True)
    yield Lines("", (f"\n{found['diff']}",), soft_wrap=True)
    yield Lines("Not in these files", tuple(found["aside"]), "- ", soft_wrap=True)


def _figures(own: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, str, str]:
    saved = own["step_s"] - other["step_s"]
    return (
        f"{other['step_s']:.4g}{'*' * bool(other['unmeasured'])}",
        f"{saved:.3g} s, {100 * saved / own['step_s']:.1f} %",
        f"{other['memory_bytes'] / _GIB:.1f}",
    )
