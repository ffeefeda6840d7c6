"""Ranked layouts for people, as JSON and as a table."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cli.text import show
from costmodel.memory import Optimizer
from costmodel.training.records import Attention
from costmodel.training.stacks import usual_attention
from planner.whatif.layout_ranking import layout_text
from planner.whatif.layouts import COLUMNS
from report.tables import Table, numbers

if TYPE_CHECKING:
    from rich.console import Console

    from planner.whatif.layout_ranking import RankedLayout, Ranking

GIB = 2.0**30


def print_ranking(found: Ranking, files: Sequence[Path], out: Console) -> None:
    """Print how many layouts there are, and the fastest that fit."""
    count, fitting = len(found.priced.step_s), int(found.priced.fits.sum())
    out.print(
        f"{found.job.model.name}: {count:,} layouts on {found.devices:,} x {found.job.machine}, "
        f"{fitting:,} fit into {found.priced.limit_bytes / GIB:.1f} GiB"
    )
    if found.job.model.further:
        out.print(
            f"with layers that predict further tokens: {found.job.model.further} (--hold mtp=0 for "
            "none); the last stage has fewer others for them"
        )
    rows = [
        (
            f"{each.prediction.step_s:.4g}",
            "-" if each.prediction.unlike
            else f"{each.prediction.low_s:.4g} to {each.prediction.high_s:.4g}",
            f"{each.prediction.upper_s:.4g}{'*' * bool(each.prediction.unmeasured)}",
            f"{each.rates.tokens_per_s or 0:,.0f}",
            f"{each.rates.tokens_per_s_per_device or 0:,.0f}",
            f"{100 * each.rates.utilisation:.1f} %",
            f"{each.memory_bytes / GIB:.1f}",
            layout_text(each.layout, ""),
        )
        for each in found.best
    ]  # fmt: skip
    title = f"Fastest layouts; `planner simulate --layout` takes them with {_taken_with(found)}"
    names = ("step s", "low to high", "upper", "tokens/s", "each", "MFU", "GiB")
    columns = (*numbers(*names), "layout")
    show((Table.of(title, columns, rows),), out)
    _print_remarks(found, out)
    for path in files:
        out.print(f"\nwrote {path}")


def _print_remarks(found: Ranking, out: Console) -> None:
    """What the columns are, and what the best layout and those beyond the measured runs rest on."""
    for each in found.best[:1]:
        out.print("upper: three of four such steps take no longer (--rank)")
        out.print(f"each: tokens/s per device; MFU: of {each.rates.load.peak_text}")
        own = each.prediction
        for remark in filter(None, (own.unlike, own.inherited, own.look_up)):
            out.print(f"\n{remark}", soft_wrap=True)
    told = [what for each in found.best for what in each.prediction.unmeasured]
    if told:
        out.print("\n*: beyond what was measured, so that the interval is wider", soft_wrap=True)
        for what in dict.fromkeys(told):
            out.print(f"  {what}", soft_wrap=True)


def _taken_with(found: Ranking) -> str:
    """What the layout and its command say of the job."""
    options = [f"--optimizer {found.job.optimizer}"] * (found.job.optimizer != Optimizer.ADAMW)
    if found.job.attention != usual_attention(found.job.profile):
        decomposed = found.job.attention is Attention.UNFUSED
        options.append(f"--attention {'decomposed' if decomposed else 'fused'}")
    return " and ".join((found.sizes, *options))


def ranking_json(found: Ranking, files: Sequence[Path]) -> dict[str, object]:
    """One object with the layouts that are listed."""
    return {
        "status": "ok",
        "model": found.job.model.name,
        "machine": found.job.machine,
        "software": found.job.profile,
        "optimizer": found.job.optimizer.value,
        "devices": found.devices,
        "further_tokens": found.job.model.further,
        "layouts": len(found.priced.step_s),
        "fitting": int(found.priced.fits.sum()),
        "limit_bytes": found.priced.limit_bytes,
        "best": [_record(each) for each in found.best],
        "files": [str(path) for path in files],
    }


def _record(each: RankedLayout) -> dict[str, object]:
    own = each.prediction
    return {
        "layout": each.text,
        "degrees": asdict(each.layout.degrees),
        "step_s": own.step_s,
        "low_s": None if own.unlike else own.low_s,
        "high_s": None if own.unlike else own.high_s,
        **each.rates.record(),
        "memory_bytes": each.memory_bytes,
        "inherited": own.inherited,
        "upper_s": own.upper_s,
        "unmeasured": list(own.unmeasured),
        "look_up": own.look_up,
        "unlike": own.unlike,
    }


def write_table(found: Ranking, path: Path) -> None:
    """Every layout as CSV, the fastest first."""
    priced = found.priced
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow((*COLUMNS, "step_s", "memory_gib", "fits"))
        order = priced.step_s.argsort(kind="stable")
        columns = (priced.layouts, priced.step_s, priced.memory_bytes / GIB, priced.fits)
        for layout, step_s, gib, fits in zip(*(c[order].tolist() for c in columns), strict=True):
            sizes = (f"{value:g}" for value in layout)
            writer.writerow((*sizes, f"{step_s:.6g}", f"{gib:.4g}", str(fits).lower()))
