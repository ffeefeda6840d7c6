"""The options of a search, in the forms that they have on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from planner.requests.option_texts import (
    ATTENTION,
    DTYPES,
    MAX_DEVICES,
    OPTIMIZERS,
    PHASES,
    TARGETS,
)
from planner.requests.options.option import CALIBRATION, Group, Option
from planner.requests.sources import Document

_SEARCH = ("search",)
_PLANS = ("search", "import-strategy")
_MACHINES = ("search", "import-strategy", "whatif")
_MODELS = ("search", "import-strategy", "whatif", "inspect")
_SOLVERS = (
    "portfolio", "dynamic_programming", "ilp", "local_search", "lagrangian", "recursive_bisection",
    "propagation", "mindspore_propagation", "mindspore_elimination", "exhaustive",
    "recursive_programming",
)  # fmt: skip
"""Of `planner.solvers` and MindSpore's own, which are slow to import."""
SOFTWARE = (
    "auto", "generic", "fsdp", "maxtext", "megatron", "megatron-core", "mindformers", "mindspeed",
    "mindspore", "pytorch", "torchtitan",
)  # fmt: skip
"""Of `costmodel.software`, whose file is not read for an option's help."""
FROM_ONE_BATCH = ("promising", "needed")
"""Of `planner.request`: values of `--pipeline` by which a batch is planned as one piece first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """All options of a search but the model; `planner search --help` explains each."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A name that is no option is an error where a service reads them."""

    # fmt: off
    sequence: Annotated[int | None, Option(
        group=Group.MODEL, value="N", unit="tokens", first=True, commands=(*_MODELS, "sizes"),
        least=1, usual="as many as it has positions, 4096 at most",
        help="Tokens in a sequence, for a model given by its sizes. The same as --bind sequence=N.",
    )] = None
    bind: Annotated[tuple[str, ...], Option(
        group=Group.MODEL, value="NAME=N|A..B/D", commands=_MODELS,
        help="Sizes of dynamic dimensions, such as batch=32,seq=4096; or a range, such as "
        "batch=16..64/16 (16 to 64 in steps of 16): the plan then fits every size and is priced at "
        "the largest. MindSpore's 'batch=Symbol(divisor=8)' is of one rank. May be repeated.",
    )] = ()
    phase: Annotated[str, Option(
        group=Group.MODEL, choices=PHASES, noun="phase", commands=_MACHINES,
        help="train derives the backward pass and the update; infer plans the forward pass.",
    )] = "train"
    dtype: Annotated[str | None, Option(
        group=Group.MODEL, choices=DTYPES, noun="element type", usual="the model's",
        commands=(*_MACHINES, "sizes"), help="Element type to compute in.",
    )] = None
    optimizer: Annotated[str, Option(
        group=Group.MODEL, choices=OPTIMIZERS, noun="optimizer", commands=_MACHINES,
        help="Optimizer of training. In bf16 a parameter, its gradient and optimizer state take 16 "
        "bytes with Adam and LAMB, 12 with Muon (matrices), momentum and Adagrad, 8 with Adafactor "
        "and SGD.",
    )] = "adamw"
    attention: Annotated[str, Option(
        group=Group.MODEL, choices=ATTENTION, noun="form of attention",
        commands=("search", "whatif"),
        help="fused prices attention as one kernel (flash attention), decomposed as the operators "
        "of the file.",
    )] = "fused"
    cut_positions: Annotated[bool, Option(
        group=Group.MODEL, flags=("--cut-positions/--no-cut-positions",), commands=_SEARCH,
        help="Whether convolutions and pooling may be split along height and width, with a halo "
        "exchange of neighbours. A pin or a dataset strategy that splits them allows it too.",
    )] = False
    rule: Annotated[tuple[str, ...], Option(
        group=Group.MODEL, value="KIND:RULE", commands=("search", "inspect"),
        help="Sharding rule of an operator that the catalogue lacks, such as "
        "'custom::Twist: b s h -> b s h'. May be repeated.",
    )] = ()
    rules: Annotated[Document | None, Option(
        group=Group.MODEL, value="FILE", commands=("search", "inspect"), most_bytes=2**20,
        file="name a text file with a rule on each line",
        help="A file of such rules, one on each line; # begins a comment.",
    )] = None

    devices: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", unit="devices", first=True, commands=_PLANS, least=1,
        most=MAX_DEVICES,
        usual="all of the file, if the machine is a file that says",
        help="How many devices the job takes, over all servers.",
    )] = None
    cluster: Annotated[str, Option(
        group=Group.MACHINE, value="NAME|FILE", first=True, commands=(*_PLANS, "links", "profile"),
        help="The machine: a cluster or a chip that `planner topology list` prints, another name "
        "of one such as h100, a cluster file (YAML), or a rank table (JSON).",
    )] = "atlas-800t-a2"
    memory: Annotated[str | None, Option(
        group=Group.MACHINE, value="SIZE", commands=_MACHINES,
        usual="the chip's, less the cluster's reserve",
        help="Memory that one device may fill, such as 60GiB.",
    )] = None
    product: Annotated[str | None, Option(
        group=Group.MACHINE, value="910A|910B|910C/A3", commands=_PLANS,
        usual="inferred from version, super pods and device ids",
        help="Of which product the servers of a rank table are.",
    )] = None

    batch: Annotated[int | None, Option(
        group=Group.BATCH, value="N", unit="samples", first=True, commands=_MODELS, least=1,
        usual="the model's",
        help="Samples of a step, in place of those that the model was exported with. A training "
        "batch may be cut into micro-batches and pipeline stages: see --pipeline.",
    )] = None
    global_batch: Annotated[int | None, Option(
        group=Group.BATCH, value="N", unit="samples", commands=_SEARCH, least=1,
        help="The same as --batch N --pipeline auto.",
    )] = None
    micro_batch: Annotated[str, Option(
        group=Group.BATCH, value="auto|M", unit="samples", commands=("search", "whatif"),
        help="Samples of a micro-batch over all devices of a stage.",
        choices=("auto",), counts=True,
    )] = "auto"
    recompute: Annotated[str, Option(
        group=Group.BATCH, choices=("auto", "none", "selective", "full"), noun="way",
        commands=_SEARCH,
        help="Activation recomputation: none, selective (single operators), full (whole blocks), "
        "or what is best for each block (auto).",
    )] = "auto"
    zero: Annotated[str, Option(
        group=Group.BATCH, choices=("auto", "0", "1", "2", "3"), noun="stage of ZeRO", first=True,
        commands=_SEARCH,
        help="ZeRO stage of every replicated parameter: 1 shards its optimizer state, 2 its "
        "gradient too, 3 the parameter itself.",
    )] = "auto"
    offload: Annotated[str, Option(
        group=Group.BATCH, choices=("auto", "on", "off"), commands=_SEARCH,
        help="Optimizer offload: state in host memory, copied to the device for the update, of no "
        "parameter (off), of all (on), or where that is best (auto).",
    )] = "off"

    tp: Annotated[int | None, Option(
        group=Group.SEARCH, value="N", first=True, commands=_SEARCH, least=1, usual="what is best",
        help="Tensor parallel degree to hold: weights of matrix products are split so many ways.",
    )] = None
    pipeline: Annotated[str | None, Option(
        group=Group.SEARCH, value="promising|needed|auto|off|N", first=True,
        commands=("search", "whatif"), flags=("--pipeline", "--pp"), usual="promising",
        help="Pipeline stages: where nothing fits without them (needed), there and where a bound "
        "promises 3 % (promising), compared with all else from the start (auto), none (off), or so "
        "many. Micro-batches are decided with them.",
        choices=(*FROM_ONE_BATCH, "auto", "off"), counts=True,
    )] = None
    dp: Annotated[int | None, Option(
        group=Group.SEARCH, value="N", first=True, commands=_SEARCH, least=1, usual="what is best",
        help="Data parallel degree to hold: every operator splits the batch so many ways.",
    )] = None
    ep: Annotated[int | None, Option(
        group=Group.SEARCH, value="N", commands=_SEARCH, least=1,
        help="Expert parallel degree to hold: routed experts are spread over so many devices of a "
        "stage, which share the other degrees too.",
    )] = None
    context_parallel: Annotated[str, Option(
        group=Group.SEARCH, value="auto|off|N", commands=_SEARCH,
        flags=("--context-parallel", "--cp"),
        help="Context parallel degree: attention splits the tokens of its queries so many ways and "
        "gathers keys and values; off is 1.",
        choices=("auto", "off"), counts=True,
    )] = "auto"
    sequence_parallel: Annotated[str, Option(
        group=Group.SEARCH, choices=("auto", "on", "off"), commands=_SEARCH,
        help="Sequence parallelism: activations split along their tokens wherever operators would "
        "be replicated otherwise (on), nowhere (off), or where that is best (auto).",
    )] = "auto"
    ring_attention: Annotated[str, Option(
        group=Group.SEARCH, choices=("auto", "off"), commands=_SEARCH,
        help="Ring attention: keys and values are passed around while attention computes, where "
        "that is faster than to gather them.",
    )] = "off"
    interleave: Annotated[str, Option(
        group=Group.SEARCH, value="auto|V", commands=_SEARCH,
        help="Virtual pipeline stages (VPP): model chunks per pipeline rank, interleaved schedule.",
        choices=("auto",), counts=True,
    )] = "auto"
    stage_meshes: Annotated[str, Option(
        group=Group.SEARCH, choices=("equal", "any"), commands=_SEARCH,
        help="Devices of the pipeline stages: as many for each (equal), or of any size down to a "
        "sixteenth of the machine (any), which no framework's files can express.",
    )] = "equal"
    overlap: Annotated[str, Option(
        group=Group.SEARCH, choices=("auto", "none"), commands=_SEARCH,
        help="auto: parameter gathers and gradient reductions overlap computation, and the step "
        "counts their exposed part; none: a step without overlap.",
    )] = "auto"
    profile: Annotated[str, Option(
        group=Group.TARGET, value="auto|NAME", choices=SOFTWARE, noun="software profile",
        commands=("search", "whatif"),
        help="Software profile: how much longer kernels take in a step than alone, how much "
        "communication is exposed, and host overhead. auto takes that of the target on the "
        "machine; generic counts none of it; others are " + ", ".join(SOFTWARE[2:]) + ".",
    )] = "auto"
    calibration: Annotated[Document | None, CALIBRATION] = None
    solver: Annotated[str, Option(
        group=Group.SEARCH, value="NAME", choices=_SOLVERS, noun="solver",
        commands=("search", "whatif"),
        help="Solver: portfolio, dynamic_programming, ilp, local_search, lagrangian, "
        "recursive_bisection (at once, at any width), propagation (from the pins), "
        "mindspore_propagation (in MindSpore's order), "
        "mindspore_elimination (MindSpore's dynamic programming), recursive_programming "
        "(MindSpore's choice of that name) or exhaustive.",
    )] = "portfolio"
    time_limit: Annotated[float, Option(
        group=Group.SEARCH, value="SECONDS", unit="seconds", commands=_MACHINES,
        help="Wall-clock limit of the whole command; an answer that it cut short says so.",
    )] = 30.0
    effort: Annotated[int, Option(
        group=Group.SEARCH, value="E", commands=("search", "whatif"), least=1,
        help="Search effort, 1 or more. The same effort gives the same plan on any machine.",
    )] = 1
    cost: Annotated[str, Option(
        group=Group.SEARCH, choices=("time", "mindspore", "communication", "memory"), noun="cost",
        commands=_SEARCH,
        help="Objective: the time of a step; the cost that MindSpore's own searches minimise, to "
        "repeat their choices; bytes of communication; or peak memory. The times printed are the "
        "planner's. With stages, mindspore and communication decide the layouts inside each.",
    )] = "time"
    pin: Annotated[tuple[str, ...], Option(
        group=Group.SEARCH, value="NAME=CUTS", commands=_SEARCH,
        help="Split of an operator's inputs that the plan must keep, as MindSpore's in_strategy, "
        "such as 'model.layers.*.mlp.up_proj=((16,1,1),(1,1))'. NAME is a name or a scope, with "
        "wildcards, and may have the operator's kind before it. 'NAME->=((16,1,1),)' holds those "
        "that read its result, as MindSpore's out_strategy. May be repeated.",
    )] = ()
    rest: Annotated[str, Option(
        group=Group.SEARCH, choices=("semi-auto", "auto", "propagation"), noun="way",
        commands=_SEARCH,
        help="Operators without a pin: split by batch as in MindSpore's semi-automatic mode, "
        "searched (auto), or as their neighbours are (propagation).",
    )] = "auto"
    keep_close_to: Annotated[Document | None, Option(
        group=Group.SEARCH, value="FILE", commands=_SEARCH, file="name a plan.json",
        help="An older plan.json that should change little, such as --keep-close-to plan.json "
        "--max-changes 5.",
    )] = None
    max_changes: Annotated[int | None, Option(
        group=Group.SEARCH, value="K", unit="operators", commands=_SEARCH,
        help="With --keep-close-to: operators whose split may change; with stages also operators "
        "that may go to another pipeline rank.",
    )] = None

    target: Annotated[str, Option(
        group=Group.TARGET, choices=TARGETS, noun="target",
        first=True, commands=("search", "whatif"),
        help="Framework that applies the plan: decides which splits there are and which files are "
        "written.",
    )] = TARGETS[0]
    dataset_strategy: Annotated[str | None, Option(
        group=Group.TARGET, value="TEXT", commands=_MACHINES,
        usual="data_parallel in training, full_batch in inference",
        help="How the inputs arrive: data_parallel, full_batch, or cuts for every input, such as "
        "'((8,1),(8,1))'.",
    )] = None
    all_to_all: Annotated[bool, Option(
        group=Group.TARGET, flags=("--all-to-all/--no-all-to-all",), commands=_PLANS,
        help="Whether MindSpore may redistribute with all-to-all: AutoParallel does, "
        "set_auto_parallel_context does with enable_alltoall=True. Otherwise it gathers and "
        "slices.",
    )] = True
    shard: Annotated[Document | None, Option(
        group=Group.TARGET, value="FILE", commands=_SEARCH, file="name a YAML or JSON file",
        help="Calls of MindSpore's shard(fn, in_strategy, ...) on cells and functions, YAML or "
        "JSON: what MindSpore would refuse is an error, the rest is data parallel.",
    )] = None

    search_mode: Annotated[str | None, Option(
        group=Group.FRAMEWORK, value="NAME", commands=_SEARCH, noun="search mode",
        choices=("sharding_propagation", "dynamic_programming", "recursive_programming"),
        help="sharding_propagation is --solver propagation; dynamic_programming and "
        "recursive_programming are the solvers of these names.",
    )] = None
    pipeline_stages: Annotated[int | None, Option(
        group=Group.FRAMEWORK, value="N", commands=_SEARCH, least=1,
        help="The same as --pipeline N.",
    )] = None
    gradient_accumulation: Annotated[int | None, Option(
        group=Group.FRAMEWORK, value="K", unit="micro-batches", commands=_SEARCH, least=1,
        help="Micro-batches of a step: --micro-batch N/K of --batch N.",
    )] = None
    enable_parallel_optimizer: Annotated[bool, Option(
        group=Group.FRAMEWORK, commands=_SEARCH,
        help="The same as --zero 1; MindSpore's levels 2 and 3 are --zero 2 and --zero 3.",
    )] = False
    fully_use_devices: Annotated[bool, Option(
        group=Group.FRAMEWORK, flags=("--fully-use-devices/--no-fully-use-devices",),
        commands=_SEARCH, help="Cut an operator over all devices or not at all.",
    )] = False
    run_phase: Annotated[int | None, Option(
        group=Group.FRAMEWORK, value="0|1", commands=_SEARCH, least=0, most=1,
        help="0 is --phase train, 1 is --phase infer.",
    )] = None
    level: Annotated[int | None, Option(
        group=Group.FRAMEWORK, value="0|1|2", commands=_SEARCH, least=0, most=2,
        help="Objective of shard: 0 most computation for each communication, 1 least memory, 2 "
        "most speed, which is the default.",
    )] = None
    # fmt: on
