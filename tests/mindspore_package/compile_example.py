"""Compile `examples/run_on_ascend`, forward and backward, for devices that are not there.

Give it the plan's folder, the number of devices, and the path of the result.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore.graph.api import _cell_graph_executor as executor

from tests.mindspore_package.imagined_cluster import imagine

EXAMPLE = Path(__file__).parents[2] / "examples" / "run_on_ascend"


def main(folder: Path, devices: int, result: Path) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(devices)
    sys.path.insert(0, str(EXAMPLE))  # MindSpore imports the module of a cell once more
    example = importlib.import_module("train")
    step, _ = example.training_step(folder)
    x = ms.Tensor(np.ones((example.ROWS // devices, example.WIDTH), np.float32))
    phase, _ = executor.compile(step, x, x, phase="export")
    strategies = executor._graph_executor.get_strategy(phase)
    result.write_text(json.dumps(strategies))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
