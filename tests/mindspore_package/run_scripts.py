"""Run the exported scripts in MindSpore, for devices that are not there, and write what it says.

Give it the folder of `write_scripts`, the number of devices, and the path of the result.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.parallel import shard
from mindspore.parallel.cluster.run import get_args

from tests.mindspore_package.imagined_cluster import imagine

ASKED = (
    "parallel_mode", "search_mode", "device_num", "gradients_mean", "parameter_broadcast",
    "dataset_strategy", "enable_alltoall", "comm_fusion", "enable_parallel_optimizer",
    "pipeline_stages", "strategy_ckpt_config",
)  # fmt: skip
SEARCH = ("elementwise_op_strategy_follow", "tensor_slice_align_size", "fully_use_devices")
OWN = ("_parallel_mode", "_dataset_strategy_config", "_comm_fusion_config", "_gradients_mean",
       "_pipeline_stages", "_pipeline_scheduler", "_enable_parallel_optimizer",
       "_optimizer_weight_shard_size", "_load_strategy_file_path")  # fmt: skip


def main(folder: Path, devices: int, result: Path) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(devices)
    contexts = {p.stem: context(p) for p in sorted((folder / "contexts").glob("*.py"))}
    ms.reset_auto_parallel_context()
    found = {
        "contexts": contexts,
        "msrun": msrun((folder / "launch" / "msrun.txt").read_text().splitlines()),
        "servers": servers(folder / "servers" / "parameter_server.py"),
        "shard": shard_faults(),
    }
    result.write_text(json.dumps(found, default=str))


def context(path: Path) -> dict[str, Any]:
    """What MindSpore holds after each interface."""
    script = runpy.run_path(str(path))
    script["start"].__globals__["init"] = lambda: None  # there is nobody to connect to
    script["start"]()
    script["old_interface"]()
    found: dict[str, Any] = {"jit": ms.context.get_jit_config()}
    found["old"] = {name: ms.get_auto_parallel_context(name) for name in ASKED}
    found["search"] = {name: ms.get_algo_parameters(name) for name in SEARCH}
    ms.reset_auto_parallel_context()
    ms.reset_algo_parameters()
    if "new_interface" in script:
        parallel = script["new_interface"](nn.ReLU())
        found["new"] = {name: getattr(parallel, name) for name in OWN}
    if "set_dynamic_inputs" in script:
        network = nn.ReLU()
        script["set_dynamic_inputs"](network)
        found["inputs"] = [str(each.symbolic_shape) for each in network.get_inputs()]
    if "mark_slices" in script:
        sizes = script["SLICES"]
        network = nn.Cell()
        for name, shape in sizes.items():
            setattr(network, name, ms.Parameter(np.zeros(shape, np.float32), name=name))
        found["slices"] = [script["mark_slices"](network), len(sizes)]
        marked = [p.layerwise_parallel for p in network.get_parameters()]
        found["slices"].append(all(marked))
    return found


def msrun(words: list[str]) -> dict[str, Any]:
    """How msrun itself reads the words of its script."""
    sys.argv = ["msrun", *words]
    return dict(vars(get_args()))


def servers(path: Path) -> list[Any]:
    """Whether MindSpore switches the servers on, and what it says of parameters for them."""
    script = runpy.run_path(str(path))
    network = nn.Cell()
    for name in script["ON_SERVERS"]:
        setattr(network, name, ms.Parameter(np.zeros((4, 4), np.float32), name=name))
    ms.set_ps_context(enable_ps=True)
    switched = ms.get_ps_context("enable_ps")
    ms.reset_ps_context()
    try:
        script["prepare"](network)
    except RuntimeError as error:
        return [switched, str(error)]
    return [switched, ""]


def shard_faults() -> dict[str, str]:
    """What MindSpore says of calls that the planner refuses."""

    class Block(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(8, 8)

    def assigned() -> None:
        block = nn.Cell()
        block.own = Block()
        block.own = shard(block.own, ((8, 1),))

    calls: dict[str, Callable[[], Any]] = {
        "E_SHARD_ASSIGNED_TO_CELL": assigned,
        "E_SHARD_PLAN_OF_FUNCTION": lambda: shard(ops.relu, ((8, 1),), None, {"w": (8, 1)}),
        "E_SHARD_DIVIDE": lambda: shard(Block(), ((8, 1),), None, {"dense.weight": (3, 1)}),
        "E_SHARD_RANK": lambda: shard(Block(), ((8, 1),), None, {"dense.weight": (8,)}),
        "W_SHARD_PARAMETER_UNKNOWN": lambda: shard(Block(), ((8, 1),), None, {"none": (8, 1)}),
        "W_SHARD_OUT_STRATEGY": lambda: shard(Block(), ((8, 1),), ((8, 1),)),
    }
    found = {}
    for code, call in calls.items():
        try:
            call()
            found[code] = ""
        except (TypeError, ValueError) as error:
            found[code] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
