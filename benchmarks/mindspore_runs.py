"""Runs MindSpore's own searches, and reads what they chose and how long they took."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ir.graph import Op, OpGraph
from ir.mindspore_forms.primitives import primitive_form
from ir.ops import OpView, lookup
from planner.request import Cuts

COMPILE = Path(__file__).with_name("mindspore_compile.py")
ENTERED, LEFT = "Now entering step auto parallel", "Now leaving step auto parallel, used time: "
ERRORS_ONLY, LOGGED = "GLOG_v=3", "MS_SUBMODULE_LOG_v={PARALLEL:1}"
MANY_LINES, MANY_LINED = 100_000, "sharding_propagation"
"""Lines of log whose time can be told; a search that writes fewer is charged what a line of this
one takes.
"""
SLOW = "dynamic_programming"
"""Runs once, for it takes long."""
DATASET = ("", "_VirtualDataset")
"""Stands for the input; it takes no strategy here."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """One of MindSpore's searches on one network."""

    mode: str
    compile_s: float
    """The whole front end, without a log."""
    search_s: float
    """The search alone: by MindSpore's own clock, which it only tells in a log, less the time that
    the log took.
    """
    strategies: tuple[Mapping[str, Cuts], ...]
    """What it chose; two readings where names leave the order of some operators open."""


@dataclass(frozen=True, slots=True)
class Runs:
    """How MindSpore is run."""

    tools: Path
    """Folder of the networks and of what makes devices that are not there."""
    python: Path
    """Interpreter that has MindSpore."""
    devices: int
    repeat: int
    """Runs of which the least time counts."""
    time_limit_s: float

    def searches(
        self, network: str, layers: int, graph: OpGraph, modes: Sequence[str]
    ) -> list[Theirs]:
        """What every search makes of a network, whose graph is given too."""
        quiet: dict[str, list[dict[str, Any]]] = {}
        loud: dict[str, list[dict[str, Any]]] = {}
        for mode in modes:
            words = (network, str(layers), str(self.devices), mode)
            repeat = 1 if mode == SLOW else self.repeat
            quiet[mode] = [self._compiled(words, logged=False) for _ in range(repeat)]
            loud[mode] = [self._compiled(words, logged=True) for _ in range(repeat)]
        many = {mode: loud[mode][0]["lines"] >= MANY_LINES for mode in modes}
        return [
            Theirs(
                mode,
                min(run["compile_s"] for run in quiet[mode]),
                _alone_s(loud[mode], log_line_s(quiet[told], loud[told])),
                tuple(by_operator(graph, quiet[mode][0]["strategies"])),
            )
            for mode in modes
            for told in (mode if many[mode] else MANY_LINED,)
        ]

    def _compiled(self, words: Sequence[str], *, logged: bool) -> dict[str, Any]:
        settings = [f"PYTHONPATH={self.tools.absolute()}", ERRORS_ONLY]
        command = ["env", *settings, *([LOGGED] if logged else [])]
        command += [str(self.python.absolute()), str(COMPILE), *words, "found.json"]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with (folder / "log").open("wb") as file:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    stdout=file,
                    stderr=file,
                    timeout=self.time_limit_s,
                    check=False,
                )
            log = (folder / "log").read_text(errors="replace")
            if done.returncode:
                raise SystemExit(f"MindSpore stopped:\n{log[-3000:]}")
            found: dict[str, Any] = json.loads((folder / "found.json").read_text())
        return found | (searched(log) if logged else {})


def _alone_s(loud: Sequence[Mapping[str, Any]], a_line_s: float) -> float:
    return min(float(run["search_s"] - a_line_s * run["search_lines"]) for run in loud)


def searched(log: str) -> dict[str, Any]:
    """Seconds of the search by MindSpore's own clock, lines of log that it wrote, and all lines."""
    lines = log.splitlines()
    took_s = {
        index: int(re.split(LEFT, line)[1].split()[0]) / 1e6
        for index, line in enumerate(lines)
        if LEFT in line
    }
    last = max(took_s, key=lambda index: took_s[index])
    first = max(index for index, line in enumerate(lines[:last]) if ENTERED in line)
    return {"search_s": took_s[last], "search_lines": last - first, "lines": len(lines)}


def log_line_s(quiet: Sequence[Mapping[str, Any]], loud: Sequence[Mapping[str, Any]]) -> float:
    """Seconds of the processor that a line of log takes: what a search takes longer, by line."""
    with_log_s, without_s = (min(float(run["cpu_s"]) for run in runs) for runs in (loud, quiet))
    return max(with_log_s - without_s, 0.0) / int(loud[0]["lines"])


def by_operator(
    graph: OpGraph, found: Mapping[str, Sequence[Sequence[int]]]
) -> Iterator[dict[str, Cuts]]:
    """Cuts by the operator of the graph: the n-th of a primitive in a cell is the n-th here.

    MindSpore numbers these in the order in which it first asks for their names, which some of its
    searches do from the end: both orders are given, if they are not the same.
    """
    places: dict[tuple[str, str], dict[int, Cuts]] = {}
    for name, cuts in found.items():
        scope, _, last = name.removeprefix("Default").rpartition("/")
        primitive, _, number = last.rpartition("-op")
        own = tuple(tuple(dims) for dims in cuts)
        places.setdefault((scope.strip("/"), primitive), {})[int(number)] = own
    places.pop(DATASET, None)
    forwards, backwards = (_in_order(graph, places, backwards=each) for each in (False, True))
    yield forwards
    if backwards != forwards:
        yield backwards


def _in_order(
    graph: OpGraph, places: Mapping[tuple[str, str], Mapping[int, Cuts]], *, backwards: bool
) -> dict[str, Cuts]:
    waiting = {
        place: [cuts for _, cuts in sorted(own.items(), reverse=not backwards)]
        for place, own in places.items()
    }
    known = ((op.name, _place(op, graph)) for op in graph.ops)
    out = {name: waiting[place].pop() for name, place in known if place[1]}
    left = [place for place, more in waiting.items() if more]
    if left:
        raise SystemExit(f"the graph lacks operators of MindSpore's network: {left[:3]}")
    return out


def _place(op: Op, graph: OpGraph) -> tuple[str, str]:
    """Path of the cell, and the primitive; none where the operator takes no strategy."""
    view = OpView(op, graph)
    return op.scope, primitive_form(view, lookup(op.kind).rule(view)).name
