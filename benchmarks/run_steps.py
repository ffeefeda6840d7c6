"""Steps of planned layouts on processes of this machine: predicted, and measured.

    python -m benchmarks.run_steps FOLDER [--minutes 25] [--models gpt,vit] [--processes 2,4]
    python -m benchmarks.run_steps FOLDER --report

Each number of processes has its own machine file, made by `planner calibrate host`. Every layout
of every model is planned on it and run as by `planner run`; each becomes a line of `steps.jsonl` at
once. What has a line is not run again. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cli.calibrate_host import machine_of
from executors.dtensor.processes import ProcessError, measured_host, run_measured
from executors.measured import rows_of
from executors.torch_differences import ApplyError, refuse
from importers.model_file import import_model_file
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_name import plan_name
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
from topology.cluster import Cluster
from topology.loading import load_machine

SEARCHED = "searched"
_TIMEOUT_S = 1200.0
_DIFFERENT = 0.1
"""Steps that differ by less are not ranked."""
_BASE = SearchRequest(target="torch", training=True, profile="generic", recompute="none")


@dataclass(frozen=True, slots=True)
class Row:
    """One layout of one model on so many processes."""

    model: str
    processes: int
    layout: str
    plan: str
    predicted_s: float
    measured_s: float
    low_s: float
    """10 % of the steps took less, 90 % less than the next."""
    high_s: float
    causes: tuple[tuple[str, float, float], ...]
    """Of the step, each predicted and measured."""
    loss_error: float | None
    same_as: str = ""
    """Layout whose plan this is too, and whose measurement it has."""

    @property
    def error(self) -> float:
        return abs(self.predicted_s / self.measured_s - 1.0)


def layouts(processes: int, batch: int) -> dict[str, SearchRequest]:
    """What is asked for, the most telling first."""
    half = processes // 2
    data = replace(_BASE, pipeline="off", degrees=(("dp", processes),))
    small = str(max(1, batch // 4))
    found = {
        SEARCHED: _BASE,
        "data parallel": replace(data, zero="0"),
        "fully sharded": replace(data, zero="3"),
        "tensor parallel": replace(_BASE, pipeline="off", degrees=(("tp", processes),)),
        "2 stages": replace(_BASE, pipeline="2", interleave="1", micro_batch=small),
    }
    if half > 1:
        both = (("dp", half), ("tp", 2))
        found["data and tensor parallel"] = replace(_BASE, pipeline="off", degrees=both)
    return {name: replace(asked, global_batch=batch) for name, asked in found.items()}


def main() -> None:
    """Measure what is missing, then print the tables."""
    from benchmarks.run_nets import RUN_NETS  # noqa: PLC0415  brings in torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=25.0, help="start nothing later")
    parser.add_argument("--models", default=",".join(RUN_NETS))
    parser.add_argument("--layouts", default="", help="names of layouts, all of them if empty")
    parser.add_argument("--processes", default="2,4")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "steps.jsonl"
    rows = read_rows(path)
    end_s = time.monotonic() + 60.0 * options.minutes * (not options.report)
    for model, processes, layout in _cases(options, rows):
        if time.monotonic() > end_s:
            break
        row = _measured(options.folder, model, processes, layout, options.steps, rows)
        if row is not None:
            rows.append(row)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    print(report(rows))


def read_rows(path: Path) -> list[Row]:
    """The lines of a file that may not be there."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines if line]
    return [Row(**{**r, "causes": tuple(tuple(c) for c in r["causes"])}) for r in records]


def _cases(options: argparse.Namespace, rows: Sequence[Row]) -> Iterator[tuple[str, int, str]]:
    done = {(row.model, row.processes, row.layout) for row in rows}
    wanted = set(filter(None, options.layouts.split(",")))
    for processes in map(int, options.processes.split(",")):
        for model in options.models.split(","):
            for layout in layouts(processes, 8):
                if (not wanted or layout in wanted) and (model, processes, layout) not in done:
                    yield model, processes, layout


def _measured(
    folder: Path, model: str, processes: int, layout: str, steps: int, rows: Sequence[Row]
) -> Row | None:
    """One layout; nothing where it cannot be planned or run, which is printed."""
    from benchmarks.run_nets import RUN_NETS  # noqa: PLC0415

    where = f"{model}, {processes} processes, {layout}"
    asked = layouts(processes, RUN_NETS[model][2])[layout]
    machine = _machine(folder, processes)
    try:
        plan = search(_graph(folder, model), machine, asked)
        refuse(plan)
        known = _same(plan, model, processes, rows)
        if known is not None:
            return replace(known, layout=layout, same_as=known.layout)
        found = run_measured(plan, steps, 0, _TIMEOUT_S)
    except (ApplyError, InfeasibleError, ProcessError, RequestError) as error:
        print(f"{where}: {error}")
        return None
    low_s, high_s = found.spread_s
    causes = tuple((row.cause, row.predicted, row.measured) for row in rows_of(plan, found))
    print(f"{where}: {plan.estimate.step_time_s:.4g} s, measured {found.median_s:.4g} s")
    return Row(
        model, processes, layout, plan_name(plan), plan.estimate.step_time_s, found.median_s,
        low_s, high_s, causes, found.loss_error,
    )  # fmt: skip


