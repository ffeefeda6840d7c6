"""Run by MindSpore's Python: compile a network as an exported script of one mode sets it up.

    python -m tests.mindspore_package.compile_mode JOB RESULT

The folder of the job has the plan's files and `mindspore_script.py`. A process compiles once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import nn
from mindspore.graph.api import _cell_graph_executor as executor
from mindspore.parallel import set_op_strategy_config

from executors.mindspore.script.cluster import imagine
from executors.mindspore.script.network import Training
from executors.mindspore.script.own_network import Calling, WithLoss, _argument, module_at
from tests.mindspore_package.tutorial_networks import NETWORKS


def main(job: Mapping[str, Any], result: Path) -> None:
    folder, files = Path(job["folder"]), job["files"]
    network: nn.Cell = NETWORKS[job["cell"]].make()
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(job["devices"])
    setup = module_at(folder / "mindspore_script.py")
    setup.old_interface()
    if "checkpoint" not in files and ms.get_auto_parallel_context("strategy_ckpt_config"):
        ms.set_auto_parallel_context(strategy_ckpt_config={"load_file": ""})
    if "apply" in files:
        follow = ms.get_auto_parallel_context("search_mode") == "sharding_propagation"
        module_at(folder / "apply_mindspore.py").apply(network, follow=follow)
    if "operators" in files:
        set_op_strategy_config(mode="LOAD", path=str(folder / "operators.json"))
    whole = Training(WithLoss(network, job["loss"])) if job["loss"] else Calling(network)
    whole.set_train(job["training"])
    found = {"error": ""}
    try:
        executor.compile(whole, *map(_argument, job["inputs"]), phase="export")
    except Exception as error:  # noqa: BLE001  whatever MindSpore raises
        found["error"] = f"{type(error).__name__}: {error}"
    result.write_text(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
