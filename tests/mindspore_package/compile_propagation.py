"""Compile drawn networks with MindSpore's sharding propagation, each in a process of its own.

    python -m tests.mindspore_package.compile_propagation CASES.json FOUND.json

The package keeps costs from one network to the next, so each is compiled in a fork of a process
that has compiled none. For each case: the strategy of every operator by its name, or the error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.graph.api import _cell_graph_executor as executor

from executors.mindspore.script.cluster import imagine
from executors.mindspore.script.own_network import module_at

DEVICES = 8
Op = Mapping[str, Any]


_NET = """from mindspore import nn

{cells}
class Net(nn.Cell):
    def __init__(self, primitives, weights):
        super().__init__()
{made}
        for name, each in weights.items():
            setattr(self, name, each)

    def construct(self, {data}):
{calls}
        return {ends}
"""
_CELL = """
class Of_{name}(nn.Cell):
    def __init__(self, primitive):
        super().__init__()
        self.primitive = primitive

    def construct(self, {inputs}):
        return self.primitive({arguments}){first}

"""
"""A cell for each operator: its scope tells which one a strategy is of."""


def _network(net: Mapping[str, Any], folder: Path) -> nn.Cell:
    """The network; MindSpore reads the source of `construct`, so it is written."""
    shapes, data = dict(net["shapes"]), net["data"]
    cells, made, calls = [], [], []
    primitives: dict[str, Any] = {}
    for op in net["ops"]:
        name, inputs = op["out"], list(op["inputs"])
        if op["op"] == "BatchNorm":
            inputs += [f"{name}_{part}" for part in ("scale", "shift", "mean", "variance")]
            shapes |= dict.fromkeys(inputs[1:], op["channels"])
        primitives[name], constants = _primitive(op)
        own = ", ".join(f"x{i}" for i in range(len(inputs)))
        arguments = ", ".join([own, *map(repr, constants)])
        first = "[0]" if op["op"] in {"BatchNorm", "LayerNorm"} else ""
        cells.append(_CELL.format(name=name, inputs=own, arguments=arguments, first=first))
        made.append(f"        self.cell_{name} = Of_{name}(primitives[{name!r}])")
        names = [f"self.{n}" if n in shapes and n not in data else n for n in inputs]
        calls.append(f"        {name} = self.cell_{name}({', '.join(names)})")
    read = {name for op in net["ops"] for name in op["inputs"]}
    text = _NET.format(
        cells="".join(cells),
        made="\n".join(made),
        data=", ".join(data),
        calls="\n".join(calls),
        ends=", ".join(op["out"] for op in net["ops"] if op["out"] not in read),
    )
    path = folder / f"net_{os.getpid()}.py"
    path.write_text(text)
    weights = {
        name: ms.Parameter(ms.Tensor(np.ones(dims, np.float32)), name=name)
        for name, dims in shapes.items()
        if name not in data
    }
    network: nn.Cell = module_at(path).Net(primitives, weights)
    return network


def _primitive(op: Op) -> tuple[Any, tuple[Any, ...]]:
    """With its strategy, if it is given one, and its constants."""
    primitive, constants = _MAKERS[op["op"]](op)
    if "user_strategy" in op:
        given = [op[key] for key in ("user_strategy", "user_out_strategy") if key in op]
        primitive.shard(*(tuple(map(tuple, each)) for each in given))
    return primitive, constants


def compiled(case: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    net = case["net"]
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(DEVICES)
    ms.set_auto_parallel_context(
        parallel_mode="auto_parallel",
        search_mode="sharding_propagation",
        device_num=DEVICES,
        global_rank=0,
        dataset_strategy="full_batch",
    )
    if "fully" in case:
        ms.set_algo_parameters(fully_use_devices=case["fully"])
    network = _network(net, folder)
    network.set_train()
    given = [ms.Tensor(np.ones(net["shapes"][name], np.float32)) for name in net["data"]]
    phase, _ = executor.compile(network, *given, phase="export")
    found = executor._graph_executor.get_strategy(phase)
    out = {}
    for name, cuts in found.items():
        scope = name.split("/")[1].partition("-")[0]
        if scope.startswith("cell_"):
            out[scope.removeprefix("cell_")] = cuts
    return {"strategies": out}


def _in_a_fork(case: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    result = folder / "found.json"
    result.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        try:
            found = compiled(case, folder)
        except Exception as error:  # noqa: BLE001  whatever MindSpore raises
            found = {"error": str(error).strip().splitlines()[:1]}
        result.write_text(json.dumps(found))
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(result.read_text()) if result.exists() else {"error": ["it stopped"]}


def _pooled(op: Op) -> tuple[Any, tuple[Any, ...]]:
    return ops.MaxPool(op["kernel"], op["stride"]), ()


def _convolved(op: Op) -> tuple[Any, tuple[Any, ...]]:
    return ops.Conv2D(op["channels"], op["kernel"], pad_mode="same", stride=op["stride"]), ()


_MAKERS: Mapping[str, Callable[[Op], tuple[Any, tuple[Any, ...]]]] = {
    "Add": lambda _: (ops.Add(), ()),
    "BatchNorm": lambda _: (ops.BatchNorm(is_training=True), ()),
    "Conv2D": _convolved,
    "LayerNorm": lambda _: (ops.LayerNorm(-1, -1), ()),
    "MatMul": lambda op: (ops.MatMul(transpose_b=op["transpose_b"]), ()),
    "MaxPool": _pooled,
    "Mul": lambda _: (ops.Mul(), ()),
    "ReduceMean": lambda op: (ops.ReduceMean(), (tuple(op["axis"]),)),
    "ReLU": lambda _: (ops.ReLU(), ()),
    "Reshape": lambda op: (ops.Reshape(), (tuple(op["shape"]),)),
    "Softmax": lambda _: (ops.Softmax(-1), ()),
    "Transpose": lambda op: (ops.Transpose(), (tuple(op["perm"]),)),
}


def main(cases: Path, result: Path) -> None:
    wanted = json.loads(cases.read_text())
    folder = result.parent
    result.write_text(json.dumps([_in_a_fork(case, folder) for case in wanted]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
