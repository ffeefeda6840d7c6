"""Run by MindSpore's Python: export the networks of the loop, or compile one with a strategy file.

    python -m tests.mindspore_package.loop_program export FOLDER NAME...
    python -m tests.mindspore_package.loop_program compile CASES.json FOUND.json

A case is one compiled network; all of one file are for as many devices.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore.graph.api import _cell_graph_executor as executor
from mindspore.parallel import set_op_strategy_config
from mindspore.train import serialization

from executors.mindspore.script.cluster import imagine
from executors.mindspore.script.collectives import collectives
from executors.mindspore.script.network import Training
from tests.mindspore_package.loop_networks import Calling, network_and_shape


def export(folder: Path, names: list[str]) -> None:
    """MindIR files without their weights, `<name>_graph.mindir`."""
    serialization.TOTAL_SAVE = 0  # as for networks of more than 1 GB
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    for name in names:
        network, shape = network_and_shape(name)
        network.set_train()
        data = ms.Tensor(np.zeros(shape, np.float32))
        ms.export(network, data, file_name=str(folder / name), file_format="MINDIR")


def compiled(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Strategies that MindSpore uses, and the collectives that it inserts, or its error."""
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(cases[0]["devices"])
    return [_compiled(case) for case in cases]


def _compiled(case: Mapping[str, Any]) -> dict[str, Any]:
    network, shape = network_and_shape(case["name"], case["mark"])
    cuts = tuple(tuple(each) for each in case["inputs"])
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(
        parallel_mode="auto_parallel",
        search_mode="sharding_propagation",
        device_num=case["devices"],
        global_rank=0,
        dataset_strategy=cuts,
        enable_alltoall=True,
        **_optimizer(case["shared"], case["level"]),
    )
    set_op_strategy_config(mode="LOAD", path=case["file"])
    for parameter in network.get_parameters():
        parameter.parallel_optimizer = parameter.name in case["shared"]
    whole = Training(network) if case["training"] else Calling(network)
    whole.set_train()
    own = [size // cut for size, cut in zip(shape, cuts[0], strict=True)]
    before = set(Path("graphs").glob("**/*_validate_*.ir"))
    try:
        phase, _ = executor.compile(whole, ms.Tensor(np.ones(own, np.float32)), phase="export")
    except Exception as error:  # noqa: BLE001  whatever MindSpore raises
        return {"error": f"{type(error).__name__}: {error}", "strategies": {}, "collectives": []}
    (dump,) = set(Path("graphs").glob("**/*_validate_*.ir")) - before
    return {
        "error": "",
        "strategies": executor._graph_executor.get_strategy(phase),
        "collectives": collectives(dump.read_text(), case["devices"]),
        "groups": base64.b64encode(_file("groups.pb")).decode(),
    }


def _file(name: str) -> bytes:
    path = Path(name)
    return path.read_bytes() if path.exists() else b""


def _optimizer(shared: list[str], level: str) -> dict[str, Any]:
    """Weights that the optimizer shares are gathered as often as its level says."""
    config = {"parallel_optimizer_threshold": 0, "optimizer_level": level}
    found = {"enable_parallel_optimizer": True, "parallel_optimizer_config": config}
    return found if shared else {}


def main() -> None:
    """Do what the command line says."""
    what, first, *rest = sys.argv[1:]
    if what == "export":
        export(Path(first), rest)
    else:
        Path(rest[0]).write_text(json.dumps(compiled(json.loads(Path(first).read_text()))))


if __name__ == "__main__":
    main()
