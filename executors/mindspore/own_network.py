"""What becomes of a plan's files in a user's own network.

MindSpore compiles it for devices that are not there; strategies and collectives are held against
the plan.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from executors.judgement import Judgement
from executors.mindspore.case import optimizer_level, optimizer_shares
from executors.mindspore.judge import TIME_LIMIT_S, VERSION, MindsporeError, judgement_of
from ir.mindspore_forms.strategies import Strategy
from ir.ops import LOSS
from ir.plan import Plan

ROUTES = ("apply", "propagation", "checkpoint", "operators")
"""`.shard()` by apply_mindspore.py beside the strategy checkpoint, the same in sharding
propagation, where the rest follows its neighbours, the checkpoint alone, or the strategies of all
operators.
"""
Writer: TypeAlias = Callable[[Path], None]
_PROGRAM = "executors.mindspore.script.own_network"
_SWITCHES = {
    "GLOG_v": "3",
    "MS_DEV_SAVE_GRAPHS": "2",
    "MS_DEV_SAVE_GRAPHS_PATH": "graphs",
    "MS_DEV_DUMP_IR_PASSES": "validate,step_parallel_end",
}


@dataclass(frozen=True, slots=True)
class Source:
    """The network that is compiled: a cell of a script."""

    script: Path
    cell: str

    @property
    def scope(self) -> str:
        """Where its operators are in the cell that calls it."""
        return f"network-{self.cell}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A primitive of the plan."""

    name: str
    """Full name in the exported file, with the scope of the compiled network."""
    cuts: Strategy
    primitive: str = ""
    """Full name in the exported file."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One primitive that has a strategy in the compiled graph."""

    name: str
    used: Strategy
    planned: Planned | None
    """None where the plan has no such primitive."""

    @property
    def arrived(self) -> bool:
        return self.planned is not None and self.used == self.planned.cuts


@dataclass(frozen=True, slots=True)
class Compiled:
    """What MindSpore made of a network with a plan's files."""

    arrivals: tuple[Arrival, ...]
    missing: tuple[str, ...]
    """What `apply` did not find."""
    judgement: Judgement | None
    """The collectives; None where the graphs differ in more than strategies."""

    @property
    def passed(self) -> bool:
        sent = self.judgement is None or self.judgement.passed
        return sent and all(each.arrived for each in self.arrivals)


def compiled(
    plan: Plan,
    source: Source,
    route: str,
    files: Mapping[str, Writer],
    python: Path,
    *,
    kept: Path | None = None,
) -> dict[str, Any]:
    """What the script says of a network: strategies, collectives, what `apply` did not find.

    Args:
        plan: in the dialect `mindspore`, of one stage.
        source: the network.
        route: one of `ROUTES`.
        files: of the plan, by name.
        python: the interpreter of the environment that has MindSpore.
        kept: a folder in which the graphs are left.

    Raises:
        MindsporeError: MindSpore cannot be run, or refuses the network with these files.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(files, folder)
        (folder / "job.json").write_text(json.dumps(_job(plan, source, route, folder)))
        done = subprocess.run(  # noqa: S603
            [str(python.absolute()), "-m", _PROGRAM, "job.json", "found.json"],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
            cwd=folder,  # MindSpore leaves files behind
            env=_environment(),
        )
        if done.returncode or not (folder / "found.json").exists():
            raise MindsporeError(
                f"MindSpore stopped: {done.stderr[-2000:]}\n"
                f"  at:  {python}\n  fix: it must be MindSpore {VERSION}"
            )
        found: dict[str, Any] = json.loads((folder / "found.json").read_text())
        if kept is not None and (folder / "graphs").exists():
            shutil.copytree(folder / "graphs", kept, dirs_exist_ok=True)
    if found["error"]:
        why = "\n".join(_reasons(done.stderr))
        raise MindsporeError(
            f"MindSpore refuses the network: {found['error'].strip().splitlines()[0][:200]}\n{why}"
        )
    return found


def _write(files: Mapping[str, Writer], folder: Path) -> None:
    for name, write in files.items():
        write(folder / name)


def _environment() -> dict[str, str]:
    """What MindSpore reads when it is imported; the planner's packages are found beside it."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))  # noqa: TID251
    return os.environ | _SWITCHES | {"PYTHONPATH": path}  # noqa: TID251


