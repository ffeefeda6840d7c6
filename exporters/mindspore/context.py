"""The context of a MindSpore run: what a plan and its user say, checked by MindSpore's own rules.

Source of the rules: MindSpore 2.10.0, `context.py` (set_auto_parallel_context) and
`parallel/auto_parallel.py` (AutoParallel); of those on devices and stages `device_manager.cc`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from exporters.errors import ExportError
from exporters.mindspore.checkpoint import input_cuts, optimizer_shard_size, strategy_checkpoint
from exporters.mindspore.fusion import Fusion, message_bytes, parse_fusions
from exporters.mindspore.search_words import (
    LATEST,
    OLDER,
    WITH_AUTO_PARALLEL,
    Release,
    in_todays_words,
    release_of,
    search_parameters,
)
from exporters.mindspore.stages import PLANNED, scheme_losses
from exporters.mindspore.symbols import planned_symbols
from exporters.settings import Setting, Settings, fault
from ir.plan import Plan
from ir.violations import Violation

__all__ = ["MODES", "SETTINGS", "Context", "context_of", "sub_groups"]

Cuts: TypeAlias = tuple[tuple[int, ...], ...]

_SEARCHES = ("sharding_propagation", "recursive_programming", "dynamic_programming")
_OTHERS = ("data_parallel", "hybrid_parallel", "stand_alone")
MODES = ("semi_auto", *_SEARCHES, *_OTHERS)
NEW_MODES = ("semi_auto", "sharding_propagation", "recursive_programming")
"""Those that `AutoParallel` has, and that take pipelines."""
SCHEDULERS = ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v")
_MOST_STAGES = 4096
_TUPLES = re.compile(r"[\d,()\s]*")

SETTINGS = (
    Setting("mode", "semi_auto|...", "or a search (sharding_propagation, recursive_programming, "
            "dynamic_programming), data_parallel, hybrid_parallel, stand_alone"),
    Setting("parallel_mode", "auto_parallel|...", "the same in MindSpore's words"),
    Setting("search_mode", "sharding_propagation|...", "the search of auto_parallel"),
    Setting("dataset_strategy", "plan|full_batch|data_parallel|CUTS", "how the inputs arrive"),
    Setting("labels", "CUTS", "cuts of inputs behind those of the model, such as ((8,),)"),
    Setting("label_types", "int32[,float32...]", "their element types, int32 by default"),
    Setting("comm_fusion", "KIND=MODE[;...]|off", "allreduce=auto, allreduce=size:32, "
            "allreduce=index:20,35 or allreduce=index, which finds the indices"),
    Setting("parameter_broadcast", "true|false", "rank 0 sends its parameters first"),
    Setting("gradients_mean", "true|false", "the mean of the gradients and not their sum"),
    Setting("enable_parallel_optimizer", "plan|true|false", "the optimizer shares the weights"),
    Setting("pipeline_stages", "N", "stages of a pipeline, which the network itself assigns"),
    Setting("pipeline_scheduler", "1f1b|gpipe|...", "order of the micro-batches"),
    Setting("strategy_file", "NAME|none", "the strategy checkpoint in the script's folder"),
    Setting("device", "Ascend|GPU|CPU", "where the network runs"),
    Setting("max_device_memory", "SIZE", "such as 28GB; what is left is for communicators"),
    *OLDER,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that MindSpore is told before it compiles the network."""

    mode: str
    devices: int
    dataset_strategy: str | Cuts
    fusions: tuple[Fusion, ...] | None
    """None switches fusion off; none at all leaves it to MindSpore."""
    parameter_broadcast: bool
    gradients_mean: bool
    shard_size: int
    """Among how many devices the optimizer shares a weight: 0 is none, -1 all that hold copies."""
    pipeline_stages: int
    pipeline_scheduler: str
    all_to_all: bool
    strategy_file: str
    device: str
    max_device_memory: str
    symbols: tuple[str, ...]
    """Names of the dimensions that are dynamic."""
    labels: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Inputs behind those of the model: the element type of each, and its cuts."""
    search_parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Arguments of `set_algo_parameters`."""
    release: Release = LATEST
    notes: tuple[str, ...] = ()

    @property
    def has_new_interface(self) -> bool:
        """Whether `AutoParallel` is there, and has the mode."""
        return self.mode in NEW_MODES and self.release >= WITH_AUTO_PARALLEL

    @property
    def search_mode(self) -> str:
        """Empty but for automatic parallelism."""
        return self.mode if self.mode in _SEARCHES else ""

    @property
    def interleaves(self) -> bool:
        """Whether stages hold several chunks: MindSpore wants it of every scheduler but 1f1b."""
        return self.pipeline_scheduler != "1f1b"

    @property
    def parallel_mode(self) -> str:
        """As `set_auto_parallel_context` names it."""
        if self.mode == "semi_auto":
            return "semi_auto_parallel"
        return "auto_parallel" if self.search_mode else self.mode


