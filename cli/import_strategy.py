"""`planner import-strategy`: a strategy of MindSpore, or a plan of another tool, becomes a plan."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli.command_options import JSON, OUTPUT_FILE
from cli.declared import command
from cli.errors import UserError
from cli.files import check_folder, write_files, writer_of
from cli.foreign_strategy import foreign_plan, planned_as
from cli.machine_files import machine_file
from cli.options import Argument
from cli.progress import Progress
from planner.requests.option_texts import ATTENTION, TARGETS, with_sequence
from planner.requests.options.option import Group, Option
from planner.requests.options.searches import SearchOptions

if TYPE_CHECKING:
    from exporters.mindspore.checkpoint_import import Imported
    from ir.graph import OpGraph
    from ir.mindspore_forms.strategies import Strategy
    from ir.plan import Plan
    from planner.request import SearchRequest
    from topology.cluster import Cluster

NO_PLAN_FITS = 1
_APART = (
    "attention is priced operator by operator, as the file cuts it; with --attention fused it is "
    "one kernel, as in a plan of search"
)

EPILOG = """\b
Examples:
  planner import-strategy strategy.ckpt model.onnx --devices 8 -o theirs.json
  planner import-strategy operators.json net.mindir --devices 16 --rest auto -o theirs.json
  planner import-strategy tp=8,dp=2 model.onnx --devices 16 -o megatron.json
  planner import-strategy galvatron_config.json model.onnx --devices 16 -o theirs.json
  planner diff theirs.json ours/plan.json

\b
Files:
  strategy.ckpt, strategy.json  of parameters: save_param_strategy_file, strategy_ckpt_config
  operators.json                of all operators: save_operator_strategy_file, for a .mindir
  step_parallel_end.ir          of all operators: a graph that MindSpore compiled, for a .mindir
  tp=8,dp=2 or a file           Megatron's degrees, or its arguments as text or JSON
  galvatron_config.json         Galvatron's degrees of every layer
  placements.json               DTensor: {"mesh": [2, 8], "placements": {NAME: ["Shard(0)", ...]}}
  torch.json                    what `planner export --format torch` wrote

