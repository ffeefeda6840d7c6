"""All conventional layouts of a training job, priced at once: their space and the fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.training.calibration import Calibration, neighbours_of, shipped_calibration
from costmodel.training.distinct import distinct_rows
from costmodel.training.families import block_of, family_of
from costmodel.training.layout_check import mixer_heads
from costmodel.training.machines import machine
from costmodel.training.measured_spans import distances, widened
from costmodel.training.memory import charged_bytes
from costmodel.training.neighbours import UNKNOWN_DEVIATION
from costmodel.training.passes import Computing, computing
from costmodel.training.records import Recompute, TrainingLayout, TrainingRun
from costmodel.training.sizes import expert_parts
from costmodel.training.stage_split import stage_layers
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from ir.published import QUARTER
from planner.pipeline.space import divisors

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LARGEST_MICRO_BATCH = 512
SHARES = 16
"""Numbers of layers of a chunk that may be computed again; of more, so many are tried."""
COLUMNS = (
    "tp", "cp", "pp", "dp", "vpp", "ep", "micro_batch", "zero_stage", "zero_group",
    "sequence_parallel", "recompute_full", "recompute_core",
)  # fmt: skip
AGAIN = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))
"""Nothing, the core of attention, and everything computed again: shares of the layers, the whole of
them and their core."""
RECOMPUTE = "recompute"
"""What is held where the kind of recomputation is."""


def rows_of(
    job: TrainingRun,
    devices: int,
    held: Mapping[str, object],
    report: Callable[[str], None] = lambda _: None,
) -> FloatArray:
    """All layouts that go with the sizes of a job, with each way of computing again in turn.

    Args:
        job: model, machine, batch and length.
        devices: to be used, all of them.
        held: columns that have one value.
        report: receives progress.

    Returns:
        Shape (3 N, 12): `AGAIN` by `COLUMNS`.
    """
    blocks, count = [np.zeros((0, len(COLUMNS)))], 0
    for block in _blocks(job, devices):
        blocks.append(block)
        count += len(block)
        report(f"{count:,} layouts found")
    rows = np.concatenate(blocks)
    kept = np.ones(len(rows), dtype=np.bool_)
    for name, value in held.items():
        if name != RECOMPUTE:
            kept &= rows[:, COLUMNS.index(name)] == float(str(value))
    return rows[kept]


def kinds_held(rows: FloatArray, held: Mapping[str, object]) -> BoolArray:
    """Rows that compute again what is held, shape (N,)."""
    full, core = rows[:, COLUMNS.index("recompute_full")], rows[:, COLUMNS.index("recompute_core")]
    kind = {
        Recompute.NONE: (full == 0) & (core == 0),
        Recompute.SELECTIVE: core > 0,
        Recompute.FULL: full > 0,
    }
    wanted = held.get(RECOMPUTE)
    return np.ones(len(rows), dtype=np.bool_) if wanted is None else kind[Recompute(str(wanted))]


def layout_of_row(row: FloatArray, job: TrainingRun) -> TrainingLayout:
    """A row for the batch and the sequences of a job."""
    columns = dict(zip(COLUMNS, row.tolist(), strict=True))
    full, core = columns["recompute_full"], columns["recompute_core"]
    kind = Recompute.FULL if full else Recompute.SELECTIVE if core else Recompute.NONE
    return TrainingLayout(
        global_batch=job.layout.global_batch,
        micro_batch=int(columns["micro_batch"]),
        seq_len=job.layout.seq_len,
        tp=int(columns["tp"]),
        pp=int(columns["pp"]),
        vpp=int(columns["vpp"]),
        dp=int(columns["dp"]),
        cp=int(columns["cp"]),
        ep=int(columns["ep"]),
        zero_stage=int(columns["zero_stage"]),
        zero_group=int(columns["zero_group"]),
        sequence_parallel=bool(columns["sequence_parallel"]),
        recompute=kind,
        recompute_share=full or core or 1.0,
    )


def _blocks(job: TrainingRun, devices: int) -> Iterator[FloatArray]:
    """All layouts that go with the sizes of a job, those of equal degrees together."""
    for tp, cp, pp, dp in _degrees(job, devices):
        shared = sorted({0, min(machine(job.machine).server, dp * cp)})
        groups = [g for g in shared if not g or (dp * cp) % g == 0]
        zeros = [(stage, group) for stage in range(4) for group in (groups if stage else [0])]
        zeros = zeros if dp * cp > 1 else [(0, 0)]
        vpp, ep, micro, zero, sequence = (
            axis.ravel()
            for axis in np.meshgrid(
                _chunks(job, pp), _experts(job, dp * cp * tp), _micro_batches(job, dp),
                np.arange(len(zeros)), [0, 1] if tp > 1 else [0], indexing="ij",
            )
        )  # fmt: skip
        fine = (vpp == 1) | ((job.layout.global_batch // (micro * dp)) % pp == 0)
        stage, group = np.array(zeros)[zero[fine]].T
        own = np.stack([vpp[fine], ep[fine], micro[fine], stage, group, sequence[fine]], axis=1)
        degrees = np.broadcast_to([tp, cp, pp, dp], (len(own), 4))
        plain = np.repeat(np.concatenate((degrees, own), axis=1), len(AGAIN), axis=0)
        again = np.tile(np.array(AGAIN), (len(own), 1))
        yield np.concatenate((plain, again), axis=1, dtype=np.float64)


def _degrees(job: TrainingRun, devices: int) -> Iterator[tuple[int, int, int, int]]:
    model, layout = job.model, job.layout
    for tp in divisors(devices):
        if model.heads % tp or mixer_heads(model) % tp:
            continue
        for cp in divisors(devices // tp):
            if layout.seq_len % cp:
                continue
            for pp in divisors(devices // (tp * cp)):
                dp = devices // (tp * cp * pp)
                if pp <= model.layers and layout.global_batch % dp == 0:
                    yield tp, cp, pp, dp


def _chunks(job: TrainingRun, pp: int) -> list[int]:
    """Chunks of each stage: as many as leave all equal, or as leave no stage short of more than a
    layer with embedding and head counted as one each, as frameworks lay out what does not divide.
    """
    if pp == 1:
        return [1]
    layers = job.model.layers
    most = (layers + 2) // pp
    return [
        1,
        *(v for v in range(2, most + 1) if not layers % (pp * v) or -(layers + 2) % (pp * v) <= pp),
    ]


def _experts(job: TrainingRun, ranks: int) -> list[int]:
    if not job.model.experts:
        return [1]
    return [ep for ep in divisors(ranks) if job.model.experts % ep == 0]


def _micro_batches(job: TrainingRun, dp: int) -> list[int]:
    own = job.layout.global_batch // dp
    return [micro for micro in divisors(own) if micro <= LARGEST_MICRO_BATCH or micro == own]


def shares_of(job: TrainingRun, row: FloatArray) -> list[float]:
    """Shares of the layers that may be computed again: the same number of every chunk."""
    columns = dict(zip(COLUMNS, row.tolist(), strict=True))
    chunks = columns["pp"] * columns["vpp"]
    each = max(1, int(job.model.layers // chunks))
    counts = range(1, each) if each <= SHARES else np.linspace(1, each - 1, SHARES).round()
    return sorted({min(1.0, float(n) * chunks / job.model.layers) for n in counts})


def with_share(row: FloatArray, share: float) -> FloatArray:
    """The row with another share of the layers computed again as a whole."""
    changed = row.copy()
    changed[COLUMNS.index("recompute_full")] = share
    return changed


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
    upper_s: FloatArray
    """Three of four such steps take no longer: more where no measured run is like a layout."""

    @property
    def fits(self) -> BoolArray:
        return self.memory_bytes <= self.limit_bytes

    def best(self) -> int | None:
        """The fastest that fits; of equal ones the one with the least memory."""
        return next(iter(self.ranked()), None)

    def ranked(self, *, robust: bool = False) -> list[int]:
        """Those that fit, the fastest first; of equal ones the one with the least memory.

        Args:
            robust: whether the 75th percentile of the interval decides, not its middle.
        """
        fine = np.flatnonzero(self.fits)
        seconds = self.upper_s if robust else self.step_s
        order = np.lexsort((self.memory_bytes[fine], seconds[fine]))
        found: list[int] = fine[order].tolist()
        return found

    def taken(self, kept: BoolArray) -> PricedLayouts:
        """Some of them."""
        return replace(
            self,
            layouts=self.layouts[kept],
            step_s=self.step_s[kept],
            memory_bytes=self.memory_bytes[kept],
            upper_s=self.upper_s[kept],
        )

    def with_more(self, other: PricedLayouts) -> PricedLayouts:
        """These and others of the same job."""
        return PricedLayouts(
            np.concatenate((self.layouts, other.layouts)),
            np.concatenate((self.step_s, other.step_s)),
            np.concatenate((self.memory_bytes, other.memory_bytes)),
            self.limit_bytes,
            np.concatenate((self.upper_s, other.upper_s)),
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
    known: Calibration | None = None,
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
        known: constants; those of the package if not said.
    """
    known = shipped_calibration() if known is None else known
    report(f"looking for the layouts of {devices:,} devices")
    first = _priced(job, rows_of(job, devices, held, report), flags, report, known)
    allowed = first.taken(kinds_held(first.layouts, held))
    best = allowed.best()
    least_s = np.inf if best is None else allowed.step_s[best]
    kinds = first.layouts.reshape(-1, len(AGAIN), len(COLUMNS))
    fits, times = first.fits.reshape(-1, len(AGAIN)), first.step_s.reshape(-1, len(AGAIN))
    between = kinds[~fits[:, 0] & fits[:, 2] & (times[:, 0] < least_s)][:, 0]
    more = [with_share(row, share) for row in between for share in shares_of(job, row)]
    rows = np.array(more).reshape(-1, len(COLUMNS))
    return allowed.with_more(_priced(job, rows[kinds_held(rows, held)], flags, report, known))


