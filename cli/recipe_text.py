"""A recipe and the advice on it for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cli.text import show
from exporters.recipes.editing import Edited, edited
from ir.recipes.quantities import plain
from planner.whatif.layout_ranking import layout_text
from planner.whatif.recipe_runs import quantities_of
from report.tables import Table, numbers

if TYPE_CHECKING:
    from rich.console import Console

    from planner.whatif.recipe_advice import Change, PricedRun
    from planner.whatif.recipes import RecipeReport

_GIB = 2.0**30
_STAGES = ("first stage", "fullest inner stage", "last stage")


def edited_files(found: RecipeReport) -> Edited:
    """The user's files with the best layout; as they are where none is better."""
    old = quantities_of(found.priced.run)
    new = old if found.best is None else quantities_of(found.best.priced.run)
    return edited(found.recipe, old, new)


def print_recipe(found: RecipeReport, files: Sequence[Path], out: Console) -> None:
    """Print what was understood, the step, and the advice."""
    run, own = found.priced.run, found.priced
    framework = found.recipe.framework
    out.print(f"{framework.title} ({framework.release}), priced as {run.profile}", soft_wrap=True)
    out.print(
        f"{run.model.name} on {run.layout.devices:,} x {run.machine} in {run.precision}: "
        f"{layout_text(run.layout)}",
        soft_wrap=True,
    )
    low, high = own.prediction.low_s, own.prediction.high_s
    between = "" if own.prediction.unlike else f" ({low:.4g} to {high:.4g})"
    out.print(
        f"\nstep {own.prediction.step_s:.4g} s{between}, "
        f"{own.rates.tokens_per_s or 0:,.0f} tokens/s, MFU {100 * own.rates.utilisation:.1f} % of "
        f"{own.rates.load.peak_text}",
        soft_wrap=True,
    )
    if own.prediction.look_up:
        out.print(own.prediction.look_up, soft_wrap=True)
    out.print(f"memory {_memory(own)}; fits with {100 * own.chance:.0f} %", soft_wrap=True)
    _print_list("Read", found.remarks, out)
    _print_list("Warnings", found.warnings, out)
    _print_changes(found, out)
    for path in files:
        out.print(f"\nwrote {path}")


def _memory(own: PricedRun) -> str:
    ends = _STAGES if len(own.stage_bytes) > 2 else (_STAGES[0], _STAGES[-1])
    names = ends if len(own.stage_bytes) > 1 else ("each device",)
    parts = [f"{n} {b / _GIB:.1f} GiB" for n, b in zip(names, own.stage_bytes, strict=True)]
    return f"{', '.join(parts)} of {own.limit_bytes / _GIB:.1f} GiB"


def _print_list(title: str, lines: Sequence[str], out: Console) -> None:
    if lines:
        out.print(f"\n{title}", style="bold")
    for line in lines:
        out.print(f"- {line}", soft_wrap=True)


def _print_changes(found: RecipeReport, out: Console) -> None:
    if found.changes:
        columns = ("change", *numbers("step s", "saves", "GiB"))
        rows = [(change.text, *_figures(found.priced, change)) for change in found.changes]
        title = "Best single changes; *: beyond what was measured"
        show([Table.of(title, columns, rows)], out)
    if found.best is None:
        out.print("\nno layout that fits is faster")
        return
    step, saves, gib = _figures(found.priced, found.best)
    out.print(f"\nBest of all: {step} s (saves {saves}), {gib} GiB", style="bold")
    out.print(layout_text(found.best.priced.run.layout), soft_wrap=True)
    _print_list("Beyond what was measured", found.best.priced.prediction.unmeasured, out)
    changed = edited_files(found)
    out.print(f"\n{changed.diff(found.recipe)}", soft_wrap=True)
    _print_list("Not in these files", [*changed.aside, *changed.environment], out)


def _figures(own: PricedRun, change: Change) -> tuple[str, str, str]:
    step = change.priced.prediction.step_s
    saved = own.prediction.step_s - step
    share = 100 * saved / own.prediction.step_s
    return (
        f"{step:.4g}{'*' * bool(change.priced.prediction.unmeasured)}",
        f"{saved:.3g} s, {share:.1f} %",
        f"{change.priced.memory_bytes / _GIB:.1f}",
    )


def recipe_json(found: RecipeReport, files: Sequence[Path]) -> dict[str, object]:
    """One object with what was understood, the step and the advice."""
    changed = edited_files(found)
    return {
        "status": "ok",
        "framework": found.recipe.framework.name,
        "release": found.recipe.framework.release,
        "model": found.priced.run.model.name,
        "machine": found.priced.run.machine,
        "software": found.priced.run.profile,
        "precision": found.priced.run.precision,
        "quantities": {name: plain(value) for name, value in found.recipe.values.items()},
        "own": _record(found.priced),
        "remarks": list(found.remarks),
        "unread": list(found.recipe.unread),
        "warnings": list(found.warnings),
        "changes": [{"change": c.text, **_record(c.priced)} for c in found.changes],
        "best": None if found.best is None else _record(found.best.priced),
        "diff": changed.diff(found.recipe),
        "aside": [*changed.aside, *changed.environment],
        "files": [str(path) for path in files],
    }


def _record(own: PricedRun) -> dict[str, object]:
    unlike = own.prediction.unlike
    return {
        "layout": layout_text(own.run.layout),
        "degrees": asdict(own.run.layout.degrees),
        "step_s": own.prediction.step_s,
        "low_s": None if unlike else own.prediction.low_s,
        "high_s": None if unlike else own.prediction.high_s,
        "upper_s": own.prediction.upper_s,
        "unmeasured": list(own.prediction.unmeasured),
        "look_up": own.prediction.look_up,
        **own.rates.record(),
        "memory_bytes": own.memory_bytes,
        "stage_bytes": list(own.stage_bytes),
        "limit_bytes": own.limit_bytes,
        "fits": own.fits,
        "chance": own.chance,
    }
