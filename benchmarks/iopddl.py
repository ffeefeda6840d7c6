"""Solves the public instances in a folder within their own time limits, and prints a table.

    python benchmarks/iopddl.py FOLDER --instances A,B,G,P

First the time of a tiny instance is printed, with the inner loops to be compiled (once for each
installation) and with them kept. Each row is one process of `planner solve`, reading included.
Published figures: the best entry of the ASPLOS/EuroSys 2025 contest
(github.com/asplos-contest/2025, iopddl_final_results.csv) and the best cost published since
(github.com/ti2-group/iopddl_experiments, nine digits).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMITS_S = {"G": 120, "H": 120, "I": 120, "J": 120, "K": 180, "L": 180, "M": 180, "N": 180,
            "O": 180, "P": 240, "Q": 240, "R": 240, "S": 240, "T": 240, "U": 300, "V": 300,
            "W": 300, "X": 300, "Y": 300}  # fmt: skip
"""Of the contest, by the last letter of the instance's name; 60 for the others."""
PUBLISHED = {
    "A": (6548641531, 6548641531), "B": (532843, 532843), "G": (217039, 217039),
    "K": (2274276676, 2242635780), "M": (49928460991, 49928157500),
    "P": (662197407330, 651833115436), "S": (1534613444, 1521949310), "V": (1632051, 1617084),
}  # fmt: skip
"""Best of the contest, and best since."""
HEAD = ("instance", "limit s", "time s", "cost", "bound", "gap %", "proof", "read s",
        "first answer s", "best of the contest", "best published", "x published")  # fmt: skip


def main() -> None:
    """Print the table row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--instances", default="", help="letters, such as A,B; all if empty")
    parser.add_argument("--share", type=float, default=1.0, help="of the time limit")
    given = parser.parse_args()
    files = sorted(given.folder.glob("*.json*"))
    wanted = set(filter(None, given.instances.split(",")))
    print(f"cores {os.cpu_count()}, {time.strftime('%Y-%m-%d')}")
    cold, warm = _compile_times()
    print(f"a tiny instance: {cold:.1f} s the first time, {warm:.1f} s from then on\n")
    print(f"| {' | '.join(HEAD)} |")
    print(f"|{'---|' * len(HEAD)}")
    for path in files:
        letter = path.name.split(".")[0].rsplit("-", 1)[-1]
        if not wanted or letter in wanted:
            print(f"| {' | '.join(_row(path, letter, given.share))} |", flush=True)


def _compile_times() -> tuple[float, float]:
    """Seconds of a tiny instance without and with the compiled loops kept."""
    tiny = {
        "problem": {
            "name": "tiny",
            "nodes": {
                "intervals": [[0, 2]] * 3,
                "costs": [[1, 2, 3]] * 3,
                "usages": [[4, 2, 1]] * 3,
            },
            "edges": {
                "nodes": [[0, 1], [1, 2], [0, 2]],
                "costs": [[0, 5, 3, 2, 0, 4, 1, 3, 0]] * 3,
            },
            "usage_limit": 7,
        }
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiny.json")
        path.write_text(json.dumps(tiny))
        command = [sys.executable, "-m", "cli", "solve", str(path), "--effort", "1"]
        spent = []
        for _ in range(2):
            started = time.monotonic()
            kept = f"NUMBA_CACHE_DIR={folder}"
            subprocess.run(["env", kept, *command], capture_output=True, check=True)
            spent.append(time.monotonic() - started)
    return spent[0], spent[1]


def _row(path: Path, letter: str, share: float) -> tuple[str, ...]:
    limit = LIMITS_S.get(letter, 60)
    command = [sys.executable, "-m", "cli", "solve", str(path), "--json"]
    started = time.monotonic()
    done = subprocess.run(
        [*command, "--time-limit", str(limit * share)], capture_output=True, text=True, check=False
    )
    spent = time.monotonic() - started
    if done.returncode not in {0, 1}:
        return (letter, str(limit), f"{spent:.1f}", "failed", done.stderr.strip()[-80:], *[""] * 7)
    found = json.loads(done.stdout)
    contest, since = PUBLISHED.get(letter, (None, None))
    read = f"{found['loaded_s']:.1f}"
    first = f"{found['trace'][0][0] - found['loaded_s']:.1f}" if found["trace"] else ""
    gap = "" if found["gap"] is None else f"{100 * found['gap']:.3f}"
    ratio = f"{found['cost'] / since:.5f}" if found["cost"] and since else ""
    shown = [f"{v:,}" if v is not None else "" for v in (contest, since)]
    cost, bound = (f"{found[k]:,.0f}" if found[k] is not None else "" for k in ("cost", "bound"))
    return (letter, str(limit), f"{spent:.1f}", cost, bound, gap, found["status"], read, first,
            *shown, ratio)  # fmt: skip


if __name__ == "__main__":
    main()
