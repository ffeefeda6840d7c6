"""All conventional layouts of a training job, priced at once: the fastest that fits.

A conventional layout says degrees of tensor, context, pipeline, data and expert parallelism, chunks
per stage, the micro-batch, what data parallel ranks share (ZeRO), and what is computed again. All
that go with the job are columns of one table; `costmodel.training` prices them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from costmodel.training.calibration import neighbours_of, shipped_calibration
from costmodel.training.distinct import distinct_rows
from costmodel.training.families import family_of
from costmodel.training.machines import machine
from costmodel.training.memory import charged_bytes
from costmodel.training.passes import Computing, computing
from costmodel.training.records import TrainingLayout, TrainingRun
from costmodel.training.sizes import expert_parts
from costmodel.training.stage_split import stage_layers
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from planner.whatif.layout_space import (
    AGAIN,
    COLUMNS,
    BoolArray,
    FloatArray,
    kinds_held,
    layout_of_row,
    rows_of,
    shares_of,
    with_share,
)

CHUNK_ROWS = 50_000
"""Layouts priced together: some 100 MB of columns."""
_NOT_COMPUTING = {"pp", "dp", "vpp", "zero_stage", "zero_group", "recompute_full", "recompute_core"}
_COMPUTING = [number for number, name in enumerate(COLUMNS) if name not in _NOT_COMPUTING]
"""What decides how long one device computes for a micro-batch in a mean layer."""
NOTHING: Mapping[str, object] = MappingProxyType({})

Flags: TypeAlias = Callable[[TrainingLayout], frozenset[str]]
"""What the software does of itself with a layout."""
Report: TypeAlias = Callable[[str], None]
"""Receives one line of progress."""


@dataclass(frozen=True, slots=True)
class PricedLayouts:
    """Layouts side by side, each array of shape (N,)."""

    layouts: FloatArray
    """One row each, shape (N, 12): the columns of `layout_space`."""
    step_s: FloatArray
    memory_bytes: FloatArray
    """In use at the peak on the fullest device, beyond what is reserved for the runtime."""
    limit_bytes: float

    @property
    def fits(self) -> BoolArray:
        return self.memory_bytes <= self.limit_bytes

    def best(self) -> int | None:
        """The fastest that fits; of equal ones the one with the least memory."""
        return next(iter(self.ranked()), None)

    def ranked(self) -> list[int]:
        """Those that fit, the fastest first; of equal ones the one with the least memory."""
        fine = np.flatnonzero(self.fits)
        order = np.lexsort((self.memory_bytes[fine], self.step_s[fine]))
        found: list[int] = fine[order].tolist()
        return found

    def taken(self, kept: BoolArray) -> PricedLayouts:
        """Some of them."""
        return replace(
            self,
            layouts=self.layouts[kept],
            step_s=self.step_s[kept],
            memory_bytes=self.memory_bytes[kept],
        )

    def with_more(self, other: PricedLayouts) -> PricedLayouts:
        """These and others of the same job."""
        return PricedLayouts(
            np.concatenate((self.layouts, other.layouts)),
            np.concatenate((self.step_s, other.step_s)),
            np.concatenate((self.memory_bytes, other.memory_bytes)),
            self.limit_bytes,
        )

    def layout(self, index: int, job: TrainingRun) -> TrainingLayout:
        """One of them, for the batch and the sequences of a job."""
        return layout_of_row(self.layouts[index], job)


def fastest(job: TrainingRun, devices: int) -> TrainingRun | None:
    """The job with the fastest conventional layout that fits; `None` if none does.

    Args:
        job: model, machine, software, batch and length; how its own layout cuts them is not read.
        devices: to be used, all of them.
    """
    found = priced_layouts(job, devices)
    best = found.best()
    return None if best is None else replace(job, layout=found.layout(best, job))


def priced_layouts(
    job: TrainingRun,
    devices: int,
    held: Mapping[str, object] = NOTHING,
    flags: Flags | None = None,
    report: Report = lambda _: None,
) -> PricedLayouts:
    """Conventional layouts of a job with their step times and memory.

    First those that compute nothing, the core of attention, or everything again. More layers
    computed again take more time and less memory, so numbers between are tried only where nothing
    computed again does not fit and everything does, and where the former is faster than the best
    layout so far.

    Args:
        job: model, machine, software, batch and length.
        devices: to be used, all of them.
        held: fields of a layout that have one value; `recompute` too.
        flags: what the software does of itself; that of the job if it is not said.
        report: receives progress.
    """
    report(f"looking for the layouts of {devices:,} devices")
    first = _priced(job, rows_of(job, devices, held, report), flags, report)
    allowed = first.taken(kinds_held(first.layouts, held))
    best = allowed.best()
    least_s = np.inf if best is None else allowed.step_s[best]
    kinds = first.layouts.reshape(-1, len(AGAIN), len(COLUMNS))
    fits, times = first.fits.reshape(-1, len(AGAIN)), first.step_s.reshape(-1, len(AGAIN))
    between = kinds[~fits[:, 0] & fits[:, 2] & (times[:, 0] < least_s)][:, 0]
    more = [with_share(row, share) for row in between for share in shares_of(job, row)]
    rows = np.array(more).reshape(-1, len(COLUMNS))
    return allowed.with_more(_priced(job, rows[kinds_held(rows, held)], flags, report))


def _priced(
    job: TrainingRun, rows: FloatArray, flags: Flags | None, report: Report
) -> PricedLayouts:
    plain = replace(job, layout=_plain(job.layout))
    limit = machine(job.machine).usable_bytes
    times, memory = np.zeros(len(rows)), np.zeros(len(rows))
    done = 0
    report(f"pricing {len(rows):,} layouts")
    for run, numbers in _by_flags(plain, rows, flags):
        for start in range(0, len(numbers), CHUNK_ROWS):
            part = numbers[start : start + CHUNK_ROWS]
            times[part], memory[part] = _of_some(run, rows[part])
            done += len(part)
            report(f"{done:,} of {len(rows):,} layouts priced")
    return PricedLayouts(rows, times, memory, limit)


def _by_flags(
    plain: TrainingRun, rows: FloatArray, flags: Flags | None
) -> Iterator[tuple[TrainingRun, np.ndarray[tuple[int], np.dtype[np.intp]]]]:
    """The job with each set of flags, and the numbers of its rows."""
    if flags is None:
        yield plain, np.arange(len(rows))
        return
    decides = [COLUMNS.index(name) for name in ("pp", "vpp", "ep")]
    first, kinds = distinct_rows(*np.minimum(rows[:, decides], [2, 2, np.inf]).T)
    for number in range(len(first)):
        numbers = np.flatnonzero(kinds == number)
        own = flags(layout_of_row(rows[numbers[0]], plain))
        yield replace(plain, flags=own), numbers


def table_of(run: TrainingRun, rows: FloatArray) -> RunTable:
    """A run in the layout of each row, with what each has of an expert."""
    table = RunTable.of([run]).take(np.zeros(len(rows), dtype=np.int64))
    many = table.with_columns(_columns(rows, run))
    return many.with_columns({"etp": expert_parts(many)})


def _of_some(run: TrainingRun, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Step times and memory of rows that go with a run."""
    calibration, family = shipped_calibration(), family_of(run)[0].name
    constants = calibration.constants[family]
    many = table_of(run, rows)
    machines = np.full(len(rows), run.machine)
    factor = neighbours_of(family).factor(many, machines)
    first, kinds = distinct_rows(*rows[:, _COMPUTING].T, many.etp)
    own = Computing(*(each[kinds] for each in computing(many.take(first), constants)))
    times = step_times(many, constants, own=own).total * factor
    return times, charged_bytes(many, calibration.memory_of(run.profile))


def _plain(layout: TrainingLayout) -> TrainingLayout:
    return TrainingLayout(layout.global_batch, 1, layout.seq_len)


def _columns(rows: FloatArray, job: TrainingRun) -> dict[str, FloatArray]:
    """The columns of some layouts, with the layers of their stages."""
    columns = {name: rows[:, i] for i, name in enumerate(COLUMNS)}
    layers, further = (
        np.full(len(rows), float(size)) for size in (job.model.layers, job.model.further)
    )
    first, last, most = stage_layers(layers, columns["pp"], columns["vpp"], further)
    return columns | {
        "first_layers": first,
        "last_layers": last,
        "most_layers": most,
        "recompute_share": np.maximum(columns["recompute_full"], columns["recompute_core"]),
    }