def _priced(
    job: TrainingRun, rows: FloatArray, flags: Flags | None, report: Report, known: Calibration
) -> PricedLayouts:
    plain = replace(job, layout=_plain(job.layout))
    limit = machine(job.machine).usable_bytes
    times, memory, upper = (np.zeros(len(rows)) for _ in range(3))
    done = 0
    report(f"pricing {len(rows):,} layouts")
    for run, numbers in _by_flags(plain, rows, flags):
        for start in range(0, len(numbers), CHUNK_ROWS):
            part = numbers[start : start + CHUNK_ROWS]
            times[part], memory[part], upper[part] = _of_some(run, rows[part], known)
            done += len(part)
            report(f"{done:,} of {len(rows):,} layouts priced")
    return PricedLayouts(rows, times, memory, limit, upper)


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


def _of_some(
    run: TrainingRun, rows: FloatArray, known: Calibration
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Step times, memory and the 75th percentile of the times of rows that go with a run."""
    family = family_of(run)[0].name
    constants = known.constants[family]
    many = table_of(run, rows)
    machines = np.full(len(rows), run.machine)
    factor = neighbours_of(family).factor(many, machines)
    first, kinds = distinct_rows(*rows[:, _COMPUTING].T, many.etp)
    own = Computing(*(each[kinds] for each in computing(many.take(first), constants)))
    times = step_times(many, constants, own=own).total * factor
    far = distances(shipped_calibration().spans[family], many, len(rows))
    upper = times * np.exp(_upper_quarter(run, known) * widened(far))
    return times, charged_bytes(many, known.memory_of(run.profile)), upper


def _upper_quarter(run: TrainingRun, known: Calibration) -> float:
    """Logarithm of the 75th percentile over the middle of a run like none that was measured."""
    ends = known.interval.get(block_of(run))
    return QUARTER * UNKNOWN_DEVIATION * (ends.new[1] if ends else _UNKNOWN_END)


_UNKNOWN_END = 3.0
"""End of the interval of a block without rows, as `predict` has it (assumed)."""


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
