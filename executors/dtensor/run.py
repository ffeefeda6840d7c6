"""One rank of a run of plans: `python -m executors.dtensor.run FOLDER --rank R --size N`, or with
torchrun, which says rank and size itself: `torchrun --nproc-per-node N -m executors.dtensor.run
FOLDER`.

The folder holds tasks (`executors.dtensor.tasks`) in folders `0`, `1`, ...; what each rank ends
with is written beside them. Accelerators are used where torch sees some.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from executors.dtensor.counts import inner_constants
from executors.dtensor.grid import Grid, grid_of
from executors.dtensor.numbers import torch_array
from executors.dtensor.operators import Operators
from executors.dtensor.program import Program
from executors.dtensor.ranks import joined
from executors.dtensor.tasks import Left, RankTask, read_task, write_left
from executors.dtensor.traffic import Log
from executors.reference import mesh_of


def main() -> None:
    """Run every task of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--size", type=int)
    chosen = parser.parse_args()
    with _group(chosen.folder, chosen.rank, chosen.size):
        for number in range(len(list(chosen.folder.glob("*/task.json")))):
            folder = chosen.folder / str(number)
            run_task(read_task(folder), folder)


@contextlib.contextmanager
def _group(folder: Path, rank: int | None, size: int | None) -> Iterator[None]:
    if rank is not None and size is not None:
        with joined(rank, size, folder / "meeting"):
            yield
        return
    dist.init_process_group()
    try:
        yield
    finally:
        dist.destroy_process_group()


def run_task(task: RankTask, folder: Path) -> None:
    """Run one task as the rank that this process is, and write what it has in the end."""
    rank = dist.get_rank()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    grid = grid_of(task.plan, mesh_of(task.plan), rank, device)
    given = {n: torch_array(a).to(device) for n, a in task.values.items()}
    inner = inner_constants(task.plan, given)
    operators = Operators(grid, task.plan.graph, Log(), True, inner)
    operators.parted |= dict.fromkeys(task.parted, "as counted")
    operators.settled = True
    results = Program(task.plan, grid, given, operators, task.training).run()
    left = {n: _left(grid, t) for n, t in results.outputs.items()}
    write_left(folder, rank, left, results.not_run)


def _left(grid: Grid, tensor: torch.Tensor) -> Left:
    layout = grid.layout_of(tensor)
    if layout is None:
        raise ValueError(f"an output has the placements {tensor.placements}")
    part = tensor._local_tensor.detach().cpu().numpy()  # noqa: SLF001
    return Left(layout, tuple(tensor.shape), part)


if __name__ == "__main__":
    main()