def _reasons(log: str) -> Iterator[str]:
    """Lines of its log that say which operator is at fault."""
    lines = [line.rpartition("] ")[2] for line in log.splitlines() if "PARALLEL" in line]
    yield from list(dict.fromkeys(lines))[:5]


def _job(plan: Plan, source: Source, route: str, folder: Path) -> dict[str, Any]:
    tensors = plan.graph.tensors
    shares = [name for name, size in optimizer_shares(plan).items() if size > 1]
    losses = [
        {**_tensor(plan, op.inputs[0]), "cuts": layout.shards(plan.axis_sizes)}
        for op, planned in zip(plan.graph.ops, plan.operators, strict=True)
        for layout in planned.inputs[:1]
        if op.kind == LOSS and layout is not None and route != "operators"
    ]
    return {
        "script": str(source.script.absolute()),
        "cell": source.cell,
        "devices": plan.devices,
        "route": route,
        "folder": str(folder),
        "training": plan.trains,
        "loss": losses if len(losses) == 1 else [],
        "shared": sorted(tensors[name].source or name for name in shares),
        "level": optimizer_level(plan),
        "all_to_all": plan.request.get("all_to_all") is not False,
        "inputs": [
            {**_tensor(plan, name), "cuts": layout.shards(plan.axis_sizes)}
            for name, layout in plan.input_layouts.items()
        ],
    }


def _tensor(plan: Plan, name: str) -> dict[str, Any]:
    tensor = plan.graph.tensors[name]
    return {"dims": list(tensor.dims), "dtype": tensor.dtype}


def compared(
    plan: Plan, planned: Sequence[Planned], found: Mapping[str, Any], scope: str, route: str
) -> Compiled:
    """Strategies and collectives of the compiled graph beside those of the plan.

    Args:
        plan: the plan.
        planned: its primitives, in order.
        found: what `compiled` returned.
        scope: of the network in what was compiled.
        route: how the strategies came.
    """
    used = {
        name: tuple(tuple(cuts) for cuts in strategy)
        for name, strategy in found["strategies"].items()
        if f"/{scope}/" in name or name.endswith(f"/{scope}")
    }
    order = [name for name in found["order"] if name in used]
    order += [name for name in used if name not in order]
    of = _matched(planned, {name: used[name] for name in order})
    arrivals = tuple(Arrival(name, used[name], of.get(name)) for name in order)
    judged = None
    if not (plan.trains and route == "operators"):
        judged = judgement_of(plan, {"not_run": {}, "error": "", **found})
    return Compiled(arrivals, tuple(found["missing"]), judged)


def _matched(planned: Sequence[Planned], used: Mapping[str, Strategy]) -> dict[str, Planned]:
    """Which primitive of the plan each compiled one is.

    By name where a cell holds as many of a kind as in the plan, else by the place among the rest
    of its kind with as many dimensions: functions stand in another cell than in the exported file,
    and an ONNX file leaves cells open.
    """
    ours = Counter(_cell_and_kind(each.name) for each in planned)
    theirs = Counter(_cell_and_kind(name) for name in used)
    by_name = {each.name: each for each in planned}
    out: dict[str, Planned] = {}
    for name in used:
        place = _cell_and_kind(name)
        if name in by_name and ours[place] == theirs[place]:
            out[name] = by_name.pop(name)
    left: dict[tuple[str, tuple[int, ...]], list[Planned]] = {}
    for each in by_name.values():
        left.setdefault(_form(each.name, each.cuts), []).append(each)
    for name, cuts in used.items():
        rest = left.get(_form(name, cuts))
        if name not in out and rest:
            out[name] = rest.pop(0)
    return out


def _form(name: str, cuts: Strategy) -> tuple[str, tuple[int, ...]]:
    return _cell_and_kind(name)[1], tuple(len(each) for each in cuts)


def _cell_and_kind(name: str) -> tuple[str, str]:
    cell, _, primitive = name.rpartition("/")
    return cell, primitive.rpartition("-op")[0]