def _same(plan: Plan, model: str, processes: int, rows: Sequence[Row]) -> Row | None:
    """A row of the same plan: of that name, and to the last digit as long."""
    mine = (model, processes, plan_name(plan), plan.estimate.step_time_s)
    return next(
        (
            r
            for r in rows
            if (r.model, r.processes, r.plan, r.predicted_s) == mine and not r.same_as
        ),
        None,
    )


def _machine(folder: Path, processes: int) -> Cluster:
    """This machine, measured once with so many processes."""
    path = folder / f"host{processes}.yaml"
    if not path.exists():
        text, _ = machine_of(measured_host(processes, _TIMEOUT_S))
        path.write_text(text, encoding="utf-8")
    return load_machine(path.read_text(encoding="utf-8"), str(path)).cluster(processes)


def _graph(folder: Path, model: str) -> OpGraph:
    from benchmarks.run_nets import exported  # noqa: PLC0415

    path = folder / f"{model}.pt2"
    if not path.exists():
        exported(model, str(path))
    return import_model_file(path)


def report(rows: Sequence[Row]) -> str:
    """Tables of the measurements, as Markdown."""
    groups = _groups(rows)
    head = (
        "| processes | configurations | median error | Spearman within a model, median, least | "
        "pairs in order | searched fastest or within 5 % |\n|--:|--:|--:|--:|--:|--:|"
    )
    lines = [head]
    for processes in sorted({row.processes for row in rows}):
        own = {model: group for (model, size), group in groups.items() if size == processes}
        lines.append(_summary(processes, own))
    lines.append("\n| model | processes | layout | plan | predicted | measured | error |")
    lines.append("|---|--:|---|---|--:|--:|--:|")
    for row in sorted(rows, key=lambda r: (r.processes, r.model, r.measured_s)):
        same = f", as {row.same_as}" if row.same_as else ""
        error = row.predicted_s / row.measured_s - 1.0
        lines.append(
            f"| {row.model} | {row.processes} | {row.layout}{same} | {row.plan} | "
            f"{1e3 * row.predicted_s:.1f} ms | {1e3 * row.measured_s:.1f} ms | {error:+.0%} |"
        )
    return "\n".join(lines)


def _groups(rows: Sequence[Row]) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row.model, row.processes), []).append(row)
    return found


def _summary(processes: int, groups: Mapping[str, Sequence[Row]]) -> str:
    own = [row for group in groups.values() for row in group if not row.same_as]
    ranks = [r for r in (spearman(group) for group in groups.values()) if r is not None]
    told = f"{np.median(ranks):.2f}, {min(ranks):.2f}" if ranks else "-"
    right, pairs = map(sum, zip(*(in_order(group) for group in groups.values()), strict=True))
    best = [is_best(group) for group in groups.values()]
    known = [each for each in best if each is not None]
    error = np.median([row.error for row in own])
    return (
        f"| {processes} | {len(own)} | {error:.0%} | {told} | {right} of {pairs} | "
        f"{sum(known)} of {len(known)} |"
    )


def _distinct(group: Sequence[Row]) -> list[Row]:
    return [row for row in group if not row.same_as]


def spearman(group: Sequence[Row]) -> float | None:
    """Rank correlation of a model's layouts; none where their steps hardly differ."""
    rows = _distinct(group)
    measured = [row.measured_s for row in rows]
    if len(rows) < 3 or max(measured) < (1.0 + _DIFFERENT) * min(measured):
        return None
    one, other = (np.argsort(np.argsort(x)) for x in (measured, [r.predicted_s for r in rows]))
    return float(np.corrcoef(one, other)[0][1])


def in_order(group: Sequence[Row]) -> tuple[int, int]:
    """Pairs of layouts whose measured steps differ that are predicted in their order, and all."""
    rows, right, pairs = sorted(_distinct(group), key=lambda r: r.measured_s), 0, 0
    for number, fast in enumerate(rows):
        for slow in rows[number + 1 :]:
            if slow.measured_s > (1.0 + _DIFFERENT) * fast.measured_s:
                pairs += 1
                right += slow.predicted_s > fast.predicted_s
    return right, pairs


def is_best(group: Sequence[Row]) -> bool | None:
    """Whether the searched plan is the measured fastest, or within 5 % of it."""
    searched = next((row for row in group if row.layout == SEARCHED), None)
    if searched is None or len(group) < 2:
        return None
    return searched.measured_s <= 1.05 * min(row.measured_s for row in group)


if __name__ == "__main__":
    main()
