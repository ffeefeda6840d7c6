"""Options that only a command line has: where the work is done, and where its answers go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from planner.requests.options.explanations import WHY_NOT
from planner.requests.options.option import Group, Option

# fmt: off
JSON = Option(
    group=Group.OUTPUT, flags=("--json",),
    help="Print one JSON object on stdout and nothing else there.",
)
SERVER = Option(
    group=Group.OUTPUT, value="URL", variable="PLANNER_SERVER", usual="the work is done here",
    help="A service of `planner serve` that does the work, such as http://127.0.0.1:8400. Its "
    "token, if it asks for one, is read from PLANNER_TOKEN.",
)
Output = partial(Option, group=Group.OUTPUT, flags=("-o", "--output"))
"""Where a command writes."""
OUTPUT_FILE = Output(
    value="FILE", help="The file to write; its suffix chooses the form.",
)
RECIPE = Option(
    group=Group.OUTPUT, value="FRAMEWORK",
    help="Write a layout as files of megatron, megatron-bridge, torchtitan, torchtitan-0.3, "
    "deepspeed, accelerate, mindformers, mindspeed or maxtext.",
)
RECIPE_FOLDER = Output(value="DIR", help="Where those files go.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """Of commands that only print."""

    as_json: Annotated[bool, JSON] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCommand:
    """Of `planner search`."""

    why_not: Annotated[tuple[str, ...], WHY_NOT] = ()
    output: Annotated[Path | None, Output(
        value="DIR", first=True,
        help="Folder for plan.json and the target's strategy files. Without it nothing is written.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    server: Annotated[str | None, SERVER] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateCommand:
    """Of `planner simulate`."""

    trace: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="FILE", first=True,
        help="A timeline to write, for ui.perfetto.dev or chrome://tracing.",
    )] = None
    plot: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="FILE", first=True,
        help="A picture to write, .svg or .png: timeline, memory and where the time goes.",
    )] = None
    recipe: Annotated[str, RECIPE] = ""
    output: Annotated[Path | None, RECIPE_FOLDER] = None
    as_json: Annotated[bool, JSON] = False
    server: Annotated[str | None, SERVER] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutsCommand:
    """Of `planner layouts`."""

    prices: Annotated[Path | None, Option(
        group=Group.SEARCH, value="FILE", usual="data/prices.yaml",
        help="With --tokens: what an hour of a device costs, in the format of data/prices.yaml.",
    )] = None
    csv: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="FILE",
        help="Write every layout with its time and memory, those that do not fit too.",
    )] = None
    plot: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="FILE",
        help="Draw time and memory of every layout (.svg or .png).",
    )] = None
    recipe: Annotated[str, RECIPE] = ""
    output: Annotated[Path | None, RECIPE_FOLDER] = None
    row: Annotated[int, Option(
        group=Group.OUTPUT, value="N", help="Which layout of the list --recipe writes, from 1.",
    )] = 1
    as_json: Annotated[bool, JSON] = False
    server: Annotated[str | None, SERVER] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeCommand:
    """Of `planner recipe`."""

    to: Annotated[str, Option(
        group=Group.OUTPUT, value="NAME", first=True,
        help="Write the recipe for this framework, as it is, into the folder of -o.",
    )] = ""
    output: Annotated[Path | None, Output(
        value="DIR", first=True, help="Write the best recipe there.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    server: Annotated[str | None, SERVER] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatifCommand:
    """Of `planner whatif`."""

    engine: Annotated[str, Option(
        group=Group.SWEEP, choices=("local", "ray"), noun="engine",
        help="Who works: processes of this machine, or a Ray cluster (the extra `ray`).",
    )] = "local"
    address: Annotated[str | None, Option(
        group=Group.SWEEP, value="HOST:PORT", usual="Ray is started on this machine",
        help="Of the Ray cluster.",
    )] = None
    workers: Annotated[int | None, Option(
        group=Group.SWEEP, value="N", least=1, usual="as many as there are processors, 8 at most",
        help="Processes that search side by side; each takes a gigabyte of memory or more.",
    )] = None
    prices: Annotated[Path | None, Option(
        group=Group.SWEEP, value="FILE", usual="data/prices.yaml",
        help="What an hour of a device costs, in the format of data/prices.yaml.",
    )] = None
    output: Annotated[Path | None, Output(
        value="DIR", first=True,
        help="Keep every result and every plan here. The same sweep, or a larger one, goes on from "
        "what is there.",
    )] = None
    csv: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="FILE", first=True,
        help="Write a header and one row for each point.",
    )] = None
    plot: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="FILE", first=True, help="Draw the curves, as .svg or .png.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    server: Annotated[str | None, SERVER] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCommand:
    """Of commands that print, and whose work a service may do."""

    as_json: Annotated[bool, JSON] = False
    server: Annotated[str | None, SERVER] = None
# fmt: on