def context_of(plan: Plan, settings: Settings) -> Context:
    """The context for a plan.

    Raises:
        ExportError: MindSpore cannot express the plan, or refuses what was set.
    """
    settings = in_todays_words(settings)
    mode = _mode(settings)
    trains = plan.trains
    made = Context(
        mode=mode,
        devices=plan.devices,
        dataset_strategy=_dataset_strategy(plan, settings),
        fusions=parse_fusions(settings.text("comm_fusion", ""), plan)
        if settings.has("comm_fusion") else (),
        parameter_broadcast=settings.flag("parameter_broadcast", default=False),
        gradients_mean=settings.flag("gradients_mean", default=trains and mode != "stand_alone"),
        shard_size=_shard_size(plan, settings, mode),
        pipeline_stages=_stages(plan, settings),
        pipeline_scheduler=settings.choice(
            "pipeline_scheduler", SCHEDULERS, PLANNED.get(plan.pipeline.schedule, "1f1b")
        ),
        all_to_all=plan.request.get("all_to_all") is not False,
        strategy_file=_strategy_file(settings, mode),
        device=settings.choice("device", ("Ascend", "GPU", "CPU"), "Ascend"),
        max_device_memory=_memory(settings),
        symbols=tuple(sorted(planned_symbols(plan))),
        labels=_labels(settings),
        search_parameters=_parameters(plan, settings, mode),
        release=release_of(settings),
    )  # fmt: skip
    violations = tuple(_violations(made))
    if violations:
        raise ExportError(*violations)
    return replace(made, notes=tuple(_notes(made, plan)))


def _parameters(plan: Plan, settings: Settings, mode: str) -> dict[str, object]:
    """Those of a search; the others take none."""
    if mode not in _SEARCHES:
        if settings.has("algo_parameters"):
            what = f"the mode {mode} takes none: they are of a search"
            raise fault(what, "algo_parameters", f"give mode={' or '.join(_SEARCHES)}")
        return {}
    whole = plan.request.get("fully_use_devices") is True
    return search_parameters(settings, whole_devices=whole)


def _stages(plan: Plan, settings: Settings) -> int:
    """Those of the plan, or for a plan without any those that the network assigns itself."""
    if plan.pipeline.is_single:
        return settings.number("pipeline_stages", 1, 1, _MOST_STAGES)
    parts = plan.pipeline.parts
    if settings.number("pipeline_stages", parts, 1, _MOST_STAGES) != parts:
        what = f"the plan has {parts} stages"
        raise fault(what, "pipeline_stages", "leave it out, or plan with --pipeline")
    return parts


def sub_groups(plan: Plan) -> tuple[str, ...]:
    """Groups of a plan that are not the world, each by its mesh axes and size."""
    found = {
        (item.axes, item.group_size): f"{'*'.join(item.axes)} of {item.group_size} ranks"
        for item in plan.collectives
        if 1 < item.group_size < plan.devices
    }
    return tuple(found[key] for key in sorted(found))


def _dataset_strategy(plan: Plan, settings: Settings) -> str | Cuts:
    text = settings.text("dataset_strategy", "plan")
    labels = tuple(cuts for _, cuts in _labels(settings))
    if text in {"full_batch", "data_parallel"}:
        return text
    found = input_cuts(plan) if text == "plan" else _cuts(text, "dataset_strategy")
    _check_cuts(found, plan)
    for each in (*found, *labels):
        if plan.devices % math.prod(each):
            what = f"{each} takes {math.prod(each)} parts, which do not divide {plan.devices}"
            raise fault(what, "dataset_strategy", "give parts that divide the devices")
    return (*found, *labels)


