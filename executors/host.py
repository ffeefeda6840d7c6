"""What was measured of this machine, and the cluster file that says it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

__all__ = ["HostFacts", "machine_text"]

_LARGE = 0.5
"""Products of at least so much of the largest one's work tell the efficiency."""
_GUESSED_LATENCY_S = 20e-6


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Measurements of processes that all worked at the same time, the slowest of them each."""

    processes: int
    products: tuple[tuple[str, int, int, int, float], ...]
    """Element type, rows, inner size, columns and seconds."""
    streams: tuple[tuple[int, float], ...]
    """Bytes that an addition reads and writes, and seconds."""
    start_s: float
    """Of an operator on one element."""
    messages: tuple[tuple[str, int, float], ...]
    """Kind of collective, bytes as `PlannedCollective` counts them, seconds."""
    memory_bytes: float
    """Of the machine, for all processes."""
    machine: Mapping[str, str]
    overlap: float = 1.0
    """Share of a message that hides behind computation: processes of a CPU have no other cores."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> HostFacts:
        lists = ("products", "streams", "messages")
        rows = {name: tuple(tuple(row) for row in record[name]) for name in lists}
        return cls(**{**record, **rows})

    def rate(self, dtype: str) -> float | None:
        """Largest measured rate of products, in operations a second."""
        rates = [2.0 * m * k * n / s for d, m, k, n, s in self.products if d == dtype]
        return max(rates, default=None)

    def usual_rate(self, dtype: str) -> float | None:
        """Median rate of the larger products of a type, in operations a second."""
        own = [(2.0 * m * k * n, s) for d, m, k, n, s in self.products if d == dtype]
        most = max((work for work, _ in own), default=0.0)
        rates = [work / s for work, s in own if work >= _LARGE * most]
        return statistics.median(rates) if rates else None

    @property
    def matmul_efficiency(self) -> float:
        """Usual rate of products in float32 over the best one."""
        return (self.usual_rate("float32") or 1.0) / (self.rate("float32") or 1.0)

    @property
    def stream_rate(self) -> float:
        """Bytes a second of the largest streams."""
        nbytes, seconds = max(self.streams)
        return nbytes / seconds

    @property
    def vector_rate(self) -> tuple[float, str]:
        """Operations a second beside products, and how they are known: a GPU's products in float32
        run on the same cores; a core of a CPU works as fast as it reads.
        """
        rate = self.rate("float32") if self.machine.get("backend") == "nccl" else None
        if rate is not None:
            return rate, "products in float32 run on the same cores"
        return self.stream_rate / 12, "an addition for 12 bytes of a stream"

    @property
    def first_link(self) -> tuple[float, float] | None:
        """Bandwidth and latency to begin a fit with: of the largest and the smallest message; none
        of a single process.
        """
        if not self.messages:
            return None
        _, nbytes, seconds = max(self.messages, key=lambda row: row[1])
        return nbytes / seconds, min(_GUESSED_LATENCY_S, *(s for _, _, s in self.messages))


def machine_text(facts: HostFacts, link: tuple[float, float] | None, note: str) -> str:
    """YAML of the machine.

    Args:
        facts: what was measured.
        link: bytes a second and seconds between two processes; none of a single one.
        note: how the link was found.
    """
    where = facts.machine.get("device", "CPU")
    count = f"{facts.processes} process{'es' if facts.processes > 1 else ''}"
    told = f"{count} at work, torch {facts.machine.get('torch', '')}"
    record = {
        "schema_version": 2,
        "name": "host",
        "title": f"{count} of {where}",
        "note": "; ".join(["measured by `planner calibrate host`", *([note] if link else [])]),
        "chips": {"host_process": _chip(facts, where, told)},
        "servers": {"host": _server(facts, link, note)},
        "cluster": {"servers": [{"use": "host", "count": 1}]},
    }
    head = "# Written by `planner calibrate host`; plan with --cluster FILE --profile generic.\n"
    return head + yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=96)


def _chip(facts: HostFacts, where: str, told: str) -> dict[str, Any]:
    usual = {d: facts.usual_rate(d) for d in ("float32", "float16", "bfloat16")}
    peaks = {d: rate and rate / facts.matmul_efficiency for d, rate in usual.items()}
    share = facts.memory_bytes / facts.processes
    vector = facts.vector_rate
    return {
        "name": "host_process",
        "family": "ideal process",
        "note": f"{where}; 'ideal': products take work over rate, whatever their shape",
        "peak_matmul": {
            dtype: rate
            and _stated(
                f"{rate / 1e12:.6g} TFLOP/s", f"usual of larger products over efficiency, {told}"
            )
            for dtype, rate in peaks.items()
        },
        "peak_vector": {
            "float32": _stated(f"{vector[0] / 1e12:.6g} TFLOP/s", vector[1])
        },
        "memory": {
            "capacity": _stated(f"{share / 2**30:.4g} GiB", "a share of the machine's"),
            "bandwidth": _stated(f"{facts.stream_rate / 1e9:.6g} GB/s", f"largest stream, {told}"),
        },
        "efficiency": {
            "matmul": _stated(f"{facts.matmul_efficiency:.4g}", "median of the larger products"),
            "memory": _stated("1", "the bandwidth is measured"),
        },
        "launch_latency": _stated(f"{facts.start_s * 1e6:.4g} us", "an operator on one element"),
        "overlap": _stated(f"{facts.overlap:.3f}", "all-reduces beside products"),
    }  # fmt: skip


def _server(facts: HostFacts, link: tuple[float, float] | None, note: str) -> dict[str, Any]:
    server = {"name": "host", "chip": "host_process", "devices": facts.processes}
    if link is None:
        return server
    rate, latency_s = link
    shared = {
        "kind": "SHM",
        "switch": "all",
        "bandwidth": _stated(f"{rate / 1e9:.6g} GB/s", note),
        "latency": _stated(f"{latency_s * 1e6:.4g} us", note),
    }
    return {**server, "links": {"shared": shared}}


def _stated(value: str, note: str) -> dict[str, str]:
    return {"value": value, "confidence": "stated", "note": note}
