"""`--layout 'tp=8,pp=4,dp=16,...'`: a conventional layout as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import data
from costmodel.memory import Optimizer
from costmodel.schedules.orders import SCHEDULES
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.layout_step import Options
from costmodel.simulation.result import Simulation
from costmodel.software import AUTO
from costmodel.training.layout_check import group_faults, mixer_heads, near_batches
from costmodel.training.machines import Machine, machine
from costmodel.training.records import (
    Attention,
    LayoutError,
    Recompute,
    TrainingLayout,
    TrainingModel,
    TrainingRun,
)
from costmodel.training.stacks import software_flags, usual_attention
from importers.hf_fields import MOST
from planner.requests.calibrations import layout_calibration, layout_note
from planner.requests.errors import UserError, unknown_name
from planner.requests.option_texts import named_parts
from planner.requests.options.option import check_values
from planner.requests.options.simulations import (
    DEFAULT_SEQUENCE,
    LayoutOptions,
    SimulationOptions,
)
from planner.requests.simulations import effects, variation_asked
from planner.requests.training_models import training_model
from topology.catalogue import cluster_names
from topology.chips import is_chip
from topology.errors import ClusterError
from topology.machine_names import known_machine, known_machines

_DEGREES = {
    "tp": "tp", "pp": "pp", "vpp": "vpp", "dp": "dp", "cp": "cp", "ep": "ep", "etp": "etp",
    "zero": "zero_stage", "batch": "global_batch", "micro": "micro_batch", "seq": "seq_len",
    "zero-group": "zero_group",
}  # fmt: skip
_LARGEST = 10**9
MOST_MTP = MOST["MTP layers"]
KEYS = (
    *_DEGREES, "sp", "recompute", "recompute-share", "stages", "schedule", "imbalance",
    "ep-overlap", "mtp",
)  # fmt: skip


def parsed(text: str) -> dict[str, str]:
    """The parts of a layout by their names.

    Raises:
        UserError: an unknown name, or one given twice.
    """
    return named_parts(text, KEYS, "part of a layout", "--layout")


def layout_of(parts: Mapping[str, str], model: TrainingModel) -> TrainingLayout:
    """The layout that a text names.

    Raises:
        UserError: a number that cannot be, or degrees that do not fit the model or one another.
    """
    sizes = {field: _whole(parts[key], key) for key, field in _DEGREES.items() if key in parts}
    sizes.setdefault("micro_batch", 1)
    sizes.setdefault("seq_len", DEFAULT_SEQUENCE)
    replicas = sizes.get("dp", 1) * sizes["micro_batch"]
    stages = sizes.get("pp", 1)
    usual = 4 * stages if sizes.get("vpp", 1) > 1 else max(1, 4 * (stages - 1))
    sizes.setdefault("global_batch", replicas * usual)
    layers = tuple(
        _whole(n, "stages") for n in parts.get("stages", "").split("/") if parts.get("stages")
    )
    again = parts.get("recompute", "none")
    if again not in list(Recompute):
        raise unknown_name("recomputation", again, list(Recompute), "--layout recompute=")
    share = _share(parts.get("recompute-share", "1"))
    if again == Recompute.NONE and "recompute-share" in parts:
        raise UserError(
            "recompute-share is of what is recomputed, but recompute is none",
            "--layout",
            "add recompute=full or recompute=selective",
        )
    layout = TrainingLayout(
        **sizes,
        sequence_parallel=_flag(parts.get("sp"), "sp"),
        recompute=Recompute(again),
        recompute_share=share,
        stage_layers=layers,
        schedule=_schedule(parts.get("schedule", "")),
    )
    check(layout, model)
    return layout


def _schedule(name: str) -> str:
    if name and name not in SCHEDULES:
        raise unknown_name("schedule", name, SCHEDULES, "--layout schedule=")
    return name


def _whole(text: str, key: str) -> int:
    least = 0 if key in {"zero", "zero-group", "mtp"} else 1
    most, usual = (MOST_MTP, 1) if key == "mtp" else (_LARGEST, 8)
    if not (text.isdecimal() and len(text) < 11 and least <= int(text) <= most):
        raise UserError(
            f"{key}={text[:40]} is no whole number from {least} to {most:,}",
            "--layout",
            f"write it like {key}={usual}",
        )
    return int(text)


def _flag(text: str | None, key: str) -> bool:
    if text not in {None, "", "0", "1", "true", "false"}:
        raise UserError(f"{key}={text} is neither 0 nor 1", "--layout", f"write {key} or {key}=0")
    return text in {"", "1", "true"}


def trained(parts: Mapping[str, str], model: TrainingModel) -> TrainingModel:
    """The model with as many multi-token prediction layers as a layout says (`mtp`).

    Without it they are those of the configuration, with which the published model was trained.

    Raises:
        UserError: it cannot be.
    """
    if "mtp" not in parts:
        return model
    further = _whole(parts["mtp"], "mtp")
    if further and not model.causal:
        raise UserError(
            f"mtp={further} is of models that predict the next token, which {model.name} does not",
            "--layout",
            "leave mtp out",
        )
    return replace(model, further=further)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UserError(
            f"recompute-share={text[:40]} is not between 0 and 1", "--layout", "write it like 0.5"
        )
    return value


def factor(parts: Mapping[str, str], key: str) -> float:
    """A factor of at least one, 1 if it is not given."""
    try:
        value = float(parts.get(key, "1"))
    except ValueError:
        value = math.nan
    if not 1 <= value <= 1000:
        raise UserError(
            f"{key}={parts[key][:40]} is not between 1 and 1000", "--layout", f"write {key}=1.3"
        )
    return value


def check(layout: TrainingLayout, model: TrainingModel) -> None:
    """Raise `UserError` if a layout is impossible for a model."""
    chunks, stage = layout.pp * layout.vpp, layout.tp * layout.cp * layout.dp
    # Embedding and head may be a chunk each: 126 layers on 128 chunks.
    most = model.layers + 2 if layout.vpp > 1 and chunks == model.layers + 2 else model.layers
    faults = [
        *(
            (heads % layout.tp, f"{heads} heads do not split over tp={layout.tp}")
            for heads in sorted({model.heads, mixer_heads(model)})
        ),
        (chunks > most, f"{model.layers} layers are fewer than pp*vpp={chunks} chunks"),
        (
            layout.global_batch % (layout.micro_batch * layout.dp),
            (
                f"batch={layout.global_batch} is no multiple of micro*dp="
                f"{layout.micro_batch * layout.dp}"
            ),
        ),
        (layout.seq_len % layout.cp, f"seq={layout.seq_len} is no multiple of cp={layout.cp}"),
        (layout.vpp > 1 and layout.pp == 1, "vpp needs pp of 2 or more"),
        (
            layout.vpp > 1 and layout.micro_batches % layout.pp,
            (
                f"{layout.micro_batches:g} micro-batches are no multiple of pp={layout.pp}, as "
                f"vpp={layout.vpp} needs"
            ),
        ),
        (
            model.heads % model.kv_heads,
            f"{model.heads} heads do not share {model.kv_heads} heads of keys",
        ),
        (
            model.experts_per_token > model.experts,
            f"{model.experts_per_token} experts for each token, of {model.experts}",
        ),
        (layout.zero_stage > 3, f"zero={layout.zero_stage}; ZeRO has stages 0 to 3"),
        (
            layout.zero_group and (layout.dp * layout.cp) % layout.zero_group,
            f"zero-group={layout.zero_group} does not divide dp*cp={layout.dp * layout.cp}",
        ),
        *((True, fault) for fault in group_faults(model)),
        (
            layout.schedule == "dualpipe" and layout.vpp > 1,
            f"dualpipe has one chunk of layers on each stage, vpp is {layout.vpp}",
        ),
        (
            layout.ep > 1 and (not model.experts or model.experts % layout.ep),
            f"{model.experts} experts do not split over ep={layout.ep}",
        ),
        (
            stage % layout.ep,
            f"ep={layout.ep} does not divide the {stage} devices of a stage",
        ),
        (layout.etp and not model.experts, "etp is of experts, but the model has none"),
        (layout.etp and layout.tp % layout.etp, f"etp={layout.etp} does not divide tp={layout.tp}"),
        (
            layout.etp > 1 and stage % layout.ep == 0 and stage % (layout.etp * layout.ep),
            f"etp*ep={layout.etp * layout.ep} does not divide the {stage} devices of a stage",
        ),
        (
            layout.stage_layers
            and (len(layout.stage_layers) != layout.pp or sum(layout.stage_layers) != model.layers),
            (
                f"stages={'/'.join(map(str, layout.stage_layers))} are not {layout.pp} stages of "
                f"{model.layers} layers"
            ),
        ),
    ]
    told = [text for wrong, text in faults if wrong]
    if told:
        raise UserError("; ".join(told), "--layout", _mended(layout))


def _mended(layout: TrainingLayout) -> str:
    """How a layout whose sizes do not divide one another can be mended."""
    degrees = "choose degrees that divide these sizes"
    batches = near_batches(layout)
    if layout.global_batch in batches:
        return degrees
    return f"give batch={' or '.join(map(str, batches))}, or {degrees}"


def machine_named(name: str) -> Machine:
    """A bundled machine by the name of its cluster, an alias, or a chip that it has.

    Raises:
        UserError: none has that name, or no cluster has that chip.
    """
    try:
        return machine(known_machine(name).name)
    except ClusterError as error:
        if is_chip(name):
            raise UserError(error.what, "--cluster", error.fix) from error
        known = (*cluster_names(), *known_machines())
        raise unknown_name("machine", name, known, "--cluster") from error


def job_options(text: str) -> Options:
    """What a layout says of uneven experts."""
    return Options(factor(parsed(text), "imbalance"))


def _flags(
    parts: Mapping[str, str], usual: frozenset[str], layout: TrainingLayout
) -> frozenset[str]:
    """What the software does of itself, and whether the exchange between experts overlaps."""
    if "ep-overlap" not in parts:
        return usual
    if layout.ep == 1:
        raise UserError(
            "ep-overlap is of an exchange between experts, but ep is 1",
            "--layout",
            "leave ep-overlap out, or give ep of 2 or more",
        )
    said = frozenset({"ep-overlap"})
    return usual | said if _flag(parts["ep-overlap"], "ep-overlap") else usual - said


def _software(name: str, found: Machine) -> str:
    """The profile of that name, or the usual one of the machine."""
    stacks = data.calibration("training_profiles")
    known = [entry["name"] for entry in stacks["profiles"]]
    if name == AUTO:
        usual: Mapping[str, str] = stacks["default"]
        kind = next((k for k in usual if found.generation.startswith(k)), "other")
        return usual[kind]
    if name not in known:
        raise unknown_name("software profile", name, [AUTO, *known], "--profile")
    return name


def _attention(name: str, profile: str) -> Attention:
    """The kernel of attention of that name, or the one that the software usually has."""
    kernels = {AUTO: usual_attention(profile), "fused": Attention.FLASH}
    kernels["decomposed"] = Attention.UNFUSED
    return kernels[name]


def mtp_note(count: int) -> str:
    """That the configuration says how many further tokens are predicted."""
    return (
        f"multi-token prediction (MTP) layers, as the configuration says: {count}; mtp=0 for none"
    )


def run_of_layout(asked: LayoutOptions, config: Mapping[str, object], name: str) -> TrainingRun:
    """Model, layout and machine.

    Args:
        asked: the options.
        config: fields of the model's config.json.
        name: of the model.

    Raises:
        UserError: one of them cannot be.
        ModelError: the configuration lacks a size.
    """
    check_values(asked)
    parts = parsed(asked.layout)
    model = trained(parts, training_model(config, name)[0])
    found = machine_named(asked.cluster)
    try:
        found.flops(asked.precision)
    except LayoutError as error:
        raise UserError(
            str(error), "--precision", "choose a type that the chip has, such as bf16"
        ) from error
    profile = _software(asked.profile, found)
    layout = layout_of(parts, model)
    if factor(parts, "imbalance") > 1.0 and not model.experts:
        raise UserError(
            f"imbalance is of experts, but {name} has none", "--layout", "leave imbalance out"
        )
    usual = software_flags(profile, found.name, model.name, layout)
    flags = _flags(parts, usual, layout)
    return TrainingRun(
        model.name, model, layout, found.name, profile, precision=asked.precision, flags=flags,
        attention=_attention(asked.attention, profile), optimizer=Optimizer(asked.optimizer),
    )  # fmt: skip


def simulated_layout(
    asked: LayoutOptions, config: Mapping[str, object], name: str, options: SimulationOptions
) -> Simulation:
    """The step of the layout, event by event.

    Raises:
        UserError: an option is wrong, or for plans alone.
        SimulationError: the layout cannot be simulated so.
        ModelError: the configuration lacks a size.
    """
    for given, option in ((options.bandwidth, "--bandwidth"), (options.fusion, "--fusion")):
        if given:
            raise UserError(
                f"{option} is for plans", "--layout", f"leave {option} out, or give a plan.json"
            )
    hidden, drawn = effects(options), variation_asked(options)
    run = run_of_layout(asked, config, name)
    _, notes = training_model(config, name)
    known = layout_calibration(options.calibration, run.machine)
    found = simulate_layout(run, hidden, job_options(asked.layout), drawn, calibration=known)
    if run.model.further and "mtp" not in parsed(asked.layout):
        notes = (*notes, mtp_note(run.model.further))
    notes = (*notes, *layout_note(options.calibration, known, run))
    return replace(found, notes=(*notes, *found.notes))
