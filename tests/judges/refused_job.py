"""A job that `parallelize` refuses: rank 1 has another plan, or says another version of torch.

`python -m torch.distributed.run --nproc-per-node N tests/judges/refused_job.py FOLDER WHAT` writes
what each rank was told.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    """Call `parallelize` on every rank."""
    from executors.torch import parallelize  # noqa: PLC0415  after the group is there
    from executors.torch_differences import ApplyError  # noqa: PLC0415
    from tests.judges.training_nets import case_of  # noqa: PLC0415

    folder, what = Path(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if what == "version" and rank == 1:
        torch.__version__ = "1.0"
    model, operands, _ = case_of("perceptron")
    plan = folder / ("other.json" if what == "plan" and rank == 1 else "plan.json")
    try:
        parallelize(model, plan, operands)
        said = "nothing"
    except ApplyError as error:
        said = str(error)
    (folder / f"said{rank}.txt").write_text(said)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
