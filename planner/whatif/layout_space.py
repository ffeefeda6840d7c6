"""The space of conventional layouts of a training job, one row of numbers for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from costmodel.training.layout_check import mixer_heads
from costmodel.training.machines import machine
from costmodel.training.records import Recompute, TrainingLayout, TrainingRun
from planner.stages.menu import divisors

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
