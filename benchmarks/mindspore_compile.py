"""Compiles one network with one of MindSpore's searches, and says what it chose and how long.

`benchmarks/mindspore_search.py` runs it in MindSpore's environment, in a process and a folder of
its own: a process compiles once, and MindSpore leaves files behind.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore_cpu  # type: ignore[import-not-found]
import mindspore_nets  # type: ignore[import-not-found]
import numpy as np
from mindspore.graph.api import _cell_graph_executor as executor


def compiled(network: str, layers: int, devices: int, mode: str) -> dict[str, Any]:
    """Seconds of the whole front end, of the clock and of the processor, and the strategies."""
    ms.set_context(mode=ms.GRAPH_MODE)
    mindspore_cpu.enable("Ascend", devices, 0)
    ms.set_auto_parallel_context(
        parallel_mode="auto_parallel",
        search_mode=mode,
        device_num=devices,
        global_rank=0,
        dataset_strategy="full_batch",
    )
    cell, shape = mindspore_nets.build(network, layers)
    cell.set_train()
    data = ms.Tensor(np.zeros(shape, np.float32))
    start, cpu = time.perf_counter(), time.process_time()
    phase, _ = executor.compile(cell, data, phase="export")
    took_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    strategies = executor._graph_executor.get_strategy(phase)  # noqa: SLF001
    return {"compile_s": took_s, "cpu_s": cpu_s, "strategies": strategies}


def main() -> None:
    """Write the answer as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("layers", type=int)
    parser.add_argument("devices", type=int)
    parser.add_argument("mode")
    parser.add_argument("result", type=Path)
    options = parser.parse_args()
    found = compiled(options.network, options.layers, options.devices, options.mode)
    options.result.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