\b
Exit status: 0 written, 1 no plan fits into memory, 2 a fault in the command or a file."""

StrategyPath = Annotated[
    Path,
    Argument(
        value="FILE|DEGREES",
        help="A strategy file of MindSpore or the planner, a plan of Megatron, Galvatron or "
        "DTensor, or degrees such as tp=8,dp=2.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportStrategyCommand:
    """Of `planner import-strategy`."""

    # fmt: off
    output: Annotated[Path, OUTPUT_FILE]
    rest: Annotated[str, Option(
        group=Group.SEARCH, choices=("semi-auto", "auto", "propagation"), noun="way",
        help="Operators that the file says nothing of: split by batch as in MindSpore's "
        "semi-automatic mode, searched, or as their neighbours are.",
    )] = "semi-auto"
    target: Annotated[str | None, Option(
        group=Group.TARGET, choices=TARGETS, noun="target",
        usual="mindspore for its own files, else torch",
        help="Whose space and costs a plan of another tool is priced in.",
    )] = None
    attention: Annotated[str | None, Option(
        group=Group.MODEL, choices=ATTENTION, noun="form of attention",
        usual="decomposed for MindSpore's strategies, fused for others",
        help="fused prices attention as one kernel, decomposed as it stands in the file.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def import_strategy(
    file: StrategyPath, model: options.Model, *, asked: SearchOptions, here: ImportStrategyCommand
) -> None:
    """Make a plan of the strategies in a file, checked by MindSpore's own rules, or of the plan of
    another tool, priced like one of ours.
    """
    from planner.requests.search_options import REST  # noqa: PLC0415  kept out of the start

    rest, output, solver = here.rest, here.output, REST[here.rest]
    from planner.request import InfeasibleError  # noqa: PLC0415
    from planner.requests.machines import machine  # noqa: PLC0415  half a second of imports
    from planner.requests.search_request import search_request  # noqa: PLC0415
    from planner.requests.sources import model_file  # noqa: PLC0415
    from planner.requests.symbols import with_open_batch  # noqa: PLC0415

    foreign = foreign_plan(file)
    wanted = here.target or ("mindspore" if foreign is None else "torch")
    taken = here.attention or ("decomposed" if foreign is None else "fused")
    if foreign is None and wanted != "mindspore":
        raise UserError(
            "MindSpore's strategies are priced for MindSpore",
            f"--target {wanted}",
            "leave --target out",
        )
    bound = with_sequence(asked.bind, asked.sequence)
    bind = tuple(with_open_batch(bound, asked.batch, model_file(model)))
    request = search_request(
        replace(asked, bind=bind, target=wanted, solver=solver, attention=taken)
    )
    named = machine_file(asked.cluster, f"--cluster {asked.cluster}") or asked.cluster
    computer = machine(named, asked.devices, asked.product, request)
    check_folder(output.parent)
    try:
        plan, notes = (
            _planned(file, model, computer.cluster, request, rest)
            if foreign is None
            else planned_as(foreign, file, model, computer.cluster, request)
        )
    except InfeasibleError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(NO_PLAN_FITS) from error
    if here.attention is None and taken == "decomposed" and _has_attention(plan):
        plan = replace(plan, notes=(*plan.notes, _APART))
        notes = (*notes, _APART)
    _deliver(computer.noted(plan), notes, output, as_json=here.as_json)


def _planned(
    file: Path, model: Path, cluster: Cluster, request: SearchRequest, rest: str
) -> tuple[Plan, tuple[str, ...]]:
    from importers.model_file import import_model_file  # noqa: PLC0415
    from ir.mindspore_forms.strategies import batch_pins  # noqa: PLC0415
    from planner.pipeline.preparation import prepare  # noqa: PLC0415
    from planner.search import search  # noqa: PLC0415

    with Progress() as progress:
        progress(f"reading {model.name}")
        graph = import_model_file(model, dict(request.bind))
        ready, _ = prepare(graph, cluster, request)
        found = _imported(file, model, ready, cluster.devices)
        pins: dict[str, Strategy] = dict(found.pins)
        if rest == "semi-auto":
            pins |= batch_pins(ready, cluster.devices, pins, loss=not found.is_of_operators)
        asked = replace(request, pins=tuple(pins.items()))
        if found.inputs is not None and request.dataset_strategy is None:
            asked = replace(asked, dataset_strategy=found.inputs)
        plan = search(graph, cluster, asked, progress)
    return _noted(plan, found, len(pins) - len(found.pins), file), found.notes


def _imported(file: Path, model: Path, ready: OpGraph, devices: int) -> Imported:
    """What the file says of the operators of the model."""
    from exporters.errors import StrategyFileError  # noqa: PLC0415
    from exporters.mindspore.apply_import import pins_of_applied  # noqa: PLC0415
    from exporters.mindspore.apply_reading import AppliedStrategies  # noqa: PLC0415
    from exporters.mindspore.checkpoint_import import pins_of_checkpoint, pins_of_operators  # noqa: PLC0415
    from exporters.mindspore.records import StrategyCheckpoint  # noqa: PLC0415
    from exporters.mindspore.strategy_files import read_strategies  # noqa: PLC0415

    content = read_strategies(file)
    try:
        if isinstance(content, StrategyCheckpoint):
            return pins_of_checkpoint(ready, content, devices)
        if isinstance(content, AppliedStrategies):
            return pins_of_applied(ready, content, devices)
        if not model.name.lower().endswith(".mindir"):
            raise UserError(
                "the file goes by full names of operators, which only a MindIR has",
                str(file),
                "pass the network as mindspore.export(..., file_format='MINDIR') writes it",
            )
        from importers.mindir.listing import listed_primitives  # noqa: PLC0415

        return pins_of_operators(ready, content, listed_primitives(model, ready.symbols), devices)
    except StrategyFileError as error:
        raise error.inside(str(file)) from error


def _has_attention(plan: Plan) -> bool:
    """Whether a product reads a softmax: what is one kernel elsewhere."""
    from ir.ops import Engine, lookup  # noqa: PLC0415
    from ir.ops.reduction import SOFTMAXES  # noqa: PLC0415

    readers = plan.graph.consumers()
    return any(
        lookup(reader.kind).engine is Engine.MATRIX
        for op in plan.graph.ops
        if op.kind in SOFTMAXES
        for reader in readers.get(op.outputs[0], ())
    )


def _noted(plan: Plan, found: Imported, by_batch: int, file: Path) -> Plan:
    """The plan with one note in place of one for every operator that it is held to."""
    own = [note for note in plan.notes if not note.startswith("pinned by ")]
    text = f"{len(found.pins)} operators are cut as {file.name} says"
    rest = f", {by_batch} others by batch" if by_batch else ""
    return replace(plan, notes=(text + rest, *found.notes, *own))


def _deliver(plan: Plan, notes: tuple[str, ...], output: Path, *, as_json: bool) -> None:
    from ir.plan_file import plan_to_json  # noqa: PLC0415

    files = write_files(output.parent, {output.name: writer_of(plan_to_json(plan))})
    if as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415
        from planner.requests.plan_json import found as answer  # noqa: PLC0415

        print(dumps(answer(plan, files)))
    else:
        print(files[0])
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
