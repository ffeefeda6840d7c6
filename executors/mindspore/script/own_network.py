"""Compile a user's own network with the files of a plan, for devices that are not there.

`executors.mindspore.own_network` starts it with a job and the path of the result, in a folder of
its own, where MindSpore is told to leave its graphs. A process compiles once.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.graph.api import _cell_graph_executor as executor
from mindspore.parallel import set_op_strategy_config

from executors.mindspore.script.cluster import imagine
from executors.mindspore.script.collectives import collectives
from executors.mindspore.script.loss import SoftmaxLoss
from executors.mindspore.script.network import Training
from executors.mindspore.script.step import dtype_of


class Calling(nn.Cell):
    """A network within another, as `AutoParallel` and a training step put it."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, *inputs: Any) -> Any:
        return self.network(*inputs)


class WithLoss(nn.Cell):
    """A network with the loss that plans assume behind each of its results."""

    def __init__(self, network: nn.Cell, losses: list[Mapping[str, Any]]) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        (own,) = losses
        dims, cuts = tuple(own["dims"]), tuple(own["cuts"])
        self.loss = SoftmaxLoss(dims, cuts, dtype_of(own["dtype"]))

    def construct(self, *inputs: Any) -> Any:
        return self.loss(self.network(*inputs))


def compiled(job: Mapping[str, Any]) -> dict[str, Any]:
    """Strategies that MindSpore uses, the collectives that it inserts, and what `apply` missed."""
    network = _network(job)
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(job["devices"])
    folder, route = Path(job["folder"]), job["route"]
    semi = route != "operators"
    ms.set_auto_parallel_context(
        device_num=job["devices"],
        global_rank=0,
        dataset_strategy=tuple(tuple(each["cuts"]) for each in job["inputs"]),
        enable_alltoall=job["all_to_all"],
        **_mode(route, folder),
        **_optimizer(job["shared"], job["level"]),
    )
    missing: list[str] = []
    if route in ("apply", "propagation"):
        ours = module_at(folder / "apply_mindspore.py")
        missing = ours.apply(network, follow=route == "propagation")
    if not semi:
        set_op_strategy_config(mode="LOAD", path=str(folder / "operators.json"))
    for parameter in network.get_parameters():
        parameter.parallel_optimizer = parameter.name in job["shared"]
    whole = Training(WithLoss(network, job["loss"])) if job["loss"] else Calling(network)
    whole.set_train(job["training"])
    arguments = [_argument(each) for each in job["inputs"]]
    phase, _ = executor.compile(whole, *arguments, phase="export")
    (dump,) = Path("graphs").glob("**/*_validate_*.ir")
    return {
        "error": "",
        "missing": missing,
        "strategies": executor._graph_executor.get_strategy(phase),
        "order": list(dict.fromkeys(_SCOPE.findall(dump.read_text()))),
        "collectives": collectives(dump.read_text(), job["devices"]),
    }


_SCOPE = re.compile(r"# Fullname with scope: \((.*)\)")


def _network(job: Mapping[str, Any]) -> nn.Cell:
    """The user's cell: what his script calls so, made."""
    made = getattr(module_at(Path(job["script"])), job["cell"])
    network: nn.Cell = made if isinstance(made, nn.Cell) else made()
    return network


def _mode(route: str, folder: Path) -> dict[str, Any]:
    """How operators come to their strategies."""
    if route in ("operators", "propagation"):
        return {"parallel_mode": "auto_parallel", "search_mode": "sharding_propagation"}
    load = {"load_file": str(folder / "strategy.ckpt")}
    return {"parallel_mode": "semi_auto_parallel", "strategy_ckpt_config": load}


def _optimizer(shared: list[str], level: str) -> dict[str, Any]:
    """Weights that the optimizer shares are gathered as often as its level says."""
    config = {"parallel_optimizer_threshold": 0, "optimizer_level": level}
    found = {"enable_parallel_optimizer": True, "parallel_optimizer_config": config}
    return found if shared else {}


def _argument(given: Mapping[str, Any]) -> ms.Tensor:
    """An input as one device gets it."""
    own = [size // cut for size, cut in zip(given["dims"], given["cuts"], strict=True)]
    return ms.Tensor(np.ones(own), dtype_of(given["dtype"]))


def module_at(path: Path) -> ModuleType:
    """A Python file as a module; modules that lie beside it can be imported."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Run the job that the command line names."""
    job, result = (Path(name) for name in sys.argv[1:3])
    try:
        found = compiled(json.loads(job.read_text()))
    except Exception as error:  # noqa: BLE001  whatever MindSpore or the user's script raises
        found = {"error": f"{type(error).__name__}: {error}", "missing": []}
        found |= {"strategies": {}, "order": [], "collectives": []}
    result.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
