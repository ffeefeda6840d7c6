"""The step that a search prints, beside its simulation and its bound.

    python -m benchmarks.overlap build/overlap.jsonl --devices 16,64 [--models llama3_8b,vit_large]

Each search is a line of the file; those that are there are not run again. The table at the end has
medians and ninth deciles over all lines. Batches are one sample for each device, four for images.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from planner.request import InfeasibleError, RequestError
from planner.requests.errors import UserError
from planner.requests.options.searches import SearchOptions
from planner.requests.searches import question
from planner.requests.sources import model_file

CLUSTERS = ("dgx-a100", "dgx-h100", "atlas-800t-a2", "atlas-800-9000")
FOLDERS = (Path("data/models"), Path("tests/data/models"))
IMAGES = ("resnet", "vit", "mobilenet", "mlp_mixer", "light_")
UNLIKE = ("decode_kv", "train_step", "_dyn", "deepfm")
"""Models of inference, of traced steps, with open sizes, or without a batch of samples."""


def models() -> dict[str, Path]:
    """The bundled networks that are trained, by name."""
    found = {
        path.name.split(".onnx")[0]: path for folder in FOLDERS for path in folder.glob("*.onnx.gz")
    }
    return {k: v for k, v in sorted(found.items()) if not any(u in k for u in UNLIKE)}


def cases(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every model on every machine of every size."""
    wanted = set(filter(None, options.models.split(",")))
    for name in models():
        if wanted and name not in wanted:
            continue
        for devices in map(int, options.devices.split(",")):
            for cluster in options.clusters.split(","):
                each = 4 if name.startswith(IMAGES) else 1
                yield {
                    "model": name, "devices": devices, "cluster": cluster,
                    "batch": each * devices, "pipeline": options.pipeline,
                }  # fmt: skip


def row_of(case: dict[str, Any]) -> dict[str, Any]:
    """The search of a case, its simulation and how long both took."""
    asked = SearchOptions(
        devices=case["devices"], cluster=case["cluster"], target="torch", time_limit=300,
        batch=case["batch"], pipeline=case["pipeline"],
    )  # fmt: skip
    start = time.perf_counter()
    try:
        plan = question(model_file(models()[case["model"]]), asked).plan()
    except (InfeasibleError, RequestError, UserError) as error:
        return {**case, "error": str(error).splitlines()[0]}
    searched_s = time.perf_counter() - start
    found = simulate_plan(plan, Effects())
    return {
        **case,
        "step_s": plan.estimate.step_time_s,
        "simulated_s": found.step_s,
        "hidden_s": plan.estimate.hidden_s,
        "gap": plan.bound.gap,
        "stages": len(plan.pipeline.stages),
        "truncated": plan.bound.truncated,
        "search_s": searched_s,
        "simulation_s": time.perf_counter() - start - searched_s,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """What the rows say together."""
    fine = [row for row in rows if "error" not in row]
    if not fine:
        return "nothing was planned\n"
    off = np.array([abs(row["step_s"] / row["simulated_s"] - 1) for row in fine])
    gaps = np.array([row["gap"] for row in fine])
    lines = [f"{len(fine)} plans, {len(rows) - len(fine)} refused"]
    for name, values in (("printed beside simulated", off), ("gap of the bound", gaps)):
        middle, most = np.quantile(values, 0.5), np.quantile(values, 0.9)
        lines.append(f"{name:26} median {middle:.2%}, 90th percentile {most:.2%}")
    lines.append("furthest from the simulation:")
    for number in np.argsort(-off)[:8]:
        row = fine[number]
        lines.append(
            f"  {row['model']:22} {row['devices']:4} x {row['cluster']:15} {row['step_s']:.4g} s "
            f"printed, {row['simulated_s']:.4g} s simulated"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not there yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--models", default="", help="comma-separated names")
    parser.add_argument("--devices", default="16,64,256")
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    parser.add_argument(
        "--pipeline", default="needed", help="needed, promising, off, auto or a number of stages"
    )
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, dict[str, Any]] = {}
    if options.file.exists():
        for line in options.file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            known[json.dumps([row[k] for k in ("model", "devices", "cluster", "pipeline")])] = row
    rows = []
    for case in cases(options):
        key = json.dumps([case[k] for k in ("model", "devices", "cluster", "pipeline")])
        if key not in known:
            known[key] = row_of(case)
            with options.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(known[key]) + "\n")
        rows.append(known[key])
    print(table(rows), end="")


if __name__ == "__main__":
    main()
