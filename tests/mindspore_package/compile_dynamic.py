"""Compile the tutorial's perceptron with dynamic rows for eight devices that are not there.

Give it the plan's folder, the divisor of one rank's rows (0: as the plan says), and the path of the
result.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.graph.api import _cell_graph_executor as executor

from tests.mindspore_package.imagined_cluster import imagine


class Network(nn.Cell):
    """The network of the tutorial, but for its strategies."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"fc1_weight": (784, 512), "fc2_weight": (512, 512), "fc3_weight": (512, 10)}
        for name, size in sizes.items():
            setattr(self, name, ms.Parameter(np.zeros(size, np.float32), name=name))
        self.matmul1, self.relu1 = ops.MatMul(), ops.ReLU()
        self.matmul2, self.relu2 = ops.MatMul(), ops.ReLU()
        self.matmul3 = ops.MatMul()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = ops.reshape(x, (-1, 784))
        x = self.relu1(self.matmul1(x, self.fc1_weight))
        x = self.relu2(self.matmul2(x, self.fc2_weight))
        return self.matmul3(x, self.fc3_weight)


def main(folder: Path, divisor: int, result: Path) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(8)
    setup = runpy.run_path(str(folder / "setup.py"))
    strategy = setup["OLD"]["dataset_strategy"] if not divisor else "full_batch"
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=8, global_rank=0, dataset_strategy=strategy
    )
    network = Network()
    missing = runpy.run_path(str(folder / "apply_mindspore.py"))["apply"](network)
    if divisor:
        rows = ms.Symbol(divisor=divisor)
        network.set_inputs(ms.Tensor(shape=[rows, 1, 28, 28], dtype=ms.float32))
    else:
        setup["set_dynamic_inputs"](network)
    try:
        phase, _ = executor.compile(network, *network.get_inputs(), phase="export")
        found = executor._graph_executor.get_strategy(phase)
        said = ""
    except RuntimeError as error:
        found, said = {}, str(error)
    result.write_text(json.dumps({"missing": missing, "strategies": found, "said": said}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
