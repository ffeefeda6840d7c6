"""The options of `planner whatif`, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

DeviceList: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--devices",
        metavar="N,N,...|LOW:HIGH:COUNT",
        help="How many devices the job takes: a list such as 8,16,32, or a range in equal ratios.",
        show_default="all of the file, if the machine is a file that says",
    ),
]
Clusters: TypeAlias = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="NAME,NAME,...",
        help="The machines: bundled names as in planner search, cluster files or rank tables.",
    ),
]
Vary: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME=LOW:HIGH:COUNT|NAME=A,B,...",
        help="More axes, such as bandwidth=0.5:2:5,batch=64:1024:8. bandwidth, latency, memory and "
        "compute are factors on the machine, batch is the global batch, sequence the tokens of a "
        "sample; an open dimension of a model file is an axis by its name. Ranges have equal "
        "ratios; whole numbers in them are multiples of 8. May be repeated.",
        show_default=False,
    ),
]
GlobalBatch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        help="Global batch of all points, where no axis says it.",
        show_default="the model's",
    ),
]
Pipeline: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="auto|off|N",
        help="Let every plan cut its step, as planner search --global-batch does: into that many "
        "stages, and into micro-batches.",
        show_default="a step is one piece",
    ),
]
MicroBatch: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--micro-batch",
        metavar="auto|M",
        help="The same: samples of a micro-batch.",
        show_default="a step is one piece",
    ),
]
EngineName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|ray",
        help="Who works: processes of this machine, or a Ray cluster (the extra `ray`).",
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Of the Ray cluster.",
        show_default="Ray is started on this machine",
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Processes that search side by side; each takes a gigabyte of memory or more.",
        show_default="as many as there are processors, 8 at most",
    ),
]
Folder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Keep every result and every plan here. The same sweep, or a larger one, goes on from "
        "what is there.",
        show_default=False,
    ),
]
Csv: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", help="Write a header and one row for each point.",
        show_default=False,
    ),
]  # fmt: skip
Plot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Draw the curves, as .svg or .png.", show_default=False
    ),
]
PriceTable: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="What an hour of a device costs, in the format of data/prices.yaml.",
        show_default="data/prices.yaml",
    ),
]
Tokens: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--tokens",
        metavar="T",
        help="With --days: the fewest devices that train on so many tokens in that time, such as "
        "15e12.",
        show_default=False,
    ),
]
Days: TypeAlias = Annotated[
    float | None,
    typer.Option("--days", metavar="D", help="See --tokens.", show_default=False),
]
Around: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--around",
        metavar="SHARE",
        help="Look around the best point: how its plan responds to each number of the machine, and "
        "what it loses against the best plan if costs are wrong by so much, such as 0.2.",
        show_default=False,
    ),
]
Mix: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--mix",
        metavar="uniform|W,W,...",
        help="The sizes of --vary batch=...,sequence=... come in this mix: price every plan at "
        "every size, and name the best plan for all, the best two and the best three.",
        show_default=False,
    ),
]
ExactChanges: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--exact-changes",
        metavar="SHARE",
        help="Search between points of the sweep until each place where the plan changes is known "
        "to this share of a factor, such as 0.01, and for batch and sequence to the next number "
        "that divides as well.",
        show_default="between which points",
    ),
]
MeanTime: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--mtbf",
        metavar="HOURS",
        help="Mean time between failures of one device with its share of the server and the "
        "network: expected useful throughput, and the plan without a server.",
        show_default=False,
    ),
]
Restart: TypeAlias = Annotated[
    float,
    typer.Option(
        "--restart", metavar="SECONDS", help="From a failure to the next step; with --mtbf."
    ),
]
CheckpointRate: TypeAlias = Annotated[
    float,
    typer.Option(
        "--checkpoint-rate",
        metavar="GB/s",
        help="At which each device writes its checkpoint; with --mtbf.",
    ),
]
Repair: TypeAlias = Annotated[
    float,
    typer.Option("--repair", metavar="HOURS", help="Until a failed server is back; with --mtbf."),
]
Spares: TypeAlias = Annotated[
    int, typer.Option("--spares", metavar="N", help="Servers that stand by; with --mtbf.")
]
