"""The options of a sweep, beside those that all its points have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from planner.requests.option_texts import RANKS
from planner.requests.options.option import Group, Option


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What is swept, beside what all points have in common; `planner whatif --help` explains it."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A name that is no option is an error where a service reads them."""

    # fmt: off
    devices: Annotated[str | None, Option(
        group=Group.MACHINE, value="N,N,...|LOW:HIGH:COUNT", unit="devices", first=True,
        usual="all of the file, if the machine is a file that says",
        help="How many devices the job takes: a list such as 8,16,32, or a range in equal ratios.",
    )] = None
    cluster: Annotated[str, Option(
        group=Group.MACHINE, value="NAME,NAME,...", first=True,
        help="The machines: bundled names as in planner search, cluster files or rank tables.",
    )] = "atlas-800t-a2"
    vary: Annotated[tuple[str, ...], Option(
        group=Group.SWEEP, value="NAME=LOW:HIGH:COUNT|NAME=A,B,...", first=True,
        help="More axes, such as bandwidth=0.5:2:5,batch=64:1024:8. bandwidth, latency, memory and "
        "compute are factors on the machine, batch is the global batch, sequence the tokens of a "
        "sample; an open dimension of a model file is an axis by its name. Ranges have equal "
        "ratios; whole numbers in them are multiples of 8. May be repeated.",
    )] = ()
    tokens: Annotated[str | None, Option(
        group=Group.SWEEP, value="T", unit="tokens", first=True,
        help="With --days: the fewest devices that train on so many tokens in that time, such as "
        "15e12.",
    )] = None
    days: Annotated[float | None, Option(
        group=Group.SWEEP, value="D", unit="days", first=True, help="See --tokens.",
    )] = None
    rank: Annotated[str, Option(
        group=Group.SWEEP, choices=RANKS, noun="ranking",
        help="Which seconds of a step decide between points: the 75th percentile of its interval, "
        "which is wider where published runs differ more (robust), or the step as estimated "
        "(median).",
    )] = "robust"
    around: Annotated[float | None, Option(
        group=Group.SWEEP, value="SHARE",
        help="Look around the best point: how its plan responds to each number of the machine, and "
        "what it loses against the best plan if costs are wrong by so much, such as 0.2.",
    )] = None
    mix: Annotated[str | None, Option(
        group=Group.SWEEP, value="uniform|W,W,...",
        help="The sizes of --vary batch=...,sequence=... come in this mix: price every plan at "
        "every size, and name the best plan for all, the best two and the best three.",
    )] = None
    """`uniform`, or a weight for each size."""
    exact_changes: Annotated[float | None, Option(
        group=Group.SWEEP, value="SHARE", usual="between which points",
        help="Search between points of the sweep until each place where the plan changes is known "
        "to this share of a factor, such as 0.01, and for batch and sequence to the next number "
        "that divides as well.",
    )] = None
    """Share of a value to which the places are found where the plan changes."""
    mtbf: Annotated[float | None, Option(
        group=Group.SWEEP, value="HOURS", unit="hours",
        help="Mean time between failures of one device with its share of the server and the "
        "network: expected useful throughput, and the plan without a server.",
    )] = None
    restart: Annotated[float, Option(
        group=Group.SWEEP, value="SECONDS", unit="seconds",
        help="From a failure to the next step; with --mtbf.",
    )] = 600.0
    checkpoint_rate: Annotated[float, Option(
        group=Group.SWEEP, value="GB/s", unit="GB/s",
        help="At which each device writes its checkpoint; with --mtbf.",
    )] = 1.0
    repair: Annotated[float, Option(
        group=Group.SWEEP, value="HOURS", unit="hours",
        help="Until a failed server is back; with --mtbf.",
    )] = 24.0
    spares: Annotated[int, Option(
        group=Group.SWEEP, value="N", unit="servers", least=0,
        help="Servers that stand by; with --mtbf.",
    )] = 0
    # fmt: on
