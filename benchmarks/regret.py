"""Whether anything that fits simulates faster than what a search answers.

    python -m benchmarks.regret build/regret.jsonl [--models llama3_8b] [--devices 16] [--drawn 40]

Each model is planned on two machines in a fixed rotation, and again with one decision held at a
time: the level of ZeRO, sequence parallelism, recomputation, stages, the tensor parallel degree;
then with `--drawn` combinations of them from a fixed seed. All plans are simulated with overlap.
Each plan is a line of the file; those that are there are not made again, so the command may be
stopped and started. The table at the end has the regret of every answer: how much faster the
fastest alternative simulates.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.overlap import CLUSTERS, IMAGES, models
from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from planner.request import InfeasibleError, RequestError
from planner.requests.errors import UserError
from planner.requests.options.searches import SearchOptions
from planner.requests.searches import question
from planner.requests.sources import model_file
from topology.units import format_seconds

HELD: dict[str, tuple[str, ...]] = {
    "zero": ("0", "1", "2", "3"),
    "sequence_parallel": ("on", "off"),
    "recompute": ("none", "selective", "full"),
    "pipeline": ("off", "2", "4", "8"),
    "tp": ("1", "2", "4", "8"),
}
"""Decisions and the values that they are held to."""
SEED = 7
FROM = 1.01
"""Times an alternative that an answer may take."""


def alternatives(drawn: int, name: str) -> Iterator[dict[str, str]]:
    """Nothing held; one decision held; and combinations drawn for a model."""
    yield {}
    for decision, values in HELD.items():
        for value in values:
            yield {decision: value}
    rng = random.Random(f"{SEED} {name}")
    seen: set[tuple[tuple[str, str], ...]] = set()
    while len(seen) < drawn:
        count = rng.randint(2, len(HELD))
        chosen = sorted(rng.sample(sorted(HELD), count))
        combination = tuple((each, rng.choice(HELD[each])) for each in chosen)
        if combination not in seen:
            seen.add(combination)
            yield dict(combination)


def cases(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every model on two machines, with everything that is held."""
    wanted = set(filter(None, options.models.split(",")))
    sizes = tuple(int(text) for text in options.devices.split(","))
    machines = list(itertools.product(CLUSTERS, sizes))
    for number, name in enumerate(models()):
        if wanted and name not in wanted:
            continue
        for turn in range(2):
            cluster, devices = machines[(2 * number + turn) % len(machines)]
            batch = (4 if name.startswith(IMAGES) else 1) * devices
            for held in alternatives(options.drawn, name):
                yield {
                    "model": name, "cluster": cluster, "devices": devices, "batch": batch,
                    "held": held,
                }  # fmt: skip


def row_of(case: dict[str, Any], time_limit_s: float) -> dict[str, Any]:
    """The simulated step of a case, or why there is none."""
    held = dict(case["held"])
    tensor = held.pop("tp", None)
    asked = SearchOptions(
        devices=case["devices"], cluster=case["cluster"], target="torch",
        global_batch=case["batch"], time_limit=time_limit_s,
        tp=None if tensor is None else int(tensor),
    )  # fmt: skip
    try:
        plan = question(model_file(models()[case["model"]]), replace(asked, **held)).plan()
    except (InfeasibleError, RequestError, UserError) as error:
        return {**case, "error": str(error).splitlines()[0]}
    return {
        **case,
        "step_s": plan.estimate.step_time_s,
        "simulated_s": simulate_plan(plan, Effects()).step_s,
        "gap": plan.bound.gap,
        "truncated": plan.bound.truncated,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Regret of every answer, the largest first."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["cluster"], row["devices"]), []).append(row)
    lines, regrets, correlated = [], [], []
    for (model, cluster, devices), own in groups.items():
        fine = [row for row in own if "error" not in row]
        answers = [row for row in fine if not row["held"]]
        if not answers:
            continue
        best = min(fine, key=lambda row: float(row["simulated_s"]))
        regret = answers[0]["simulated_s"] / best["simulated_s"]
        regrets.append(regret)
        pairs = np.array([(row["step_s"], row["simulated_s"]) for row in fine])
        if len(pairs) > 2:
            ranks = pairs.argsort(axis=0).argsort(axis=0).astype(np.float64)
            correlated.append(float(np.asarray(np.corrcoef(ranks.T))[0, 1]))
        held = ", ".join(f"{k}={v}" for k, v in best["held"].items()) or "nothing held"
        lines.append(
            f"{regret:8.4f}  {model:22} {devices:4} x {cluster:15} "
            f"{format_seconds(answers[0]['simulated_s']):>9} answer, "
            f"{format_seconds(best['simulated_s']):>9} best of {len(fine)} ({held})"
        )
    above = sum(regret > FROM for regret in regrets)
    head = [f"{len(regrets)} answers, {above} of them more than 1 % slower than an alternative"]
    if correlated:
        head.append(
            f"rank correlation of printed and simulated: median {np.median(correlated):.3f}"
        )
    return "\n".join([*head, *sorted(lines, reverse=True)]) + "\n"


def main() -> None:
    """Plan what is not there yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--models", default="", help="comma-separated names")
    parser.add_argument("--devices", default="16,64", help="sizes of machines")
    parser.add_argument("--drawn", type=int, default=40, help="combinations for each model")
    parser.add_argument("--time-limit", type=float, default=60, help="seconds of a search")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, dict[str, Any]] = {}
    if options.file.exists():
        for line in options.file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            known[_key(row)] = row
    rows = []
    for case in cases(options):
        if _key(case) not in known:
            known[_key(case)] = row_of(case, options.time_limit)
            with options.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(known[_key(case)]) + "\n")
        rows.append(known[_key(case)])
    print(table(rows), end="")


def _key(case: dict[str, Any]) -> str:
    return json.dumps([case[k] for k in ("model", "cluster", "devices", "held")])


if __name__ == "__main__":
    main()
