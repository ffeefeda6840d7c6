"""Rows that another model composed are told from measured ones."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.composed_rows import composed_sources
from costmodel.training.dataset import Entry, read_entries

pytestmark = pytest.mark.fast

ROW = {
    "source": "a table", "hardware": "NVIDIA A100", "devices": "8", "model": "GPT",
    "hidden": "1024", "heads": "16", "seq_len": "1024", "tp": "8", "dp": "1",
}  # fmt: skip


def table(noise: float, batches: tuple[int, ...] = (8, 16, 32)) -> tuple[Entry, ...]:
    """Three cells by micro-batch, each of layers and batches, with relative noise on top."""
    drawn = np.random.default_rng(32)
    rows = []
    for size in (1, 2, 4):
        for layers in (12, 16, 24):
            for batch in batches:
                count = batch / size
                step_s = count * (3.1e-3 * size * layers + 2e-3) + 8e-5 * layers + 3e-4
                step_s *= 1.0 + noise * drawn.standard_normal()
                own = {"layers": layers, "global_batch": batch, "micro_batch": size}
                name = f"{size}-{layers}-{batch}"
                row = own | {"id": name, "measured_step_time_s": f"{step_s:.6f}"}
                rows.append(ROW | {key: str(value) for key, value in row.items()})
    return read_entries(rows)


def test_steps_that_are_linear_to_the_last_digit_are_composed() -> None:
    """Every row of the source is named, and no constant is fitted to it."""
    entries = table(0.0)
    (found,) = composed_sources(entries).values()
    assert (found.cells, found.tested, len(found.names)) == (3, 3, len(entries))
    assert set(found.names) == {entry.name for entry in entries}


def test_measured_steps_and_few_rows_are_not() -> None:
    """A tenth of a per cent is less than steps differ from one to the next; a law with as many
    numbers as there are rows says nothing.
    """
    assert not composed_sources(table(1e-3))
    assert not composed_sources(table(0.0, batches=(8,)))
    assert not composed_sources(())
