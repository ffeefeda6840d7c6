"""Times `planner search` from the shell over models and cluster sizes, and prints a table.

    python benchmarks/search.py --models tests/data/models --devices 8,16,64,256,1024

Each row is one process: wall time and peak memory are those of the whole command. The batch is 64
unless the table below says otherwise. `x best` is how many times longer a step of the fastest
baseline takes, of those that fit; it is empty where none does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

BATCH = {"llama3_70b": 16, "gpt_small_train_step": None, "deepfm_criteo": 65536}
"""Batches other than the default; None keeps the model's."""
BIND = {"gpt2_small_dyn": "batch=64,seq=1024", "llama2_7b_dyn": "batch=64,seq=2048"}
INFERENCE = {"llama3_8b_decode_kv"}


@dataclass(frozen=True, slots=True)
class Row:
    """What one run printed and took."""

    model: str
    devices: int
    status: str
    step_time_s: float | None
    gap: float | None
    baseline_s: float | None
    """The fastest baseline that fits."""
    peak_memory_bytes: float | None
    wall_s: float
    process_bytes: int


def command(model: Path, devices: int, options: argparse.Namespace) -> list[str]:
    """The command line of one run."""
    name = model.name.removesuffix(".gz").removesuffix(".onnx")
    words = ["planner", "search", str(model), "--devices", str(devices), "--json"]
    words += ["--cluster", options.cluster, "--target", options.target]
    if name in BIND:
        words += ["--bind", BIND[name]]
    else:
        batch = BATCH.get(name, options.batch)
        words += ["--batch", str(batch)] if batch is not None else []
    if name in INFERENCE:
        words += ["--phase", "infer"]
    return words


def run(model: Path, devices: int, options: argparse.Namespace) -> Row:
    """Run once and measure."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command(model, devices, options), stdout=out, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - start
        out.seek(0)
        text = out.read()
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        answer = {"status": f"exit {process.returncode}"}
    fitting = [b["step_time_s"] for b in answer.get("baselines", []) if b["fits"]]
    return Row(
        model.name.removesuffix(".gz").removesuffix(".onnx"),
        devices,
        answer["status"],
        answer.get("step_time_s"),
        answer.get("gap"),
        min(fitting, default=None),
        answer.get("peak_memory_bytes"),
        wall_s,
        usage.ru_maxrss * 1024,
    )


def text_of(row: Row) -> str:
    """One line of the table."""
    step = f"{row.step_time_s:12.6f}" if row.step_time_s is not None else " " * 12
    gap = f"{row.gap:9.4%}" if row.gap is not None else " " * 9
    factor = ""
    if row.baseline_s is not None and row.step_time_s is not None:
        factor = f"{row.baseline_s / row.step_time_s:.4f}"
    peak = f"{row.peak_memory_bytes / 2**30:8.1f}" if row.peak_memory_bytes is not None else " " * 8
    return (
        f"{row.model:24} {row.devices:7} {row.status:11} {step} {gap} {factor:>9} {peak} "
        f"{row.wall_s:8.2f} {row.process_bytes / 2**20:9.0f}"
    )


def main() -> None:
    """Print the table, a row when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("data/models"))
    parser.add_argument("--only", default="", help="comma-separated names of models")
    parser.add_argument("--devices", default="8,16,64,256,1024")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--cluster", default="atlas-800t-a2")
    parser.add_argument("--target", default="mindspore")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    models = sorted(p for p in options.models.iterdir() if ".onnx" in p.name)
    head = f"{'model':24} {'devices':>7} {'status':11} {'step s':>12} {'gap':>9} "
    head += f"{'x best':>9} {'GiB':>8} "
    sys.stdout.write(head + f"{'wall s':>8} {'RSS MiB':>9}\n")
    for model in models:
        if wanted and model.name.split(".onnx")[0] not in wanted:
            continue
        for devices in (int(d) for d in options.devices.split(",")):
            sys.stdout.write(text_of(run(model, devices, options)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
