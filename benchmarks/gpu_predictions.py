r"""What the planner says of the steps in data/calibration/gpu_steps.csv, and how far it is off.

The networks of `benchmarks.gpu_nets` are exported without numbers (torch is needed) and planned for
one device. Steps that compute single operators again are not compared: a search chooses operators
of its own; nor is full recomputation of ResNet-50, whose blocks do not repeat. Host-bound steps,
whose slow ones take 15 % more than the fast ones, are counted apart: other programs used the cores
of the machine.

    python -m benchmarks.gpu_predictions --cluster hgx-h200 [--cluster host.yaml] [-o rows.csv]
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import data
from benchmarks.gpu_nets import NETS

_DTYPES = {"bfloat16": "bf16", "float32": "fp32"}
_NOISY = 1.15
_CAUSES = (
    ("forward_s", ("compute forward",)),
    ("backward_s", ("compute backward", "recompute")),
    ("update_s", ("optimizer update",)),
)


def measured() -> Iterator[dict[str, str]]:
    """Rows of eager steps in full float32 or bfloat16."""
    text = data.files("calibration", "gpu_steps.csv").read_text()
    for row in csv.DictReader(io.StringIO(text)):
        known = row["status"] == "ok" and row["tf32"] == "0"
        ways = ("none",) if row["model"] == "resnet-50" else ("none", "full")
        if known and row["recompute"] in ways:
            yield row


def exported(name: str, folder: Path) -> Path:
    """A network as a file, without numbers."""
    import torch  # noqa: PLC0415  everything else works without it

    path = folder / f"{name}.pt2"
    if not path.exists():
        kind, shape, _ = NETS[name]
        with torch.device("meta"):
            net: Any = kind(shape)
            operands = net.operands(2, "meta", torch.float32)
        torch.export.save(torch.export.export(net, operands, strict=False), path)
    return path


@cache
def planned(path: Path, cluster: str, batch: str, dtype: str, recompute: str) -> dict[str, Any]:
    """The step of one device."""
    words = [sys.executable, "-m", "planner", "search", str(path), "--devices", "1", "--json"]
    words += ["--batch", batch, "--micro-batch", batch, "--cluster", cluster, "--target", "torch"]
    words += ["--profile", "generic", "--dtype", _DTYPES[dtype], "--recompute", recompute]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compared(row: dict[str, str], found: dict[str, Any]) -> dict[str, Any]:
    """A row with what was predicted and the errors, predicted over measured less one."""
    causes = found["time_by_cause"]
    out: dict[str, Any] = {**row, "predicted_s": found["step_time_s"]}
    out["error"] = found["step_time_s"] / float(row["step_s"]) - 1
    out["memory_error"] = found["peak_memory_bytes"] / float(row["peak_bytes"]) - 1
    for name, of in _CAUSES:
        own = sum(causes.get(cause, 0.0) for cause in of)
        out[f"{name[:-2]}_error"] = own / float(row[name]) - 1
    out["noisy"] = float(row["step_90_s"]) > _NOISY * float(row["step_10_s"])
    return out


def summary(rows: list[dict[str, Any]], what: str) -> str:
    """Median of errors as they are and of their sizes."""
    if not rows:
        return f"{what:34} no row"
    keys = ("error", "memory_error", "forward_error", "backward_error", "update_error")
    middle = [statistics.median(abs(row[key]) for row in rows) for key in keys]
    bias = [statistics.median(row[key] for row in rows) for key in keys]
    cells = (f"{m:6.1%} ({b:+6.1%})" for m, b in zip(middle, bias, strict=True))
    return f"{what:34} {len(rows):3} " + "  ".join(cells)


def main() -> None:
    """Print a table of errors, and write all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", action="append", required=True)
    parser.add_argument("--models", default=",".join(NETS))
    parser.add_argument("--folder", type=Path, help="where exported networks stay")
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as other:
        folder = chosen.folder or Path(other)
        for cluster in chosen.cluster:
            for row in measured():
                if row["model"] in chosen.models.split(","):
                    path = exported(row["model"], folder)
                    key = row["batch"], row["dtype"], row["recompute"]
                    found = planned(path, cluster, *key)
                    rows.append({"cluster": Path(cluster).stem, **compared(row, found)})
                    print(rows[-1]["cluster"], row["model"], *key, row["compiled"],
                          f"{rows[-1]['error']:+.1%} {rows[-1]['memory_error']:+.1%}",
                          file=sys.stderr, flush=True)  # fmt: skip
    if chosen.output:
        with chosen.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print("median size of errors (median error): step, memory, forward, backward, update")
    for cluster in dict.fromkeys(row["cluster"] for row in rows):
        own = [row for row in rows if row["cluster"] == cluster]
        eager = [row for row in own if row["compiled"] == "0"]
        still = [row for row in eager if not row["noisy"]]
        print(summary(eager, f"{cluster}, eager"))
        print(summary(still, f"{cluster}, eager, not noisy"))
        print(summary([r for r in own if r["compiled"] == "1"], f"{cluster}, compiled"))
        for column in ("model", "dtype", "recompute"):
            for value in dict.fromkeys(row[column] for row in still):
                print(summary([r for r in still if r[column] == value], f"  {value}"))


if __name__ == "__main__":
    main()