def _labels(settings: Settings) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The element type and the cuts of each input behind those of the model."""
    cuts = _cuts(settings.text("labels", ""), "labels") if settings.has("labels") else ()
    types = re.findall(r"[^\s,]+", settings.text("label_types", "")) or ["int32"] * len(cuts)
    if len(types) != len(cuts) or not all(re.fullmatch(r"[a-z]+\d*", each) for each in types):
        what = f"{', '.join(types)[:80]!r} are no element types of {len(cuts)} labels"
        raise fault(what, "label_types", "give one for each of --set labels, such as int32")
    return tuple(zip(types, cuts, strict=True))


def _check_cuts(cuts: Cuts, plan: Plan) -> None:
    """Whether cuts are such of the model's inputs; for plans that they are is known."""
    dims = [plan.graph.tensors[name].dims for name in plan.graph.inputs]
    if len(cuts) > len(dims) or any(len(a) != len(b) for a, b in zip(cuts, dims, strict=False)):
        shown = ", ".join(str(each) for each in dims)
        what = f"{cuts} are no cuts of the inputs, whose dimensions are {shown}"
        raise fault(what, "dataset_strategy", "give one number for each dimension of each input")
    for own, sizes in zip(cuts, dims, strict=False):
        for cut, size in zip(own, sizes, strict=True):
            if size % cut:
                what = f"a dimension of {size} does not split {cut} ways"
                raise fault(what, "dataset_strategy", "give divisors of the dimensions")


def _cuts(text: str, name: str) -> Cuts:
    fix = "write such as ((8,1),(8,))"
    if not _TUPLES.fullmatch(text):
        raise fault(f"{text[:80]!r} are no cuts", name, fix)
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise fault(f"{text[:80]!r} are no cuts", name, fix) from error
    rows = value if isinstance(value, tuple) else ()
    fine = all(
        isinstance(row, tuple) and all(type(c) is int and c > 0 for c in row) for row in rows
    )
    if not rows or not fine:
        raise fault(f"{text[:80]!r} are no cuts", name, fix)
    return tuple(rows)


_PARALLEL_MODES = {"semi_auto_parallel": "semi_auto", "auto_parallel": "recursive_programming"}
"""MindSpore's words that are not ours; its search is that one unless `search_mode` says otherwise.
"""


def _mode(settings: Settings) -> str:
    """The mode, or what MindSpore's own `parallel_mode` and `search_mode` say of it."""
    names = [n for n in ("mode", "parallel_mode", "search_mode") if settings.has(n)]
    if "search_mode" in names:
        search = settings.choice("search_mode", _SEARCHES, "")
        other = settings.text("parallel_mode", settings.text("mode", "auto_parallel"))
        if other not in {"auto_parallel", search}:
            what = f"{other} takes no search_mode"
            raise fault(what, "search_mode", "leave it out, or give parallel_mode=auto_parallel")
        return search
    if len(names) > 1:
        raise fault("the mode is given twice", "parallel_mode", "leave one of them out")
    if names == ["parallel_mode"]:
        known = (*_OTHERS, *_PARALLEL_MODES)
        word = settings.choice("parallel_mode", known, "")
        return _PARALLEL_MODES.get(word, word)
    return settings.choice("mode", MODES, "semi_auto")


def _shard_size(plan: Plan, settings: Settings, mode: str) -> int:
    """-1 where several sizes are wanted: MindSpore takes one."""
    choice = settings.choice("enable_parallel_optimizer", ("plan", "true", "false"), "plan")
    if choice != "plan":
        return -1 if choice == "true" else 0
    if mode in _OTHERS:
        return 0
    size = optimizer_shard_size(strategy_checkpoint(plan).layouts)
    return -1 if size is None else size


def _strategy_file(settings: Settings, mode: str) -> str:
    takes = mode in {"semi_auto", "sharding_propagation", "dynamic_programming"}
    name = settings.text("strategy_file", "strategy.ckpt" if takes else "none")
    return "" if name == "none" else name


