"""Recipes as training runs, and training runs as the quantities of a recipe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from costmodel.memory import Optimizer
from costmodel.schedules.orders import SCHEDULES
from costmodel.training.machines import machine
from costmodel.training.records import (
    Attention,
    LayoutError,
    Recompute,
    TrainingLayout,
    TrainingModel,
    TrainingRun,
)
from costmodel.training.sizes import expert_parts
from costmodel.training.stacks import software_flags
from costmodel.training.table import RunTable
from ir.recipes.quantities import Quantities, Value
from ir.recipes.recipe import Recipe
from ir.recipes.table import Framework
from planner.requests.conventional_layouts import machine_named
from planner.requests.errors import UserError
from planner.whatif.recipe_models import model_of_recipe, sizes_of_model
from planner.whatif.recipe_stages import (
    chunks_of_parts,
    split_quantities,
    stated_stages,
    usual_ends,
)

__all__ = [
    "RecipeRun", "flags_of", "in_layout", "layout_of_values", "normal",
    "quantities_of",
    "recipe_run", "run_of",
]  # fmt: skip

_FLAGS = {
    "ep_overlap": "ep-overlap", "offload_optimizer": "swap-optimizer",
    "offload_attention": "swap-attention", "reuse_master": "reuse-master",
    "recompute_activation": "recompute-activation", "keeps_attention": "keeps-attention",
    "offloads_inputs": "offloads",
}  # fmt: skip
"""Quantities of recipes that are flags of a run where they are `yes`."""
_NEEDED = {"seq_len": "seq", "micro": "micro", "global_batch": "batch"}
_PRICED = frozenset({"fp32", "fp16", "bf16", "fp8", "mxfp8", "fp4"})


@dataclass(frozen=True, slots=True)
class RecipeRun:
    """A recipe as a run, with what was taken for what it does not say."""

    run: TrainingRun
    extras: frozenset[str]
    """Flags that the recipe sets itself, whatever the layout is."""
    lacking: frozenset[str]
    """Flags of its software that it does without."""
    remarks: tuple[str, ...]


def run_of(recipe: Recipe, model: str, cluster: str) -> RecipeRun:
    """The run that a recipe describes on a machine.

    Args:
        recipe: as it was read.
        model: a config.json or a bundled name; the recipe's own sizes if empty.
        cluster: name of a bundled machine.

    Raises:
        UserError: something is not said that a run needs, or cannot be.
        ModelError: the model's configuration cannot be read.
    """
    known = recipe.quantities.copy()
    found = machine_named(cluster)
    remarks: list[str] = []
    trained, notes = model_of_recipe(known.values(), model)
    remarks += notes
    if any(entry.quantity == "further" for entry in recipe.framework.entries):
        trained = replace(trained, further=int(known.number("further") or 0))
    known.suppose("layers", Fraction(trained.layers), "the model")
    remarks += _sized_up(known)
    layout, more = layout_of_values(known.values(), trained)
    remarks += more
    precision = str(known.values().get("precision", "bf16"))
    if precision not in _PRICED:
        remarks.append(f"products in {precision} are priced as bf16")
        precision = "bf16"
    try:
        found.flops(precision)
    except LayoutError as error:
        raise UserError(str(error), "--cluster", "choose a machine that has the type") from error
    run = TrainingRun(
        trained.name, trained, layout, found.name, recipe.framework.profile, precision=precision,
        attention=Attention(str(known.values().get("attention", "flash"))),
        optimizer=_optimizer(known.values()),
    )  # fmt: skip
    extras, lacking = flags_of(recipe.framework, known.values())
    own = RecipeRun(run, extras, lacking, tuple(remarks))
    return replace(own, run=in_layout(own, layout))


def recipe_run(run: TrainingRun) -> RecipeRun:
    """A run that no recipe describes, as if one did."""
    usual = software_flags(run.profile, run.machine, run.model.name, run.layout)
    return RecipeRun(run, run.flags - usual, usual - run.flags, ())


def in_layout(own: RecipeRun, layout: TrainingLayout) -> TrainingRun:
    """The run of a recipe in another layout."""
    run = own.run
    usual = software_flags(run.profile, run.machine, run.model.name, layout)
    changed = replace(run, layout=layout, flags=(usual - own.lacking) | own.extras)
    return replace(changed, layout=normal(changed))


def flags_of(
    framework: Framework, values: Mapping[str, Value]
) -> tuple[frozenset[str], frozenset[str]]:
    """Flags that a recipe sets itself, and those of its software that it does without."""
    on = {flag for name, flag in _FLAGS.items() if values.get(name) == "yes"}
    if values.get("tp_overlap") == "yes" and framework.profile in {"torchtitan", "mindspeed"}:
        on.add("fused-tp")
    if values.get("overlap") == "yes" and framework.profile == "megatron":
        on.add("overlap")
    if values.get("compiled") == "no":
        on.add("uncompiled")
    if values.get("fused_swiglu") == "no":
        on.add("split-activation")
    off = {"fused-loss"} if values.get("compiled") == "no" else set()
    off |= {"ep-overlap"} if values.get("ep_overlap") == "no" else set()
    return frozenset(on), frozenset(off)


def _optimizer(values: Mapping[str, Value]) -> Optimizer:
    name = str(values.get("optimizer", "adamw"))
    return Optimizer(name) if name in list(Optimizer) else Optimizer.ADAMW


def _sized_up(known: Quantities) -> Iterator[str]:
    """Numbers that nobody says, taken so that the run is the least that can be."""
    if "dp" not in known.known:
        names = ("tp", "cp", "pp", "replicate")
        degrees = {name: known.number(name) or Fraction(1) for name in names}
        least, said = math.prod(degrees.values()), known.number("devices")
        if said is not None:
            shown = " x ".join(f"{name} {size}" for name, size in degrees.items() if size > 1)
            raise UserError(
                f"{said} devices are no multiple of {shown}, the {least} devices of the recipe",
                "--devices", "choose another number",
            )  # fmt: skip
        known.suppose("dp", degrees["replicate"], "the degrees")
        yield f"nothing says the devices: {least} are taken, the least (--devices)"
    known.suppose("accumulation", Fraction(1), "nothing")
    lacking = [key for name, key in _NEEDED.items() if name not in known.known]
    if lacking:
        raise UserError(
            f"nothing says {' and '.join(lacking)}", "--say",
            "say them: --say " + ",".join(f"{key}=..." for key in lacking),
        )  # fmt: skip


def layout_of_values(
    values: Mapping[str, Value], model: TrainingModel
) -> tuple[TrainingLayout, tuple[str, ...]]:
    """The layout that quantities say, and what was taken for what is not priced."""

    def whole(name: str, usual: int) -> int:
        value = values.get(name)
        return int(value) if isinstance(value, Fraction) else usual

    remarks: list[str] = []
    kind, share = _recomputed(values, model.layers)
    pp, vpp = whole("pp", 1), whole("vpp", 0)
    schedule = str(values.get("schedule", ""))
    if schedule and schedule not in SCHEDULES:
        remarks.append(f"the schedule {schedule} is priced as 1F1B, interleaved with chunks")
        schedule = ""
    if not vpp:
        vpp = chunks_of_parts(values, model.layers, pp, usual=2 if schedule == "interleaved" else 1)
    if schedule in {"1f1b", "interleaved"}:
        schedule = ""
    stages, note = stated_stages(values, model.layers, pp, vpp)
    layout = TrainingLayout(
        global_batch=whole("global_batch", 1), micro_batch=whole("micro", 1),
        seq_len=whole("seq_len", 1), tp=whole("tp", 1), pp=pp, vpp=vpp, dp=whole("dp", 1),
        cp=whole("cp", 1), ep=whole("ep", 1), etp=whole("etp", 0) if model.experts else 0,
        zero_stage=whole("zero_stage", 0),
        zero_group=whole("zero_group", 0),
        sequence_parallel=values.get("sequence_parallel") == "yes" and whole("tp", 1) > 1,
        recompute=kind, recompute_share=share, stage_layers=stages, schedule=schedule,
    )  # fmt: skip
    return layout, (*remarks, *([note] if note else []))


def _recomputed(values: Mapping[str, Value], layers: int) -> tuple[Recompute, float]:
    kind = str(values.get("recompute", "none"))
    for name, of in (("selective_stages", "selective"), ("recompute_stages", "full")):
        numbers = values.get(name)
        layers_again = sum(numbers) if isinstance(numbers, tuple) else 0
        if layers_again:
            return Recompute(of), min(1.0, layers_again / layers)
    if kind != "some":
        return Recompute(kind), 1.0
    again = values.get("recompute_layers")
    share = float(again) / layers if isinstance(again, Fraction) else 1.0
    return Recompute.FULL, min(1.0, share)


def normal(run: TrainingRun) -> TrainingLayout:
    """A layout in which nothing is left to the software that can be said, and nothing said that
    has no effect.
    """
    layout, model = run.layout, run.model
    ranks = layout.dp * layout.cp
    stage = layout.zero_stage if ranks > 1 else 0
    group = layout.zero_group if stage and layout.zero_group != ranks else 0
    parts = int(expert_parts(RunTable.of([run]))[0]) if model.experts else 0
    usual = "interleaved" if layout.vpp > 1 else "1f1b"
    stages = layout.stage_layers
    if layout.pp == 1 or (
        stages and (stages[0], stages[-1], max(stages)) == usual_ends(model, layout)
    ):
        stages = ()
    kind, share = layout.recompute, layout.recompute_share
    if kind is Recompute.NONE or not share:
        kind, share = Recompute.NONE, 1.0
    return replace(
        layout,
        zero_stage=stage,
        zero_group=group,
        etp=parts,
        sequence_parallel=layout.sequence_parallel and layout.tp > 1,
        schedule="" if layout.pp == 1 or layout.schedule == usual else layout.schedule,
        stage_layers=stages,
        recompute=kind,
        recompute_share=share,
    )


def quantities_of(run: TrainingRun, overlap: bool = True) -> dict[str, Value]:
    """Everything that a recipe can say of a run."""
    layout, model = normal(run), run.model
    known = Quantities()

    def say(**numbers: int) -> None:
        for name, number in numbers.items():
            known.say(name, Fraction(number), "the layout")

    say(
        tp=layout.tp, cp=layout.cp, pp=layout.pp, dp=layout.dp, vpp=layout.vpp, ep=layout.ep,
        micro=layout.micro_batch, global_batch=layout.global_batch, seq_len=layout.seq_len,
        copies=1, zero_stage=layout.zero_stage, pp_across=1, shard_across=1, replicate_inside=1,
        ep_across=1,
    )  # fmt: skip
    server = machine(run.machine).server
    inside = server if layout.devices % server == 0 else layout.devices
    say(node_devices=min(inside, layout.devices))
    say(**({"rounds": 1} if layout.pp > 1 else {"passes": 1}))
    if model.experts:
        say(etp=layout.etp)
    say(**dict(_sharding(layout)))
    for name, value in sizes_of_model(model).items():
        known.suppose(name, value, "the model")
    words: dict[str, Value] = {
        "sequence_parallel": _yes(layout.sequence_parallel),
        "model": run.model.name,
        "precision": run.precision,
        "optimizer": str(run.optimizer),
        "attention": str(run.attention),
        "schedule": layout.order,
        "overlap": _yes(overlap),
        "gather_overlap": _yes(overlap and layout.zero_stage > 0),
        "tp_overlap": _yes("fused-tp" in run.flags),
        "compiled": _yes("uncompiled" not in run.flags),
        "fused_swiglu": _yes("split-activation" not in run.flags),
        "wrapping": "FSDP" if layout.zero_stage else "DDP",
        **{name: _yes(flag in run.flags) for name, flag in _FLAGS.items()},
    }
    return {**known.values(), **words, **_again(layout, model), **split_quantities(layout, model)}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _sharding(layout: TrainingLayout) -> Iterator[tuple[str, int]]:
    """How many ranks share states; nothing where groups do not go with replicas."""
    if not layout.zero_stage:
        yield from (("replicate", layout.dp), ("shard", 1))
        return
    group = layout.zero_group or layout.dp * layout.cp
    yield "zero_group", group
    if group % layout.cp == 0 and layout.dp % (group // layout.cp) == 0:
        yield "shard", group // layout.cp


def _again(layout: TrainingLayout, model: TrainingModel) -> dict[str, Value]:
    if layout.recompute is not Recompute.FULL or layout.recompute_share >= 1:
        return {"recompute": str(layout.recompute)}
    layers = round(layout.recompute_share * model.layers)
    found: dict[str, Value] = {"recompute": "some", "recompute_layers": Fraction(layers)}
    for name, parts in (("chunk", layout.pp * layout.vpp), ("stage", layout.pp)):
        if layers % parts == 0 and layers and layers / model.layers == layout.recompute_share:
            found[f"recompute_per_{name}"] = Fraction(layers // parts)
    return found if "recompute_per_chunk" in found else {"recompute": "full"}
