"""Published layouts against the fastest conventional layout under the same model.

For every row of a table of measured runs whose layout can be priced and fits into memory, the
planner looks for the fastest layout of the same model, machine, software, devices and batch.

    python -m benchmarks.whatif_layouts ../shared/reference/measured_training.csv
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from costmodel.training.dataset import read_entries, read_table
from costmodel.training.predict import predict
from costmodel.training.records import TrainingLayout, TrainingRun
from planner.whatif.layouts import fastest

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Compared:
    """A published layout beside the one that was found."""

    name: str
    published_s: float
    found_s: float
    published: TrainingLayout
    found: TrainingLayout

    @property
    def is_as_fast(self) -> bool:
        return self.found_s <= self.published_s * (1 + ROUNDING)


def outside(run: TrainingRun) -> str:
    """Why a published layout is no point of the space that is searched; empty if it is one."""
    layout, model = run.layout, run.model
    if layout.global_batch % (layout.dp * layout.micro_batch):
        return "the batch does not divide"
    if layout.stage_layers and len(set(layout.stage_layers)) > 1:
        return "stages listed by hand"
    if model.heads % layout.tp:
        return "heads do not divide"
    if layout.zero_group not in {0, 1}:
        return "sharded over a group of its own"
    return ""


def compared(runs: Iterable[TrainingRun], reasons: Counter[str]) -> Iterator[Compared]:
    """The rows that can be compared; why others cannot is counted."""
    known: dict[TrainingRun, TrainingRun | None] = {}
    for run in runs:
        (published,) = predict([run])
        reason = outside(run) or ("" if published.fits else "predicted not to fit")
        if reason:
            reasons[reason] += 1
            continue
        layout = run.layout
        job = replace(run, name="", layout=TrainingLayout(layout.global_batch, 1, layout.seq_len))
        key = replace(job, layout=replace(job.layout, dp=layout.devices))
        if key not in known:
            known[key] = fastest(job, layout.devices)
        best = known[key]
        if best is None:
            reasons["nothing fits"] += 1
            continue
        (found,) = predict([best])
        yield Compared(run.name, published.step_s, found.step_s, layout, best.layout)


def main() -> None:
    """Print how many rows there are, and those where the published layout is faster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every n-th row")
    options = parser.parse_args()
    entries = read_entries(read_table(options.table.read_text(encoding="utf-8"), "table"))
    runs = [entry.read.run for entry in entries if entry.read is not None][:: options.every]
    reasons: Counter[str] = Counter()
    started = time.perf_counter()
    found = list(compared(runs, reasons))
    worse = [each for each in found if not each.is_as_fast]
    print(f"{len(entries)} rows, {len(runs)} priced, {len(found)} compared")
    for reason, count in reasons.most_common():
        print(f"  {count} left out: {reason}")
    print(f"{len(found) - len(worse)} as fast or faster, {time.perf_counter() - started:.1f} s")
    gains = sorted(each.published_s / each.found_s for each in found)
    if gains:
        print(f"published over found: median {gains[len(gains) // 2]:.3f}, least {gains[0]:.4f}")
    for each in worse:
        print(
            f"  {each.name}: {each.published_s:.4g} s, found {each.found_s:.4g} s", file=sys.stderr
        )


if __name__ == "__main__":
    main()
