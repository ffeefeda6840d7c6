"""Compile operators with the strategies of `write_operators`, and list what MindSpore made of them.

Give it the cases for one number of devices, the number of operators that are compiled together, and
the path of the result. For each case: `matrix` and `maps` of inputs and results where MindSpore
prints them, `known` layouts of the inputs, `sent`, its messages, or `refused`: the errors that
MindSpore logged.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["MS_DEV_SAVE_GRAPHS"] = "2"
os.environ["MS_DEV_SAVE_GRAPHS_PATH"] = "graphs"
os.environ["MS_DEV_DUMP_IR_PASSES"] = "step_parallel_end,validate"
os.environ["MS_DEV_DUMP_IR_PARALLEL_DETAIL"] = "1"

import mindspore as ms
from mindspore.graph.api import _cell_graph_executor as executor

from tests.mindspore_package.imagined_cluster import imagine
from tests.mindspore_package.operator_dump import sent
from tests.mindspore_package.operator_networks import network_of
from tests.mindspore_package.primitives import Case

GRAPHS = Path("graphs")
PRINTED = re.compile(r"= (?:PrimFunc_)?(\w+)\(.*\{instance name: case(\d+)\}.*device_matrix: ")


def compiled(cases: Sequence[Case], log: Log) -> list[dict[str, Any]]:
    """What MindSpore made of each; together if it takes them all, else in halves."""
    for old in GRAPHS.glob("*"):
        old.unlink()
    log.start()
    try:
        network = network_of(cases)
        network.set_train()
        phase, _ = executor.compile(network, phase="export")
    except (RuntimeError, ValueError, TypeError) as error:
        if len(cases) > 1:
            half = len(cases) // 2
            return compiled(cases[:half], log) + compiled(cases[half:], log)
        return [{"refused": log.errors() or [str(error)]}]
    (laid_out,), (end,) = (
        GRAPHS.glob(f"*{each}*.ir") for each in ("step_parallel_end", "validate")
    )
    printed = _printed(laid_out.read_text(), cases)
    messages = sent(end.read_text(), cases[0]["devices"], len(cases))
    kept = executor._graph_executor.get_parameter_layout(phase)
    for number, (case, found) in enumerate(zip(cases, printed, strict=True)):
        names = [f"case{number}_x{i}" for i in range(len(case["inputs"]))]
        found["sent"] = messages[number]
        found["known"] = [[list(kept[n][0]), list(kept[n][1])] for n in names if n in kept]
    return printed


def _printed(text: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The layouts that MindSpore prints beside each operator that it has not replaced by others."""
    out: list[dict[str, Any]] = [{} for _ in cases]
    for row in text.splitlines():
        found = PRINTED.search(row)
        if found is not None and found[1] == cases[int(found[2])]["primitive"]:
            inputs, results = (_maps(row, f"{side}_tensor_map") for side in ("inputs", "outputs"))
            out[int(found[2])] = {
                "matrix": _value(row, "device_matrix"),
                "inputs": inputs,
                "results": results,
            }
    return out


def _maps(row: str, key: str) -> list[Any]:
    """A tuple of one is printed without its comma: `((2, 1))` is one map."""
    value = _value(row, key)
    return [value] if not value or not isinstance(value[0], tuple) else list(value)


def _value(row: str, key: str) -> Any:
    found = re.search(rf"\b{key}: (\([\d,() -]*\))", row)
    assert found is not None, row
    return ast.literal_eval(re.sub(r"(\(-?\d+)\)", r"\1,)", found[1]))


class Log:
    """The errors that MindSpore writes to the standard error, which a file takes."""

    def __init__(self, path: Path) -> None:
        self.path, self.begin = path, 0
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), 2)

    def start(self) -> None:
        self.begin = self.path.stat().st_size

    def errors(self) -> list[str]:
        text = self.path.read_bytes()[self.begin :].decode(errors="replace")
        rows = [row for row in text.splitlines() if row.startswith("[ERROR] PARALLEL")]
        return [row.split("] ", 3)[-1] for row in rows]


def main(cases: Path, together: int, result: Path) -> None:
    wanted = json.loads(cases.read_text())
    ms.set_context(mode=ms.GRAPH_MODE)
    devices = wanted[0]["devices"]
    imagine(devices)
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        device_num=devices,
        global_rank=0,
        dataset_strategy="full_batch",
    )
    log = Log(result.with_suffix(".log"))
    groups = [wanted[i : i + together] for i in range(0, len(wanted), together)]
    result.write_text(json.dumps([found for group in groups for found in compiled(group, log)]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
