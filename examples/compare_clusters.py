"""Which machine, and how many devices of it? One model over several clusters and sizes.

python examples/compare_clusters.py data/models/llama3_8b.onnx.gz 64
"""
# ruff: noqa: INP001, T201

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from importers.onnx import import_onnx
from planner.request import InfeasibleError, SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

CLUSTERS = ("atlas-800t-a2", "dgx-a100", "dgx-h100")
DEVICES = (8, 16)


def compare(
    model: Path, batch: int, clusters: Sequence[str] = CLUSTERS, devices: Sequence[int] = DEVICES
) -> Iterator[tuple[str, int, float | None, float]]:
    """Cluster, devices, seconds of a step (none if nothing fits), bytes of memory per device."""
    graph = import_onnx(model)
    request = SearchRequest(batch=batch)
    for cluster in clusters:
        for count in devices:
            try:
                plan = search(graph, named_cluster(cluster, count), request)
            except InfeasibleError as error:
                yield cluster, count, None, error.needed_bytes
            else:
                estimate = plan.estimate
                yield cluster, count, estimate.step_time_s, estimate.peak_memory_bytes


def main() -> None:
    """Print one line for each machine and size."""
    model, batch = Path(sys.argv[1]), int(sys.argv[2])
    for cluster, count, time_s, nbytes in compare(model, batch):
        answer = "nothing fits" if time_s is None else f"{time_s * 1e3:.2f} ms"
        print(f"{cluster:15} {count:4} devices  {answer:>14}  {nbytes / 2**30:6.1f} GiB a device")


if __name__ == "__main__":
    main()
