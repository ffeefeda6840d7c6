"""Train a perceptron as planned. Every process of the job runs this; it needs MindSpore alone.

python train.py FOLDER          where FOLDER holds apply_mindspore.py and strategy.ckpt
"""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, ANN204, INP001, T201

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, get_rank, init
from mindspore.parallel.auto_parallel import AutoParallel

ROWS, WIDTH, HIDDEN = 256, 512, 2048


class Perceptron(nn.Cell):
    """Names of cells and parameters, and orientation of weights, as in the model that was planned.

    Names that differ are mapped with `planner export --names`.
    """

    def __init__(self):
        super().__init__()
        draw = np.random.default_rng(0)
        self.up = self._weight("up", draw.standard_normal((WIDTH, HIDDEN)))
        self.down = self._weight("down", draw.standard_normal((HIDDEN, WIDTH)))
        self.first, self.relu, self.second = ops.MatMul(), ops.ReLU(), ops.MatMul()

    def _weight(self, name, value):
        return ms.Parameter(ms.Tensor(value / 32, ms.float32), name=name)

    def construct(self, x):
        return self.second(self.relu(self.first(x, self.up)), self.down)


def training_step(folder):
    """One step of training, to be compiled with the splits of the plan in a folder."""
    plan = runpy.run_path(str(Path(folder, "apply_mindspore.py")))
    network = Perceptron()
    for line in plan["apply"](network):
        print(f"not as planned: {line}")
    loss = nn.WithLossCell(network, nn.MSELoss())
    step = nn.TrainOneStepCell(loss, nn.SGD(network.trainable_params(), 1e-3))
    parallel = AutoParallel(step.set_train(), parallel_mode="semi_auto")
    parallel.load_param_strategy_file(str(Path(folder, "strategy.ckpt").resolve()))
    parallel.dataset_strategy(plan["DATASET_STRATEGY"] * 2)  # of the input and of what it should be
    if plan["OPTIMIZER_SHARD_SIZE"]:
        parallel.hsdp(plan["OPTIMIZER_SHARD_SIZE"], threshold=0)
    return parallel, plan


def own_part(whole, cuts):
    """The rows and columns that this rank brings; ranks of copies stand outermost."""
    place = get_rank() % int(np.prod(cuts))
    for dim in reversed(range(len(cuts))):
        place, index = divmod(place, cuts[dim])
        whole = np.split(whole, cuts[dim], axis=dim)[index]
    return ms.Tensor(whole)


def main():
    """Three steps on random rows."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("Ascend")
    init()
    step, plan = training_step(sys.argv[1])
    if get_group_size() != plan["DEVICES"]:
        raise SystemExit(f"the plan is for {plan['DEVICES']} devices, not {get_group_size()}")
    draw = np.random.default_rng(1)
    rows = draw.standard_normal((ROWS, WIDTH)).astype(np.float32)
    x = own_part(rows, plan["DATASET_STRATEGY"][0])
    for _ in range(3):
        print(f"loss {float(step(x, x).asnumpy()):.6f}")


if __name__ == "__main__":
    main()
