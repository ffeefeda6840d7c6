"""The options of `planner recipe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from planner.requests.options.option import Group, Option
from planner.requests.options.simulations import DEFAULT_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeOptions:
    """What `planner recipe` was asked; its `--help` explains each."""

    # fmt: off
    cluster: Annotated[str, Option(
        group=Group.MACHINE, value="NAME", first=True,
        help="A bundled machine, or a chip such as h100.",
    )] = DEFAULT_CLUSTER
    devices: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", unit="devices", first=True, usual="what the recipe says",
        help="Devices of the job.",
    )] = None
    model: Annotated[str, Option(
        group=Group.MODEL, value="MODEL", first=True, usual="what the recipe says",
        help="A config.json, or a name that `planner sizes --list` prints.",
    )] = ""
    framework: Annotated[str, Option(
        group=Group.MODEL, value="NAME", first=True, usual="by the settings that they have",
        help="The framework that the files are of.",
    )] = ""
    say: Annotated[str, Option(
        group=Group.BATCH, value="TEXT", first=True, usual="what the recipe says",
        help="What the files leave to others: some of batch, micro, seq, nodes, vocab.",
    )] = ""
    """Such as `micro=2,seq=4096`."""
    variables: Annotated[tuple[str, ...], Option(
        group=Group.MODEL, value="NAME=VALUE", flags=("--set",), first=True,
        usual="what the script sets",
        help="A variable that a script is started with; 1 is its first argument. May be repeated.",
    )] = ()
    """Such as `TP=8` and `1=7B`."""
    # fmt: on
