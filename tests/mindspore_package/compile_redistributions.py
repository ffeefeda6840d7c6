"""Compile a network of many redistributions and list the collectives that MindSpore inserted.

Give it the cases of `write_redistributions`, 1 or 0 for all-to-all, and the path of the result.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ["MS_DEV_SAVE_GRAPHS"] = "2"
os.environ["MS_DEV_SAVE_GRAPHS_PATH"] = "graphs"
os.environ["MS_DEV_DUMP_IR_PASSES"] = "validate"

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.graph.api import _cell_graph_executor as executor

from tests.mindspore_package.imagined_cluster import imagine

DEVICES, DIMS = 8, (64, 64, 64)
NODE = re.compile(r"^ *%(\d+)\(\S*\) = (?:PrimFunc_)?(\w+)\(([^)]*)\)(.*)$")
KINDS = {"AllGather": "all_gather", "AlltoAll": "all_to_all", "AllReduce": "all_reduce"}


class Chains(nn.Cell):
    """For each case an operator of the cuts, which may reorder, and one of the cuts wanted."""

    def __init__(self, cases: list[dict[str, Any]]) -> None:
        super().__init__()
        self.orders = [tuple(case["order"]) for case in cases]
        self.first = [self._first(case).shard((tuple(case["cuts"]),)) for case in cases]
        self.second = [ops.Neg().shard((tuple(case["wanted"]),)) for case in cases]

    @staticmethod
    def _first(case: dict[str, Any]) -> ops.Primitive:
        return ops.ReLU() if case["order"] == sorted(case["order"]) else ops.Transpose()

    def construct(self, *inputs):  # type: ignore[no-untyped-def]
        out: tuple[Any, ...] = ()
        for i in range(len(self.orders)):
            if self.orders[i] == (0, 1, 2):
                out += (self.second[i](self.first[i](inputs[i])),)
            else:
                out += (self.second[i](self.first[i](inputs[i], self.orders[i])),)
        return out


def compiled(cases: list[dict[str, Any]], *, all_to_all: bool) -> list[list[list[Any]]]:
    """[kind, ranks, bytes] of every collective between the two operators, in order."""
    ms.set_context(mode=ms.GRAPH_MODE)
    imagine(DEVICES)
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        device_num=DEVICES,
        global_rank=0,
        dataset_strategy=((1, 1, 1),) * len(cases),
        enable_alltoall=all_to_all,
    )
    network = Chains(cases)
    network.set_train()
    data = [ms.Tensor(np.ones(DIMS, np.float32)) for _ in cases]
    executor.compile(network, *data, phase="export")
    (graph,) = Path("graphs").glob("**/*_validate_*.ir")
    return collectives(graph.read_text(), len(cases))


def collectives(text: str, count: int) -> list[list[list[Any]]]:
    """From each `Neg` back to its input, which tells the case."""
    lines = text.splitlines()
    nodes = {m[1]: (m, lines[i + 1]) for i, line in enumerate(lines) if (m := NODE.match(line))}
    out: list[list[list[Any]]] = [[] for _ in range(count)]
    for found, _ in [each for each in nodes.values() if each[0][2] == "Neg"]:
        chain: list[list[Any]] = []
        operand, after = found[3], True
        while (step := re.match(r"%(\d+)\b", operand)) is not None:
            node, types = nodes[step[1]]
            after = after and node[2] not in {"ReLU", "Transpose"}
            if after and node[2] in KINDS:
                chain.insert(0, _collective(node, types))
            operand = node[3]
        case = re.match(r"%para\d+_inputs(\d+)", operand)
        assert case is not None, operand
        out[int(case[1])] = chain
    return out


def _collective(node: re.Match[str], types: str) -> list[Any]:
    """Bytes are of the local tensor in an all-to-all, of the result in an all-gather."""
    ranks = re.search(r"rank_list: \(([\d, ]+)\)", node[4])
    shapes = re.findall(r"<Tensor\[Float32\], \(([\d, ]+)\)>", types)
    assert ranks is not None
    nbytes = 4 * math.prod(int(n) for n in shapes[-1].split(","))
    return [KINDS[node[2]], [int(n) for n in ranks[1].split(",")], nbytes]


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(
        json.dumps(
            compiled(json.loads(Path(sys.argv[1]).read_text()), all_to_all=sys.argv[2] == "1")
        )
    )
