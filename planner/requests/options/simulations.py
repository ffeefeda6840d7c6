"""The options of a simulation: of a plan, or of a conventional layout."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from planner.requests.errors import UserError
from planner.requests.option_texts import LAYOUT_ATTENTION, MAX_DEVICES, OPTIMIZERS, RANKS
from planner.requests.options.option import CALIBRATION, Group, Option
from planner.requests.sources import Document

DEFAULT_SEQUENCE = 4096
DEFAULT_CLUSTER = "atlas-800t-a2"
DEFAULT_PRECISION = "bf16"
_LARGEST = 10**9 - 1


_PRECISION = Option(
    group=Group.MODEL, value="bf16|fp16|fp8|...", usual=DEFAULT_PRECISION, first=True,
    help="Element type of the matrix products of a layout.",
)  # fmt: skip
_PROFILE = Option(
    group=Group.MODEL, value="auto|NAME", usual="auto: the usual one of the machine",
    help="Software profile of a layout, such as megatron-core or mindspeed.",
)  # fmt: skip
_ATTENTION = Option(
    group=Group.MODEL, choices=LAYOUT_ATTENTION, noun="attention kernel",
    usual="auto: as scripts of the software ask for",
    help="Attention of a layout: one fused kernel, or products with softmax between them "
    "(decomposed).",
)  # fmt: skip
_OPTIMIZER = Option(
    group=Group.MODEL, choices=OPTIMIZERS, noun="optimizer", usual="adamw",
    help="Optimizer of a layout.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The options of a simulation; `planner simulate --help` explains each."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A name that is no option is an error where a service reads them."""

    # fmt: off
    cluster: Annotated[str | None, Option(
        group=Group.MACHINE, value="NAME|FILE", first=True,
        usual="the plan's; with --layout atlas-800t-a2",
        help="Another machine than the plan's: as many devices in tiers of the same sizes. With "
        "--layout the machine that it runs on, such as dgx-h100, atlas-800t-a2 or b200.",
    )] = None
    servers: Annotated[str | None, Option(
        group=Group.MACHINE, value="TEXT",
        help="Of a plan that is data parallel, or with --layout of dp alone: devices exchange "
        "gradients through parameter servers. "
        "count=4, mode=sync|async, port=25GB/s, update=SECONDS, slow=1x1.5 (workers), "
        "lose=worker@600 or add=2xserver@600 (seconds), downtime=30, horizon=3600.",
    )] = None
    calibration: Annotated[Document | None, CALIBRATION] = None
    bandwidth: Annotated[tuple[str, ...], Option(
        group=Group.MACHINE, value="TIER=X", first=True,
        help="Multiply the bandwidth of a tier, such as server=2. May be repeated.",
    )] = ()
    overlap: Annotated[str, Option(
        group=Group.SIMULATION, choices=("auto", "none"), noun="overlap", first=True,
        help="Communication overlaps computation; none simulates the step without overlap.",
    )] = "auto"
    contention: Annotated[str, Option(
        group=Group.SIMULATION, choices=("fair", "queue", "none"), noun="contention",
        help="What transfers on one port do: share its bandwidth fairly, queue, or not contend.",
    )] = "fair"
    fusion: Annotated[tuple[str, ...], Option(
        group=Group.SIMULATION, value="KIND=MODE", usual="buckets of 64 MiB at the plan's times",
        help="How collectives of parameters are fused: all_reduce=size:32 (MiB), all_gather=auto "
        "(64 MiB), all_reduce=index:20,35. May be repeated.",
    )] = ()
    prefetch: Annotated[int, Option(
        group=Group.SIMULATION, value="N", unit="buckets", least=0,
        help="Buckets of sharded parameters gathered ahead of use.",
    )] = 1
    interference: Annotated[float, Option(
        group=Group.SIMULATION, value="SHARE",
        help="Share of the computing units that a running collective takes, such as 0.1.",
    )] = 0.0
    jitter: Annotated[str | None, Option(
        group=Group.SIMULATION, value="SHAPE:WIDTH", first=True,
        help="Distribution of the time of every task, mean 1: lognormal:0.03, normal, uniform, "
        "exponential.",
    )] = None
    spread: Annotated[str | None, Option(
        group=Group.SIMULATION, value="SHAPE:WIDTH",
        help="The same of every device, for all its tasks.",
    )] = None
    stragglers: Annotated[str | None, Option(
        group=Group.SIMULATION, value="NxF", first=True,
        help="So many devices, drawn among all, are slower: 2x1.3.",
    )] = None
    samples: Annotated[int, Option(
        group=Group.SIMULATION, value="N", unit="steps", least=1, most=1000,
        help="Steps drawn with --jitter and the like.",
    )] = 20
    seed: Annotated[int, Option(
        group=Group.SIMULATION, value="N", least=0, help="Random seed of unequal devices.",
    )] = 0
    # fmt: on

    def check_served(self, others: Collection[str] = ()) -> None:
        """Raise `UserError` if something is asked, here or as other options, that servers do not
        take into account.
        """
        own = (field.name for field in fields(self) if getattr(self, field.name) != field.default)
        asked = {"--" + name.replace("_", "-") for name in own} - {"--cluster", "--servers"}
        asked |= set(others)
        if asked:
            option = min(asked)
            raise UserError(
                f"{option} is not for parameter servers", option, f"leave {option} or --servers out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """A conventional layout of a model; `planner simulate --help` explains each."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A name that is no option is an error where a service reads them."""

    # fmt: off
    layout: Annotated[str, Option(
        group=Group.MODEL, value="TEXT", first=True,
        help="A conventional layout of MODEL: degrees tp, pp, vpp, dp, cp, ep, etp (how many of tp "
        "split the width of an expert), zero (0 to 3), zero-group; batch and micro (sequences), "
        "seq (tokens); sp; recompute=none|selective|full, recompute-share; stages=31/32/32/31 "
        "(layers); schedule=gpipe|1f1b|interleaved|zb-h1|zb-h2|dualpipe; imbalance=1.2 (busiest "
        "expert rank over the mean); ep-overlap (the exchange between experts "
        "overlaps computation, ep-overlap=0 not); mtp=0 (multi-token prediction layers, as many as "
        "the config.json says unless given).",
    )]
    """Such as `tp=8,pp=16,dp=128,batch=2048`."""
    precision: Annotated[str, _PRECISION] = DEFAULT_PRECISION
    profile: Annotated[str, _PROFILE] = "auto"
    attention: Annotated[str, _ATTENTION] = "auto"
    optimizer: Annotated[str, _OPTIMIZER] = "adamw"
    # fmt: on
    cluster: str = DEFAULT_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingOptions:
    """What `planner layouts` was asked; its `--help` explains each."""

    # fmt: off
    devices: Annotated[int, Option(
        group=Group.MACHINE, value="N", unit="devices", least=1, most=MAX_DEVICES,
        help="Devices of the job, all of which are used.",
    )]
    batch: Annotated[int, Option(
        group=Group.BATCH, value="B", unit="sequences", least=1, most=_LARGEST,
        help="Sequences of one step of the optimizer.",
    )]
    sequence: Annotated[int, Option(
        group=Group.MODEL, value="N", unit="tokens", least=1, most=_LARGEST,
        help="Tokens of a sequence.",
    )] = DEFAULT_SEQUENCE
    cluster: Annotated[str, Option(
        group=Group.MACHINE, value="NAME",
        help="A bundled machine, or a chip such as h100.",
    )] = DEFAULT_CLUSTER
    calibration: Annotated[Document | None, CALIBRATION] = None
    precision: Annotated[str, _PRECISION] = DEFAULT_PRECISION
    profile: Annotated[str, _PROFILE] = "auto"
    attention: Annotated[str, _ATTENTION] = "auto"
    optimizer: Annotated[str, _OPTIMIZER] = "adamw"
    held: Annotated[str, Option(
        group=Group.SEARCH, value="TEXT", flags=("--hold",),
        help="Parts of the layout that have one value: some of tp, cp, pp, vpp, dp, ep, micro, "
        "zero, zero-group, sp, recompute=none|selective|full; also mtp=0, for a run without "
        "multi-token prediction (MTP) layers, or with another number of them.",
    )] = ""
    """Parts of a layout that have one value, such as `tp=8,zero=1`."""
    rank: Annotated[str, Option(
        group=Group.SEARCH, choices=RANKS, noun="ranking",
        help="What decides: the 75th percentile of the interval, which is wider where no measured "
        "run is like a layout (robust), or its median (median).",
    )] = "robust"
    tokens: Annotated[str | None, Option(
        group=Group.SEARCH, value="T", unit="tokens",
        help="Days and price of a run of so many tokens with each layout, such as 15e12.",
    )] = None
    days: Annotated[float | None, Option(
        group=Group.SEARCH, value="D", unit="days",
        help="With --tokens: whether the run is done in so many days, else how many devices it "
        "would take.",
    )] = None
    top: Annotated[int, Option(
        group=Group.OUTPUT, value="K", unit="layouts", least=1, most=MAX_DEVICES,
        help="Layouts that are listed.",
    )] = 10
    next_runs: Annotated[int, Option(
        group=Group.OUTPUT, value="N", unit="runs", least=0, most=100,
        help="Name the runs that would narrow the ranking most if they were measured, with rows "
        "for planner validate.",
    )] = 0
    variants: Annotated[bool, Option(
        group=Group.OUTPUT,
        help="List layouts of equal degrees too, not the fastest of them alone.",
    )] = False
    """Whether layouts of the same degrees stand beside one another."""
    # fmt: on
