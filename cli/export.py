"""`planner export`: a plan becomes the files of a framework, a table or a report."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.command_options import OUTPUT_FILE, RECIPE, SERVER
from cli.declared import command
from cli.errors import UserError
from cli.files import Writer, write_files, writer_of
from planner.requests.option_texts import export_settings
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exporters.formats import Format
    from exporters.settings import Settings
    from ir.plan import Plan

EPILOG = """\b
Examples:
  planner export plan/plan.json --format mindspore -o strategy.ckpt
  planner export plan/plan.json --format launch --set script=train.py --set hosts=hosts.txt -o run
  planner export plan/plan.json --recipe torchtitan --model llama3-8b -o recipe

\b
Formats:
  mindspore        strategy checkpoint: protobuf, or JSON if FILE ends in .json
  mindspore-apply  Python file that gives every operator of the network its strategy
  mindspore-operators  JSON with a strategy for every operator by its full name, for MindSpore's
                   sharding propagation; --set model=net.mindir, --set scope=network-Net
  mindspore-groups  communication groups of a rank; --set rank=3
  mindspore-inference  Python file that loads checkpoints for prediction and shards a dataset
  jax              mesh and PartitionSpecs: JSON, or a module if FILE ends in .py
  torch            mesh and DTensor placements: JSON, or a module if FILE ends in .py
  megatron         arguments of Megatron-LM, if one layout serves all layers
  mindspore-script Python file that sets MindSpore up, in its old and its new interface
  mindspore-shard  calls of shard on cells, for PyNative mode; --set form=yaml for search --shard
  launch           folder with scripts that start the job: rank table, msrun, mpirun
  msjob            custom resource of ms-operator for Kubernetes, YAML
  parameter-server folder with the roles of MindSpore's parameter server and their environment
  table            CSV of operators and tensors
  html             report with plots, one file that loads nothing

What a format cannot say of the plan is listed on stderr. What --set takes is in docs/mindspore.md;
a wrong name lists the settings of the format.

\b
Exit status: 0 written, 2 a fault in the command or the plan."""


EXPORT_FORMATS = (
    "mindspore", "mindspore-apply", "mindspore-operators", "mindspore-groups",
    "mindspore-inference", "jax", "torch", "megatron", "mindspore-script", "mindspore-shard",
    "launch", "msjob", "parameter-server", "table", "html",
)  # fmt: skip
"""As in `exporters.formats`, whose import takes too long for a help text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCommand:
    """Of `planner export`."""

    # fmt: off
    output: Annotated[Path, OUTPUT_FILE]
    form: Annotated[str, Option(
        group=Group.TARGET, value="NAME", choices=EXPORT_FORMATS, noun="format",
        flags=("--format",), help=f"What to write: {', '.join(EXPORT_FORMATS)}.",
    )] = "mindspore"
    names: Annotated[str | None, Option(
        group=Group.TARGET, value="NETWORK|FILE", usual="the model's names",
        help="What MindSpore's network calls the parameters: llama, gpt2, bert or resnet as "
        "MindFormers has them, or a YAML or JSON file of patterns.",
    )] = None
    settings: Annotated[tuple[str, ...], Option(
        group=Group.TARGET, value="NAME=VALUE", flags=("--set",),
        help="What the files need to know and the plan does not say, for mindspore-script, launch, "
        "msjob and parameter-server; docs/mindspore.md lists the names. May be repeated.",
    )] = ()
    recipe: Annotated[str | None, RECIPE] = None
    model: Annotated[str | None, Option(
        group=Group.MODEL, value="MODEL",
        help="With --recipe: a config.json, or a name that `planner sizes --list` prints.",
    )] = None
    server: Annotated[str | None, SERVER] = None
    # fmt: on


