"""All conventional layouts of a training job, priced at once: the fastest that fits.

A conventional layout says degrees of tensor, context, pipeline, data and expert parallelism, chunks
per stage, the micro-batch, what data parallel ranks share (ZeRO), and what is computed again. All
that go with the job are columns of one table; `costmodel.training` prices them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.training.calibration import neighbours_of, shipped_calibration
from costmodel.training.families import family_of
from costmodel.training.machines import machine
from costmodel.training.memory import memory_use
from costmodel.training.predict import USABLE
from costmodel.training.records import Recompute, TrainingLayout, TrainingRun
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

FloatArray = NDArray[np.float64]

LARGEST_MICRO_BATCH = 512
SHARES = 16
"""Numbers of layers of a chunk that may be computed again; of more, so many are tried."""
CHUNK_ROWS = 50_000
"""Layouts priced together: some 100 MB of columns."""
_COLUMNS = (
    "tp", "cp", "pp", "dp", "vpp", "ep", "micro_batch", "zero_stage", "zero_group",
    "sequence_parallel", "recompute_full", "recompute_core",
)  # fmt: skip
_AGAIN = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))
"""Nothing, the core of attention, and everything computed again: shares of the layers, the whole of
them and their core."""


@dataclass(frozen=True, slots=True)
class PricedLayouts:
    """Layouts side by side, each array of shape (N,)."""

    layouts: FloatArray
    """One row each, shape (N, 12): the columns of `_COLUMNS`."""
    step_s: FloatArray
    memory_bytes: FloatArray
    """In use at the peak on the fullest device."""
    limit_bytes: float

    @property
    def fits(self) -> NDArray[np.bool_]:
        return self.memory_bytes <= self.limit_bytes

    def best(self) -> int | None:
        """The fastest that fits; of equal ones the one with the least memory."""
        fine = np.flatnonzero(self.fits)
        if not len(fine):
            return None
        order = np.lexsort((self.memory_bytes[fine], self.step_s[fine]))
        return int(fine[order[0]])

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
        row = dict(zip(_COLUMNS, self.layouts[index].tolist(), strict=True))
        full, core = row["recompute_full"], row["recompute_core"]
        kind = Recompute.FULL if full else Recompute.SELECTIVE if core else Recompute.NONE
        return TrainingLayout(
            global_batch=job.layout.global_batch,
            micro_batch=int(row["micro_batch"]),
            seq_len=job.layout.seq_len,
            tp=int(row["tp"]),
            pp=int(row["pp"]),
            vpp=int(row["vpp"]),
            dp=int(row["dp"]),
            cp=int(row["cp"]),
            ep=int(row["ep"]),
            zero_stage=int(row["zero_stage"]),
            zero_group=int(row["zero_group"]),
            sequence_parallel=bool(row["sequence_parallel"]),
            recompute=kind,
            recompute_share=full or core or 1.0,
        )


def fastest(job: TrainingRun, devices: int) -> TrainingRun | None:
    """The job with the fastest conventional layout that fits; `None` if none does.

    Args:
        job: model, machine, software, batch and length; how its own layout cuts them is not read.
        devices: to be used, all of them.
    """
    found = priced_layouts(job, devices)
    best = found.best()
    return None if best is None else replace(job, layout=found.layout(best, job))


def priced_layouts(job: TrainingRun, devices: int) -> PricedLayouts:
    """Conventional layouts of a job with their step times and memory.

    First those that compute nothing, the core of attention, or everything again. More layers
    computed again take more time and less memory, so numbers between are tried only where nothing
    computed again does not fit and everything does, and where the former is faster than the best
    layout so far.
    """
    first = _priced(job, np.array(list(_rows(job, devices))).reshape(-1, len(_COLUMNS)))
    best = first.best()
    least_s = np.inf if best is None else first.step_s[best]
    kinds = first.layouts.reshape(-1, len(_AGAIN), len(_COLUMNS))
    fits, times = first.fits.reshape(-1, len(_AGAIN)), first.step_s.reshape(-1, len(_AGAIN))
    between = kinds[~fits[:, 0] & fits[:, 2] & (times[:, 0] < least_s)][:, 0]
    more = [_with_share(row, share) for row in between for share in _shares(job, row)]
    return first.with_more(_priced(job, np.array(more).reshape(-1, len(_COLUMNS))))


def _priced(job: TrainingRun, rows: FloatArray) -> PricedLayouts:
    table = RunTable.of([replace(job, layout=_plain(job.layout))])
    constants = shipped_calibration()
    family = family_of(job)[0].name
    own, kept = constants.constants[family], constants.memory_of(job.profile)
    similar = neighbours_of(family)
    limit = USABLE * float(table.machine.memory_bytes[0])
    times, memory = np.zeros(len(rows)), np.zeros(len(rows))
    for start in range(0, len(rows), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        columns = _columns(rows[part], job)
        many = table.take(np.zeros(len(rows[part]), dtype=np.int64)).with_columns(columns)
        machines = np.full(len(rows[part]), job.machine)
        times[part] = step_times(many, own).total * similar.factor(many, machines)
        memory[part] = memory_use(many, kept).total
    return PricedLayouts(rows, times, memory, limit)


def _plain(layout: TrainingLayout) -> TrainingLayout:
    return TrainingLayout(layout.global_batch, 1, layout.seq_len)


def _columns(rows: FloatArray, job: TrainingRun) -> dict[str, FloatArray]:
    """The columns of some layouts, with the layers of their stages."""
    columns = {name: rows[:, i] for i, name in enumerate(_COLUMNS)}
    layers, stages = float(job.model.layers), columns["pp"]
    low, high = np.floor(layers / stages), np.ceil(layers / stages)
    ends_count = (layers % (stages * columns["vpp"]) != 0) & (
        (layers + 2) % (stages * columns["vpp"]) == 0
    )
    each = (layers + 2) / stages
    single = stages == 1
    ends = np.where(single, layers, np.where(ends_count, each - 1, low))
    most = np.where(single, layers, np.where(ends_count, each, high))
    return columns | {
        "first_layers": ends,
        "last_layers": ends,
        "most_layers": most,
        "recompute_share": np.maximum(columns["recompute_full"], columns["recompute_core"]),
    }


def _rows(job: TrainingRun, devices: int) -> Iterator[tuple[float, ...]]:
    """All layouts that go with the sizes of a job."""
    for tp, cp, pp, dp in _degrees(job, devices):
        shared = sorted({0, min(machine(job.machine).server, dp * cp)})
        groups = [g for g in shared if not g or (dp * cp) % g == 0]
        zeros = [(stage, group) for stage in range(4) for group in (groups if stage else [0])]
        zeros = zeros if dp * cp > 1 else [(0, 0)]
        parts = itertools.product(
            _chunks(job, pp), _experts(job, dp * cp * tp), _micro_batches(job, dp), zeros,
            (0, 1) if tp > 1 else (0,),
        )  # fmt: skip
        for vpp, ep, micro, (stage, group), sequence in parts:
            if vpp > 1 and (job.layout.global_batch // (micro * dp)) % pp:
                continue
            for full, core in _AGAIN:
                yield (tp, cp, pp, dp, vpp, ep, micro, stage, group, sequence, full, core)


def _degrees(job: TrainingRun, devices: int) -> Iterator[tuple[int, int, int, int]]:
    model, layout = job.model, job.layout
    for tp in _divisors(devices):
        if model.heads % tp:
            continue
        for cp in _divisors(devices // tp):
            if layout.seq_len % cp:
                continue
            for pp in _divisors(devices // (tp * cp)):
                dp = devices // (tp * cp * pp)
                if pp <= model.layers and layout.global_batch % dp == 0:
                    yield tp, cp, pp, dp


def _chunks(job: TrainingRun, pp: int) -> list[int]:
    """Chunks of each stage: as many as leave all chunks equal, the ends counted as a layer each if
    need be.
    """
    if pp == 1:
        return [1]
    layers = job.model.layers
    most = layers // pp
    even = [v for v in range(2, most + 1) if not layers % (pp * v) or not (layers + 2) % (pp * v)]
    return [1, *even]


def _experts(job: TrainingRun, ranks: int) -> list[int]:
    if not job.model.experts:
        return [1]
    return [ep for ep in _divisors(ranks) if job.model.experts % ep == 0]


def _micro_batches(job: TrainingRun, dp: int) -> list[int]:
    own = job.layout.global_batch // dp
    return [micro for micro in _divisors(own) if micro <= LARGEST_MICRO_BATCH or micro == own]


def _shares(job: TrainingRun, row: FloatArray) -> list[float]:
    """Shares of the layers that may be computed again: the same number of every chunk."""
    columns = dict(zip(_COLUMNS, row.tolist(), strict=True))
    chunks = columns["pp"] * columns["vpp"]
    each = max(1, int(job.model.layers // chunks))
    counts = range(1, each) if each <= SHARES else np.linspace(1, each - 1, SHARES).round()
    return sorted({min(1.0, float(n) * chunks / job.model.layers) for n in counts})


def _with_share(row: FloatArray, share: float) -> FloatArray:
    changed = row.copy()
    changed[_COLUMNS.index("recompute_full")] = share
    return changed


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
