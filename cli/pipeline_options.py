"""The options that cut a training step, with their help."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

GlobalBatch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--global-batch",
        metavar="B",
        help="Samples of one training step, which the plan may cut into micro-batches and send "
        "through pipeline stages. In place of --batch.",
        show_default=False,
    ),
]
MicroBatch: TypeAlias = Annotated[
    str,
    typer.Option(
        "--micro-batch",
        metavar="auto|M",
        help="Samples of a micro-batch over all devices of a stage; with --global-batch.",
    ),
]
Pipeline: TypeAlias = Annotated[
    str,
    typer.Option(
        "--pipeline",
        metavar="auto|off|N",
        help="Stages of the pipeline, off for one; with --global-batch.",
    ),
]
Recompute: TypeAlias = Annotated[
    str,
    typer.Option(
        "--recompute",
        metavar="auto|none|selective|full",
        help="What the backward pass may compute again to save memory: nothing, single operators, "
        "every block as a whole, or what is best for each; with --global-batch.",
    ),
]
Zero: TypeAlias = Annotated[
    str,
    typer.Option(
        "--zero",
        metavar="auto|0|1|2|3",
        help="Stage of ZeRO of every parameter that has copies: 1 shares out its optimizer state, "
        "2 its gradient too, 3 the parameter itself; with --global-batch.",
    ),
]
SequenceParallel: TypeAlias = Annotated[
    str,
    typer.Option(
        "--sequence-parallel",
        metavar="auto|on|off",
        help="Cut activations along their tokens: on wherever work would be repeated otherwise, "
        "off nowhere.",
    ),
]
ContextParallel: TypeAlias = Annotated[
    str,
    typer.Option(
        "--context-parallel",
        metavar="auto|off|N",
        help="Parts in which attention cuts the tokens of its queries, off for one; keys and "
        "values are gathered for it.",
    ),
]
RingAttention: TypeAlias = Annotated[
    str,
    typer.Option(
        "--ring-attention",
        metavar="auto|off",
        help="Keys and values go round beside the computation of attention where that is faster "
        "than to gather them; with --global-batch.",
    ),
]
Overlap: TypeAlias = Annotated[
    str,
    typer.Option(
        "--overlap",
        metavar="auto|none",
        help="Whether gathers of parameters and reductions of gradients run beside computation, so "
        "that the step counts what is exposed of them; none lets everything take turns.",
    ),
]
Profile: TypeAlias = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="auto|NAME",
        help="The software that runs the plan: how much longer kernels take in a step than alone, "
        "what of messages shows and what the host costs; generic counts none of it, auto takes "
        "what the target usually has on the machine.",
    ),
]
Interleave: TypeAlias = Annotated[
    str,
    typer.Option(
        "--interleave",
        metavar="auto|V",
        help="Chunks of the network on every part of the machine, which take turns; with "
        "--global-batch.",
    ),
]
Offload: TypeAlias = Annotated[
    str,
    typer.Option(
        "--offload",
        metavar="auto|on|off",
        help="Optimizer state in the memory of the host, which comes to the device for the update: "
        "of no parameter, of all, or where that is best; with --global-batch.",
    ),
]
StageMeshes: TypeAlias = Annotated[
    str,
    typer.Option(
        "--stage-meshes",
        metavar="equal|any",
        help="Devices of the stages of a pipeline: as many for each, or parts of any size down to "
        "a sixteenth of the machine; with --global-batch. No format of a framework says the "
        "latter.",
    ),
]