@command
def export(plan: options.PlanPath, here: ExportCommand) -> None:
    """Write a plan for a framework, as a table or as a report."""
    output, form, names = here.output, here.form, here.names
    from exporters.formats import FORMATS as KNOWN  # noqa: PLC0415  brings in pydantic
    from exporters.settings import Settings  # noqa: PLC0415
    from ir.plan_file import read_plan  # noqa: PLC0415

    if here.recipe is not None:
        _export_recipe(here.recipe, here.model, read_plan(plan, staged=True), output)
        return
    chosen = KNOWN[form]
    _check_suffix(chosen, output)
    if names is not None and not chosen.takes_names:
        raise UserError(f"{form} takes no names", f"--names {names}", "leave --names out")
    given = export_settings(here.settings)
    if given and not chosen.settings:
        raise UserError(f"{form} takes no settings", "--set", "leave --set out")
    if here.server is not None:
        _export_there(here.server, plan, chosen, output, names, given)
        return
    found = read_plan(plan, staged=True)
    if chosen.of_primitives is not None:
        _export_of_model(chosen, found, Settings(given, chosen.settings), output)
        return
    if chosen.made is not None:
        made = chosen.make(found, Settings(given, chosen.settings))
        _deliver(chosen, made.files, made.notes, output)
        return
    renaming = None if names is None else chosen.names(found, names)
    writer, losses = chosen.writer(found, renaming), chosen.losses(found, renaming)
    losses += alone_note(found, form, losses)
    print(write_files(output.parent, {output.name: writer})[0])
    for loss in losses:
        print(f"note: {loss}", file=sys.stderr)


def _export_recipe(framework: str, model: str | None, plan: Plan, output: Path) -> None:
    """Write a plan whose layers are split alike as files of a framework, into a folder."""
    if model is None:
        what = "a recipe says the sizes of the model, and a plan has its operators"
        raise UserError(what, f"--recipe {framework}", "add --model, such as --model llama3-8b")
    from cli.recipe_files import written_recipe  # noqa: PLC0415  brings in the cost model
    from importers.sizes import configuration  # noqa: PLC0415
    from planner.requests.training_models import model_name  # noqa: PLC0415
    from planner.whatif.plan_recipe import run_of_plan  # noqa: PLC0415

    run = run_of_plan(plan, configuration(model), model_name(model))
    for path in written_recipe(framework, run, output):
        print(path)


def _export_there(
    server: str, plan: Path, form: Format, output: Path, names: str | None, given: dict[str, str]
) -> None:
    from cli.remote import remote_export  # noqa: PLC0415

    made = remote_export(server, plan, form, output, names, given)
    _deliver(form, made.files, made.notes, output)


def _deliver(
    form: Format, contents: Mapping[str, str | bytes], notes: Sequence[str], output: Path
) -> None:
    """Write all files of a format: into a folder, or the one under the name given."""
    folder = output if form.is_folder else output.parent
    files = {name or output.name: writer_of(content) for name, content in contents.items()}
    for path in write_files(folder, files):
        print(path)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def _export_of_model(form: Format, plan: Plan, settings: Settings, output: Path) -> None:
    """Write a file that needs the primitives of the model file."""
    from exporters.formats import planned_sizes  # noqa: PLC0415
    from importers.mindir.listing import listed_primitives  # noqa: PLC0415  brings in onnx

    model = settings.text("model", "")
    told = bool(plan.graph.primitives)
    if not model and not told and any(each.name == "model" for each in form.settings):
        form.writer(plan, None)  # says what is missing
    primitives = listed_primitives(Path(model), planned_sizes(plan)) if model else ()
    made = form.of_model(plan, settings, primitives)
    _deliver(form, {output.name: made.content}, made.notes, output)


def _check_suffix(form: Format, output: Path) -> None:
    if form.suffixes and output.suffix not in form.suffixes:
        known = " or ".join(form.suffixes)
        raise UserError(
            f"the suffix {output.suffix!r} is no form of {form.name}",
            f"-o {output}",
            f"name a file that ends in {known}",
        )