def _memory(settings: Settings) -> str:
    text = settings.text("max_device_memory", "")
    if text and not re.fullmatch(r"[1-9]\d{0,4}(\.\d{1,3})?GB", text, re.ASCII):
        raise fault(f"{text[:80]!r} is no size", "max_device_memory", "write such as 28GB")
    return text


def _violations(made: Context) -> Iterator[Violation]:
    stages, mode = made.pipeline_stages, made.mode
    if stages > 1 and mode not in NEW_MODES:
        yield Violation(f"no pipeline in the mode {mode}", "--set pipeline_stages",
                        f"use {' or '.join(NEW_MODES)}")  # fmt: skip
    if made.devices % stages:
        yield Violation(f"{stages} stages do not divide {made.devices} devices",
                        "--set pipeline_stages", "give a divisor")  # fmt: skip
    if made.pipeline_scheduler == "seqsmartvpp" and stages % 2:
        yield Violation("seqsmartvpp takes an even number of stages", "--set pipeline_scheduler",
                        "give an even number, or another scheduler")  # fmt: skip
    if mode == "recursive_programming" and made.devices & (made.devices - 1):
        yield Violation(f"recursive programming takes a power of two, not {made.devices} devices",
                        "--set mode", "use semi_auto, or plan for other devices")  # fmt: skip
    if made.symbols and mode == "sharding_propagation":
        yield Violation("sharding propagation takes no dynamic shapes", "--set mode",
                        "use semi_auto, or bind the dimensions to one size")  # fmt: skip
    if mode == "stand_alone" and (made.gradients_mean or made.parameter_broadcast):
        yield Violation("one device averages no gradients and sends no parameters", "--set mode",
                        "give gradients_mean=false and no parameter_broadcast")  # fmt: skip


def _notes(made: Context, plan: Plan) -> Iterator[str]:
    if made.mode == "recursive_programming":
        yield "recursive programming reads no strategy file: it chooses splits of its own"
    elif made.mode in _OTHERS:
        yield f"the mode {made.mode} applies no splits of the plan"
    if made.release < WITH_AUTO_PARALLEL:
        yield "AutoParallel is there from 2.5 on: the script has the old interface alone"
    elif made.mode not in NEW_MODES:
        yield f"AutoParallel has no mode {made.mode}: the script has the old interface alone"
    yield from scheme_losses(plan)
    if plan.pipeline.is_single and made.pipeline_stages > 1:
        yield "the plan is of one stage; the network assigns cells to stages"
    if made.parameter_broadcast and made.mode not in _OTHERS:
        yield "parameters that are split, and all of them in some releases, are not sent by rank 0"
    yield from _fusion_notes(made, plan)
    if not isinstance(made.dataset_strategy, str):
        yield from _dataset_notes(made.dataset_strategy)
    if made.symbols:
        yield (
            f"{', '.join(made.symbols)} is dynamic: MindSpore runs such graphs kernel by kernel "
            "only, so set jit_level O0 and do not sink the dataset"
        )


def _fusion_notes(made: Context, plan: Plan) -> Iterator[str]:
    index = any(each.mode == "index" for each in made.fusions or ())
    if index and sub_groups(plan):
        yield "fusion by index is for all-reduces of the world group; the plan has smaller groups"
    for each in made.fusions or ():
        alone, fused = message_bytes(plan, each)
        if alone:
            yield (
                f"{each.kind}: {len(alone)} collectives of parameters become {len(fused)}, of "
                f"{max(fused) / 2**20:.4g} MiB at most"
            )


def _dataset_notes(cuts: Cuts) -> Iterator[str]:
    """Source: MindSpore's tutorial on dataset slicing."""
    several = [str(own) for own in cuts if sum(cut > 1 for cut in own) > 1]
    if several:
        yield (
            f"{', '.join(several)} split more than one dimension of an input, which MindSpore's "
            "documents do not allow for a dataset"
        )
    most = max(cuts, key=len, default=())
    larger = [str(own) for own in cuts if math.prod(own) > math.prod(most)]
    if larger:
        yield (
            f"{', '.join(larger)} have more parts than {most}, the input of most dimensions, "
            "which MindSpore's documents do not allow"
        )
