"""The real MindSpore as a judge: it compiles a plan for devices that are not there, and the
collectives that it inserted are held against those that the plan promises.

MindSpore cannot share an environment with the planner, so a script in its own one does the work
(`executors.mindspore.script`); cases go there and collectives come back as files.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from executors.judgement import Judgement, Traffic
from executors.mindspore.case import Case, case_of, constants_of
from executors.mindspore.messages import Message, accounts, emitted, promised
from executors.placement import Array
from ir.plan import Plan

VERSION = "2.10.0"
DIALECT = "mindspore"
PYTHON = Path(__file__).parents[2] / ".venv-mindspore" / "bin" / "python"
PROGRAM = "executors.mindspore.script.program"
TIME_LIMIT_S = 600
_START = """
import os, runpy, sys
os.environ.update(
    MS_DEV_SAVE_GRAPHS="2",
    MS_DEV_SAVE_GRAPHS_PATH="graphs",
    MS_DEV_DUMP_IR_PASSES="validate",
    GLOG_v="3",
)
sys.path.append({root!r})
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
"""MindSpore reads its switches when it is imported. The planner's packages come last on the path:
every library is MindSpore's own.
"""
_SCALE = "the loss is scaled by a number that the compiler does not know"
_MOST_DIFFERENCES = 20


class MindsporeError(RuntimeError):
    """MindSpore could not be run; the message says why and how to mend it."""


def judge(
    plan: Plan, values: Mapping[str, Array], *, python: Path = PYTHON, pinned: bool = False
) -> Judgement:
    """What MindSpore inserts into the network of a plan.

    Args:
        plan: a plan in the dialect `mindspore`.
        values: numbers; those of constants are used.
        python: the interpreter of the environment that has MindSpore.
        pinned: pin the layouts that the plan gives to tensors with several readers and to both ends
            of reshapes; MindSpore has no operator there that takes a strategy.

    Raises:
        MindsporeError: the environment is missing, or MindSpore stops.
    """
    if plan.space.dialect != DIALECT:
        reason = f"it is in the dialect {plan.space.dialect!r}: search with --target mindspore"
        return judgement_of(plan, {"not_run": {"the plan": reason}, "error": "", "collectives": []})
    (result,) = compiled([plan], values, python=python, pinned=pinned)
    return judgement_of(plan, result)


def compiled(
    plans: Sequence[Plan],
    values: Mapping[str, Array],
    *,
    python: Path = PYTHON,
    pinned: bool = False,
    module: str = PROGRAM,
    names: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """What the script says of plans, all of as many devices, in one process.

    Args:
        plans: the plans.
        values: numbers of their constants.
        python: as in `judge`.
        pinned: as in `judge`.
        module: what is run; a test puts networks of its own in place of the plans'.
        names: of the plans; by default they are numbered.

    Raises:
        MindsporeError: as in `judge`.
    """
    numbers: dict[str, Array] = {}
    cases: list[Case] = []
    for index, plan in enumerate(plans):
        case = case_of(plan, names[index] if names else f"plan{index}", pinned=pinned)
        for name in constants_of(plan):
            if name in values:
                case["numbers"][name] = f"n{len(numbers)}"
                numbers[f"n{len(numbers)}"] = values[name]
        cases.append(case)
    return _run(cases, numbers, python, module)


def _run(
    cases: Sequence[Case], numbers: Mapping[str, Array], python: Path, module: str
) -> list[dict[str, Any]]:
    if not python.exists():
        raise MindsporeError(
            "the environment with MindSpore is missing\n"
            f"  at:  {python}\n  fix: make .venv-mindspore"
        )
    start = _START.format(root=str(Path(__file__).parents[2]), module=module)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps(list(cases)))
        np.savez(folder / "cases.npz", allow_pickle=False, **numbers)
        done = subprocess.run(  # noqa: S603
            [str(python.absolute()), "-c", start, "cases.json", "found.json"],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
            cwd=folder,  # MindSpore leaves files behind
        )
        if done.returncode or not (folder / "found.json").exists():
            raise MindsporeError(
                f"MindSpore stopped: {done.stderr[-2000:]}\n"
                f"  at:  {python}\n  fix: make .venv-mindspore; it must be MindSpore {VERSION}"
            )
        found: list[dict[str, Any]] = json.loads((folder / "found.json").read_text())
        return found


def judgement_of(plan: Plan, result: Mapping[str, Any]) -> Judgement:
    """The record of what the script said of a plan."""
    not_run = dict(result["not_run"])
    if result["error"]:
        not_run["the network"] = str(result["error"])
    before, after = promised(plan), emitted(result["collectives"])
    if not_run:
        before = after = []
    differ = _regrouped(before, after)
    scaled = (_SCALE,) if plan.trains else ()
    return Judgement(
        judge=f"MindSpore {VERSION}",
        outputs=(),
        predicted=tuple(_traffic(before, differ)),
        emitted=tuple(_traffic(after, differ)),
        not_run=not_run,
        bytes_tolerance=0.0,
        counts_matter=True,
        notes=() if not_run else (*accounts(plan), *scaled, *_differences(before, after)),
    )


def _regrouped(before: Sequence[Message], after: Sequence[Message]) -> set[tuple[str, int]]:
    """Kinds and sizes of groups of which other ranks take part."""
    sides = [Counter((m.kind, len(m.ranks), m.ranks) for m in side) for side in (before, after)]
    return {(kind, size) for kind, size, _ in (sides[0] - sides[1]) + (sides[1] - sides[0])}


def _traffic(messages: Iterable[Message], differ: set[tuple[str, int]]) -> Iterable[Traffic]:
    """Where other ranks take part than planned, they are told apart."""
    for message in messages:
        kind, size = message.kind, len(message.ranks)
        if (kind, size) in differ:
            kind = f"{kind} of ranks {', '.join(map(str, message.ranks))}"
        yield Traffic(kind, size, float(message.nbytes), 1)


def _differences(before: Sequence[Message], after: Sequence[Message]) -> list[str]:
    """What only one side has, with whose it is."""
    out: list[str] = []
    sides = (("the plan", before, after), ("MindSpore", after, before))
    for name, own, other in sides:
        missing = Counter(m.bare for m in own) - Counter(m.bare for m in other)
        for message, count in missing.items():
            places = sorted({m.place for m in own if m.bare == message})
            kind, ranks = message.kind.replace("_", "-"), ", ".join(map(str, message.ranks))
            text = f"{count} x {kind} of ranks {ranks}, {message.nbytes:,} bytes"
            out.append(f"only {name} has {text}: {'; '.join(places)}")
    return out[:_MOST_DIFFERENCES]
