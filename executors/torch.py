"""Torch runs a plan: `parallelize` in a training script, and DTensor as a judge.

As a judge DTensor runs it by its own sharding rules. The collectives are those of the first of as
many ranks as the plan has, none of which holds a number; the numbers are those of real processes,
where there are few enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from executors.dtensor.counts import Counts, counted
from executors.dtensor.parallel import parallelize
from executors.dtensor.processes import Found, ProcessError, numbers_only, run_tasks
from executors.dtensor.tasks import RankTask
from executors.evaluation import Evaluator
from executors.judgement import Judgement, predicted_traffic
from executors.placement import Array
from executors.verdict import Output, compared, run_whole
from ir.plan import Plan

__all__ = ["MOST_PROCESSES", "TOLERANCE", "judge", "judge_all", "parallelize"]

MOST_PROCESSES = 8
"""Plans of more devices are counted only."""
TOLERANCE = 1e-6
"""Relative error that rounding in double precision never makes, and a wrong split does."""


def judge(plan: Plan, values: Mapping[str, Array], *, processes: bool = True) -> Judgement:
    """Hold a plan against what DTensor sends and computes.

    Args:
        plan: the plan; in training the backward pass is derived, unless it is in the graph.
        values: numbers of everything that no operator makes.
        processes: whether to run it on numbers too, where it has few enough devices.
    """
    return judge_all([(plan, values)], processes=processes)[0]


def judge_all(
    cases: Sequence[tuple[Plan, Mapping[str, Array]]], *, processes: bool = True
) -> list[Judgement]:
    """Judge several plans; those of as many devices share their processes."""
    trials = [
        _Trial(plan, values, counted(plan, training=plan.derives_gradients))
        for plan, values in cases
    ]
    sizes = {t.plan.devices for t in trials if t.plan.devices <= MOST_PROCESSES}
    for size in sorted(sizes) if processes else ():
        _run([t for t in trials if t.plan.devices == size])
    return [trial.judgement() for trial in trials]


@dataclass(slots=True)
class _Trial:
    """One plan under judgement."""

    plan: Plan
    values: Mapping[str, Array]
    counts: Counts
    outputs: tuple[Output, ...] | None = None
    not_run: dict[str, str] = field(default_factory=dict)

    def rank_task(self) -> RankTask:
        parted = tuple(self.counts.parted)
        return RankTask(self.plan, numbers_only(self.values), self.plan.derives_gradients, parted)

    def compare(self, found: Found) -> None:
        """Hold the outputs of the processes against those of the whole model."""
        with np.errstate(all="ignore"):
            expected, failed = run_whole(
                self.plan.graph, self.values, Evaluator(), training=self.plan.derives_gradients
            )
        lost = [n for n in expected if n not in found.outputs]
        self.outputs = compared(expected, found.outputs, TOLERANCE, found.disagreement)
        self.not_run |= dict.fromkeys(lost, "this output was not computed")
        self.not_run |= {**failed, **found.not_run}

    def judgement(self) -> Judgement:
        notes = _notes(self.plan, self.counts)
        if self.outputs is None:
            notes.append(f"numbers were not computed: {self.plan.devices} devices")
        return Judgement(
            judge=f"DTensor (torch {torch.__version__}, cpu)",
            outputs=self.outputs or (),
            predicted=predicted_traffic(self.plan),
            emitted=self.counts.traffic,
            not_run={**self.not_run, **self.counts.not_run},
            tolerance=TOLERANCE,
            counts_matter=True,
            notes=tuple(notes),
        )


def _run(trials: Sequence[_Trial]) -> None:
    """Run plans of one number of devices; what could not be run says so in every judgement."""
    try:
        found = run_tasks([trial.rank_task() for trial in trials])
    except ProcessError as error:
        for trial in trials:
            trial.outputs, trial.not_run["the processes"] = (), str(error)
        return
    for trial, own in zip(trials, found, strict=True):
        trial.compare(own)


def _notes(plan: Plan, counts: Counts) -> list[str]:
    """What was done otherwise than by DTensor alone."""
    kinds = {op.name: op.label for op in plan.operators}
    parted = Counter((kinds[name], way, why) for (name, way), why in counts.parted.items())
    operators = sum(bool(op.outputs) for op in plan.graph.ops)
    without = len({name for name, _ in counts.parted})
    out = [f"{operators - without} of {operators} operators ran by DTensor's own rules alone"]
    for (kind, way, why), number in sorted(parted.items()):
        out.append(f"{_times(number)}{kind}, {way}, ran on the parts of the device: {why}")
    led = counts.other_ways.total()
    if led:
        out.append(
            f"{counts.own_ways} of {counts.own_ways + led} redistributions went DTensor's way"
        )
    for text, number in sorted(counts.other_ways.items()):
        out.append(f"{_times(number)}DTensor alone would send {text}; it was led the plan's way")
    if counts.in_turn:
        out.append(
            f"{counts.in_turn} collectives over several axes, in another order than ranks are "
            "numbered, were sent one axis after the other; each counts as one"
        )
    if plan.recomputed:
        out.append(f"{len(plan.recomputed)} tensors that the plan computes again were kept")
    return out


def _times(number: int) -> str:
    return f"{number} x " if number > 1 else ""
