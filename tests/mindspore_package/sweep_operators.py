"""Counts over many strategies of every primitive: how many MindSpore takes, lays out and sends as
the planner says.

Run by MindSpore's Python on a folder that `write_operators` filled with a number of strategies;
it prints a table by family of operators, and what differs by primitive.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.mindspore_package.operator_agreement import (
    OTHERWISE,
    TOGETHER,
    Case,
    Found,
    compiled,
    different_messages,
    same_layouts,
)

LIMIT_S = 7200
NAMES, COLUMNS = ("offered", "trained"), ("taken", "layouts", "messages")


def faults(case: Case, found: Found) -> Iterator[str]:
    """What MindSpore does otherwise with a strategy, but for what is named."""
    if "refused" in found:
        yield "taken"
    else:
        if not same_layouts(case, found):
            yield "layouts"
        if not {*different_messages(case, found)} <= {*OTHERWISE}:
            yield "messages"


def main(folder: Path) -> None:
    counts: dict[str, Counter[str]] = {}
    primitives: dict[str, set[str]] = {}
    differs: Counter[tuple[str, str, str]] = Counter()
    for name, path in ((n, p) for n in NAMES for p in sorted(folder.glob(f"{n}-*[0-9].json"))):
        for case, found in zip(*compiled(path, TOGETHER, LIMIT_S), strict=True):
            primitives.setdefault(case["family"], set()).add(case["primitive"])
            wrong = set(faults(case, found))
            agreed = [f"{name} {what}" for what in COLUMNS if what not in wrong]
            counts.setdefault(case["family"], Counter()).update([name, *agreed])
            differs.update((case["primitive"], name, what) for what in wrong)
    sys.stdout.write(_table(counts, primitives))
    for (primitive, name, what), count in sorted(differs.items()):
        sys.stdout.write(f"{primitive}, {name}: {what} differ in {count}\n")


def _table(counts: Mapping[str, Counter[str]], primitives: Mapping[str, set[str]]) -> str:
    columns = [f"{name} {what}".strip() for name in NAMES for what in ("", *COLUMNS)]
    rows = [["family", "primitives", *columns], ["---"] * (len(columns) + 2)]
    for family, own in sorted(counts.items()):
        rows.append([family, str(len(primitives[family])), *(str(own[each]) for each in columns)])
    total = sum(counts.values(), start=Counter())
    every = set().union(*primitives.values())
    rows.append(["all", str(len(every)), *(str(total[each]) for each in columns)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