def target_losses(plan: Plan, target: str) -> tuple[str, ...]:
    """What the files for a target cannot say, a sentence each."""
    from exporters.formats import FORMATS as KNOWN  # noqa: PLC0415
    from exporters.formats import target_files  # noqa: PLC0415

    forms = dict.fromkeys(target_files(plan, target).values())
    found = (loss for form in forms for loss in KNOWN[form].losses(plan, None))
    losses = tuple(dict.fromkeys(found))
    return losses + ((*checkpoint_note(plan), *loss_note(plan)) if "mindspore" in forms else ())


def alone_note(plan: Plan, form: str, losses: tuple[str, ...]) -> tuple[str, ...]:
    """The step time without what a file cannot say of a plan."""
    if form == "mindspore":
        return checkpoint_note(plan)
    return arguments_note(plan) if form == "megatron" and losses else ()


def arguments_note(plan: Plan) -> tuple[str, ...]:
    """The step time if Megatron gets the arguments and nothing else."""
    from exporters.megatron import to_arguments  # noqa: PLC0415
    from ir.batch import BatchError  # noqa: PLC0415
    from planner.repricing.other_size import arguments_only  # noqa: PLC0415
    from planner.request import RequestError  # noqa: PLC0415
    from topology.units import format_bytes, format_seconds  # noqa: PLC0415

    try:
        found = arguments_only(plan, to_arguments(plan))
    except (BatchError, RequestError) as error:
        why = str(error).partition("\n")[0]
        return (f"what a step takes from the arguments alone cannot be told: {why}",)
    alone, planned = (format_seconds(e.step_time_s) for e in (found, plan.estimate))
    peak, limit = found.peak_memory_bytes, plan.estimate.memory_limit_bytes
    excess = f"; it needs {format_bytes(peak)} of {format_bytes(limit)}" if peak > limit else ""
    return (f"from the arguments alone a step takes {alone}, as planned {planned}{excess}",)


def checkpoint_note(plan: Plan) -> tuple[str, ...]:
    """The step time if MindSpore gets the strategy checkpoint and nothing else."""
    from planner.repricing.mindspore.checkpoint import checkpoint_only_s  # noqa: PLC0415
    from topology.units import format_seconds  # noqa: PLC0415

    alone_s = checkpoint_only_s(plan) if plan.pipeline.is_single else None
    if alone_s is None:
        return ()
    alone, planned = format_seconds(alone_s), format_seconds(plan.estimate.step_time_s)
    note = (
        f"from the checkpoint alone a step takes {alone}, as planned {planned}: MindSpore splits "
        "operators without parameters by batch; apply_mindspore.py has their strategies"
    )
    return (note,)


def loss_note(plan: Plan) -> tuple[str, ...]:
    """Which loss of MindSpore's a plan that cuts classes needs, and what another one costs."""
    from exporters.mindspore.loss import class_cuts  # noqa: PLC0415
    from planner.repricing.mindspore.checkpoint import batch_loss_s  # noqa: PLC0415
    from topology.units import format_seconds  # noqa: PLC0415

    if not plan.pipeline.is_single or not class_cuts(plan):
        return ()
    other_s = batch_loss_s(plan)
    planned = format_seconds(plan.estimate.step_time_s)
    cost = f": a step takes {format_seconds(other_s)}, as planned {planned}" if other_s else ""
    note = (
        "the loss cuts classes: train with planned_loss() of apply_mindspore.py; "
        f"nn.SoftmaxCrossEntropyWithLogits cuts rows alone{cost}"
    )
    return (note,)


def target_writers(plan: Plan, target: str) -> dict[str, Writer]:
    """Writers of the files for a target, by name; none for a target without files.

    Raises:
        ExportError: the target cannot express the plan.
    """
    from exporters.formats import FORMATS as KNOWN  # noqa: PLC0415
    from exporters.formats import target_files  # noqa: PLC0415

    files = target_files(plan, target)
    made = {form: KNOWN[form].writer(plan, None) for form in dict.fromkeys(files.values())}
    return {name: made[form] for name, form in files.items()}
