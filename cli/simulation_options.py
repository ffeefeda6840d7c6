"""The options of `planner simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from planner.requests.option_texts import OPTIMIZERS

Subject: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="PLAN|MODEL",
        help="A plan.json that `planner search -o DIR` wrote; with --layout a model: a config.json "
        "or a name that `planner sizes --list` prints.",
    ),
]
Layout: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="TEXT",
        help="A conventional layout of MODEL: degrees tp, pp, vpp, dp, cp, ep, etp (how many of tp "
        "split the width of an expert), zero (0 to 3), zero-group; batch and micro (sequences), "
        "seq (tokens); sp; recompute=none|selective|full, recompute-share; stages=31/32/32/31 "
        "(layers); schedule=gpipe|1f1b|interleaved|zb-h1|zb-h2|dualpipe; imbalance=1.2 (busiest "
        "expert rank over the mean); ep-overlap (the exchange between experts runs beside "
        "computation, ep-overlap=0 not); mtp=0 (layers that predict further tokens, as many as the "
        "config.json says unless given).",
        show_default=False,
    ),
]
ParameterServers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--servers",
        metavar="TEXT",
        help="Of a plan that is data parallel, or with --layout of dp alone: devices exchange "
        "gradients through parameter servers. "
        "count=4, mode=sync|async, port=25GB/s, update=SECONDS, slow=1x1.5 (workers), "
        "lose=worker@600 or add=2xserver@600 (seconds), downtime=30, horizon=3600.",
        show_default=False,
    ),
]
Precision: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="bf16|fp16|fp8|...",
        help="Type of the matrix products, with --layout.",
        show_default="bf16",
    ),
]
LayoutOptimizer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--optimizer",
        metavar="|".join(OPTIMIZERS),
        help="With --layout, how parameters are updated; a plan has its own.",
        show_default="adamw",
    ),
]
Software: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--software",
        metavar="NAME",
        help="With --layout the software whose constants are used, such as megatron-core or "
        "mindspeed.",
        show_default="the usual one of the machine",
    ),
]
OtherCluster: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME|FILE",
        help="Another machine than the plan's: as many devices in tiers of the same sizes. With "
        "--layout the machine that it runs on, such as dgx-h100, atlas-800t-a2 or b200.",
        show_default="the plan's; with --layout atlas-800t-a2",
    ),
]
Bandwidths: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--bandwidth",
        metavar="TIER=X",
        help="Multiply the bandwidth of a tier, such as server=2. May be repeated.",
        show_default=False,
    ),
]
Overlap: TypeAlias = Annotated[
    str,
    typer.Option(
        "--overlap",
        metavar="auto|none",
        help="Communication beside computation, or none: then they take turns.",
    ),
]
ContentionMode: TypeAlias = Annotated[
    str,
    typer.Option(
        "--contention",
        metavar="fair|queue|none",
        help="What transfers that meet at a port do: share it fairly, take turns, or not notice.",
    ),
]
Fusions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--fusion",
        metavar="KIND=MODE",
        help="How collectives of parameters are fused: all_reduce=size:32 (MiB), all_gather=auto "
        "(64 MiB), all_reduce=index:20,35. May be repeated.",
        show_default="buckets of 64 MiB at the plan's times",
    ),
]
Prefetch: TypeAlias = Annotated[
    int,
    typer.Option(
        "--prefetch", metavar="N", help="Buckets of sharded parameters gathered ahead of use."
    ),
]
Interference: TypeAlias = Annotated[
    float,
    typer.Option(
        "--interference",
        metavar="SHARE",
        help="Share of the computing units that a running collective takes, such as 0.1.",
    ),
]
Jitter: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--jitter",
        metavar="SHAPE:WIDTH",
        help="Distribution of the time of every task, mean 1: lognormal:0.03, normal, uniform, "
        "exponential.",
        show_default=False,
    ),
]
Spread: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--spread",
        metavar="SHAPE:WIDTH",
        help="The same of every device, for all its tasks.",
        show_default=False,
    ),
]
Stragglers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--stragglers",
        metavar="NxF",
        help="So many devices, drawn among all, are slower: 2x1.3.",
        show_default=False,
    ),
]
Samples: TypeAlias = Annotated[
    int, typer.Option("--samples", metavar="N", help="Steps drawn with --jitter and the like.")
]
Seed: TypeAlias = Annotated[
    int, typer.Option("--seed", metavar="N", help="Other random numbers for unequal devices.")
]
Trace: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="A timeline to write, for ui.perfetto.dev or chrome://tracing.",
        show_default=False,
    ),
]
Plot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="A picture to write, .svg or .png: timeline, memory and where the time goes.",
        show_default=False,
    ),
]
Recipe = Annotated[
    str,
    typer.Option(
        "--recipe",
        metavar="FRAMEWORK",
        help="Write a layout as files of megatron, megatron-bridge, torchtitan, deepspeed, "
        "accelerate, mindformers, mindspeed or maxtext.",
        show_default=False,
    ),
]
RecipeFolder = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Where those files go.", show_default=False),
]
