"""Compile cases for devices that are not there, and list the collectives that MindSpore inserted.

`executors.mindspore.judge` starts it with a file of cases and the path of the result, in a
folder of its own, where MindSpore is told to leave its graphs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.graph.api import _cell_graph_executor as executor

from executors.mindspore.script.cluster import imagine
from executors.mindspore.script.collectives import collectives
from executors.mindspore.script.network import Training, arguments, network_of

Maker = Callable[[Mapping[str, Any], Mapping[str, Any], Path], tuple[nn.Cell, dict[str, str]]]


def run(cases: list[dict[str, Any]], numbers: Path, make: Maker = network_of) -> list[Any]:
    """What became of each case: collectives, operators that were left out, or the error."""
    ms.set_context(mode=ms.GRAPH_MODE)
    devices = cases[0]["devices"]
    imagine(devices)
    with np.load(numbers) as arrays:
        known = dict(arrays)
    return [_compiled(case, known, make) for case in cases]


def _compiled(case: dict[str, Any], known: Mapping[str, Any], make: Maker) -> dict[str, Any]:
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        device_num=case["devices"],
        global_rank=0,
        dataset_strategy=tuple(tuple(each["cuts"]) for each in case["inputs"]),
        enable_alltoall=case["all_to_all"],
        **_optimizer(case),
    )
    own = {n: known[key] for n, key in case["numbers"].items()}
    before = set(Path("graphs").glob("**/*_validate_*.ir"))
    try:
        network, not_run = make(case, own, Path())
        if not_run:
            return {"not_run": not_run, "collectives": [], "error": ""}
        whole = Training(network) if case["training"] else network
        whole.set_train(case["training"])
        executor.compile(whole, *arguments(case), phase="export")
    except Exception as error:  # noqa: BLE001
        return {"not_run": {}, "collectives": [], "error": f"{type(error).__name__}: {error}"}
    (dump,) = set(Path("graphs").glob("**/*_validate_*.ir")) - before
    found = collectives(dump.read_text(), case["devices"])
    return {"not_run": {}, "collectives": found, "error": ""}


def _optimizer(case: Mapping[str, Any]) -> dict[str, Any]:
    """Weights shared by the optimizer are gathered as often as its level says."""
    if not case["shared"]:
        return {}
    config = {"parallel_optimizer_threshold": 0, "optimizer_level": case["level"]}
    return {"enable_parallel_optimizer": True, "parallel_optimizer_config": config}


def main(make: Maker = network_of) -> None:
    """Run what the command line names."""
    file, result = (Path(name) for name in sys.argv[1:3])
    given = json.loads(file.read_text())
    result.write_text(json.dumps(run(given, file.with_suffix(".npz"), make)))


if __name__ == "__main__":
    main()
