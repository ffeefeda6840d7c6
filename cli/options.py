"""The options of the commands, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from planner.requests import option_texts as texts

DTYPES = texts.DTYPES

_MODEL_HELP = (
    "The model: .onnx, .onnx.gz, PyTorch's .pt2 or .fx.json, JAX as StableHLO text (.mlir), "
    "MindSpore's .mindir, a Hugging Face config.json, or a name that `planner sizes --list` "
    "prints. Its weights are not needed."
)
Model: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help=_MODEL_HELP)]
OptionalModel: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="MODEL", help=_MODEL_HELP, show_default=False),
]
Operators: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--operators",
        help="Print what is known of each kind of operator, of the model or, without one, of all "
        "that ONNX has.",
    ),
]
Devices: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--devices",
        metavar="N",
        help="How many devices the job takes, over all servers.",
        show_default="all of the file, if the machine is a file that says",
    ),
]
Product: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--product",
        metavar="910A|910B|910C/A3",
        help="Of which product the servers of a rank table are.",
        show_default="inferred from version, super pods and device ids",
    ),
]
ClusterName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="NAME|FILE",
        help="The machine: a cluster or a chip that `planner topology list` prints, another name "
        "of one such as h100, a cluster file (YAML), or a rank table (JSON).",
    ),
]
Bind: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--bind",
        metavar="NAME=N|A..B/D",
        help="Sizes of dynamic dimensions, such as batch=32,seq=4096; or a range of them, such as "
        "batch=16..64/16 (16 to 64 in steps of 16): the plan then fits every size and is priced at "
        "the largest. MindSpore's 'batch=Symbol(divisor=8)' is of one rank. May be repeated.",
    ),
]
Batch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        help="Samples of a step, in place of those that the model was exported with. A training "
        "batch that does not fit as one is split into micro-batches.",
        show_default="the model's",
    ),
]
SequenceLength: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--sequence",
        metavar="N",
        help="Tokens in a sequence, for a model given by its sizes. The same as --bind sequence=N.",
        show_default="as many as it has positions, 4096 at most",
    ),
]
Phase: TypeAlias = Annotated[
    str,
    typer.Option(
        "--phase",
        metavar="train|infer",
        help="train derives the backward pass and the update; infer plans the forward pass.",
    ),
]
OptimizerName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--optimizer",
        metavar="|".join(texts.OPTIMIZERS),
        help="What keeps state for every parameter in training. In bf16 a parameter takes 16 bytes "
        "with Adam and LAMB, 12 with Muon (matrices), momentum and Adagrad, 8 with Adafactor and "
        "SGD.",
    ),
]
Dtype: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="bf16|fp16|fp32",
        help="Element type to compute in.",
        show_default="the model's",
    ),
]
Memory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory that one device may fill, such as 60GiB.",
        show_default="the chip's, less the cluster's reserve",
    ),
]
DatasetStrategy: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dataset-strategy",
        metavar="TEXT",
        help="How the inputs arrive: data_parallel, full_batch, or cuts for every input, such as "
        "'((8,1),(8,1))'.",
        show_default="data_parallel in training, full_batch in inference",
    ),
]
Target: TypeAlias = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="mindspore|jax|torch|generic",
        help="What applies the plan: decides which splits there are and which files are written.",
    ),
]
Solver: TypeAlias = Annotated[
    str,
    typer.Option(
        "--solver",
        metavar="NAME",
        help="Who decides: portfolio, dynamic_programming, ilp, local_search, lagrangian, "
        "recursive_bisection (at once, at any width), propagation (from the pins), "
        "mindspore_propagation (in MindSpore's order), "
        "mindspore_elimination (MindSpore's dynamic programming), recursive_programming "
        "(MindSpore's choice of that name) or exhaustive.",
    ),
]
TimeLimit: TypeAlias = Annotated[
    float,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="Emergency brake of the whole command, the look for what would fit included. An "
        "answer that it cut short says so.",
    ),
]
Effort: TypeAlias = Annotated[
    int,
    typer.Option(
        "--effort",
        metavar="E",
        help="Work to spend, 1 or more. The same effort gives the same plan on any machine.",
    ),
]
Attention: TypeAlias = Annotated[
    str,
    typer.Option(
        "--attention",
        metavar="fused|decomposed",
        help="fused prices attention as one kernel, decomposed as it stands in the file.",
    ),
]
AllToAll: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--all-to-all/--no-all-to-all",
        help="Whether MindSpore may exchange slices: AutoParallel does, set_auto_parallel_context "
        "does with enable_alltoall=True. Otherwise it gathers and cuts again.",
    ),
]
CutPositions: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--cut-positions/--no-cut-positions",
        help="Whether convolutions and pooling may be cut along the positions of their images, so "
        "that neighbours send each other edges. A pin or a dataset strategy that cuts them allows "
        "it too.",
    ),
]
Rule: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="KIND:RULE",
        help="What may be split in operators that the catalogue lacks, such as "
        "'custom::Twist: b s h -> b s h'. May be repeated.",
        show_default=False,
    ),
]
Rules: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        metavar="FILE",
        help="A file of such rules, one on each line; # begins a comment.",
        show_default=False,
    ),
]
Pin: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--pin",
        metavar="NAME=CUTS",
        help="Cuts of an operator's inputs that the plan must keep, as in MindSpore's in_strategy, "
        "such as 'model.layers.*.mlp.up_proj=((16,1,1),(1,1))'. NAME is a name or a scope, with "
        "wildcards, and may have the operator's kind before it. 'NAME->=((16,1,1),)' holds those "
        "that read its result, as MindSpore's out_strategy. May be repeated.",
        show_default=False,
    ),
]
Rest: TypeAlias = Annotated[
    str,
    typer.Option(
        "--rest",
        metavar="semi-auto|auto|propagation",
        help="Operators that are given nothing, by a pin or a file: split by batch as in "
        "MindSpore's semi-automatic mode, searched, or as their neighbours are.",
    ),
]
Shard: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--shard",
        metavar="FILE",
        help="Calls of MindSpore's shard(fn, in_strategy, ...) on cells and functions, YAML or "
        "JSON: what MindSpore would refuse is an error, the rest is data parallel.",
        show_default=False,
    ),
]
Cost: TypeAlias = Annotated[
    str,
    typer.Option(
        "--cost",
        metavar="time|mindspore|communication|memory",
        help="What is minimised: the time of a step, or the cost that MindSpore's own searches "
        "minimise, to repeat and compare their choices. The times printed are the planner's. With "
        "--global-batch the layouts inside every stage follow mindspore and communication.",
    ),
]
OutputFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Folder for plan.json and the target's strategy files. Without it nothing is written.",
        show_default=False,
    ),
]
OutputFile: TypeAlias = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="FILE", help="The file to write; its suffix chooses the form."
    ),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")
]
PlanPath: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="PLAN.json", help="A plan.json that `planner search -o DIR` wrote."),
]
OtherPlanPath: TypeAlias = Annotated[
    Path, typer.Argument(metavar="OTHER.json", help="The plan to compare it with.")
]
OperatorName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--op",
        metavar="NAME",
        help="Print this operator alone: its name, or its scope where that names one operator.",
        show_default=False,
    ),
]
HtmlFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write the report with plots too.", show_default=False
    ),
]
EXPORT_FORMATS = (
    "mindspore", "mindspore-apply", "mindspore-operators", "mindspore-groups", "jax", "torch",
    "megatron", "mindspore-script", "launch", "msjob", "parameter-server", "table", "html",
)  # fmt: skip
"""As in `exporters.formats`, whose import takes too long for a help text."""
Format: TypeAlias = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"What to write: {', '.join(EXPORT_FORMATS)}.",
    ),
]
ExportSettings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="What the files need to know and the plan does not say, for mindspore-script, launch, "
        "msjob and parameter-server; docs/mindspore.md lists the names. May be repeated.",
        show_default=False,
    ),
]
NamesSource: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--names",
        metavar="NETWORK|FILE",
        help="What MindSpore's network calls the parameters: llama, gpt2, bert or resnet as "
        "MindFormers has them, or a YAML or JSON file of patterns.",
        show_default="the model's names",
    ),
]
