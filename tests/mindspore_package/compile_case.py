"""Compile one case with MindSpore's own parallel passes, and say what it made of our files.

A process compiles once: give it the case, `checkpoint`, `json` or `apply`, and the result's path.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mindspore as ms
from mindspore.graph.api import _cell_graph_executor as executor

from tests.mindspore_package.imagined_cluster import imagine
from tests.mindspore_package.networks import NETWORKS, Twist


def compiled(case: Path, how: str) -> dict[str, Any]:
    """Strategy of every operator and layout of every parameter, as MindSpore has them."""
    ours = _module(case / "apply_mindspore.py")
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(ours.DEVICES)
    loaded = {"checkpoint": "strategy.ckpt", "json": "strategy.json"}
    file = {"strategy_ckpt_config": {"load_file": str(case / loaded[how])}} if how in loaded else {}
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        device_num=ours.DEVICES,
        global_rank=0,
        dataset_strategy=ours.DATASET_STRATEGY,
        enable_alltoall=ours.ALL_TO_ALL,
        **file,
    )
    make, data = NETWORKS[case.name.split("-")[0]]
    network = make()
    missing = ours.apply(network) if how == "apply" else []
    network.set_train()
    (cuts,) = ours.DATASET_STRATEGY
    own = tuple(slice(size // cut) for size, cut in zip(data.shape, cuts, strict=True))
    phase, _ = executor.compile(network, ms.Tensor(data[own]), phase="export")
    inner = executor._graph_executor
    layouts = inner.get_parameter_layout(phase)
    return {
        "missing": missing,
        "strategies": inner.get_strategy(phase),
        "layouts": {name: [list(each[0]), list(each[1])] for name, each in layouts.items()},
        "wanted": ours.STRATEGIES,
        "axes": dict(getattr(ours, "AXES", ())),
        "custom": getattr(ours, "CUSTOM", {}),
        "seen": Twist.seen[-1:],
    }


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("apply_mindspore", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(compiled(Path(sys.argv[1]), sys.argv[2])))
