"""Run by MindSpore's Python: the exported inference file, for devices that are not there.

    python -m tests.mindspore_package.run_inference FOLDER DEVICES RESULT

FOLDER has the files of a plan of a perceptron. The checkpoints of a training are made
here: each rank's slices of weights that are numbered, by the strategy file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np

from executors.mindspore.script.own_network import module_at
from tests.mindspore_package.imagined_cluster import imagine
from tests.mindspore_package.mindir_blocks import Mlp


def numbered(shape: Sequence[int]) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def own_slice(whole: Any, layout: Sequence[Any], rank: int) -> Any:
    """What a rank holds of a weight, by the device matrix and the tensor map of the file."""
    matrix, tensor_map, _, _, _, shared = layout[:6]
    place = [int(n) for n in np.unravel_index(rank, matrix)]
    for dim, axis in enumerate(tensor_map):
        if axis >= 0:
            whole = np.split(whole, matrix[-1 - axis], axis=dim)[place[-1 - axis]]
    return np.split(whole, shared, axis=0)[_share(matrix, tensor_map, place)] if shared else whole


def _share(matrix: Sequence[int], tensor_map: Sequence[int], place: Sequence[int]) -> int:
    """Which part the optimizer keeps, among the devices that repeat a weight."""
    index = 0
    for axis, size in enumerate(matrix):
        if len(matrix) - 1 - axis not in tensor_map:
            index = index * size + place[axis]
    return index


def main(folder: Path, devices: int, result: Path) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(devices)
    module_at(folder / "mindspore_script.py").old_interface()
    ms.set_auto_parallel_context(enable_parallel_optimizer=False)  # there is none to share
    network = Mlp()
    missing = module_at(folder / "apply_mindspore.py").apply(network)
    inference = module_at(folder / "inference_mindspore.py")
    network.set_train(False)
    whole = {p.name: numbered(p.shape) for p in network.get_parameters()}
    kept = ms.parallel.checkpoint_transform.build_searched_strategy(str(folder / "strategy.ckpt"))
    trained = ms.parallel.checkpoint_transform._convert_to_list(kept)
    files = []
    for rank in range(devices):
        slices = [
            {"name": name, "data": ms.Tensor(own_slice(value, trained[name], rank))}
            for name, value in whole.items()
        ]
        files.append(str(folder / f"rank_{rank}.ckpt"))
        ms.save_checkpoint(slices, files[-1])
    layout = inference.load(network, files)
    held = {p.name: p.asnumpy() for p in network.get_parameters()}
    wanted = {name: own_slice(value, [*layout[name][:5], 0], 0) for name, value in whole.items()}
    found = {
        "missing": missing,
        "equal": {name: np.array_equal(held[name], wanted[name]) for name in whole},
        "cut": sum(held[name].shape != value.shape for name, value in whole.items()),
        "shards": [inference.shard(rank) for rank in range(devices)],
    }
    result.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
