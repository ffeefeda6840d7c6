"""What a framework makes of a run: how far its settings can say it, and what the rest costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction

from costmodel.training.records import TrainingLayout, TrainingRun
from ir.recipes.forms import Scalar
from ir.recipes.quantities import Quantities
from ir.recipes.table import Framework
from planner.whatif.recipe_runs import RecipeRun, in_layout, layout_of_values, quantities_of

__all__ = ["MUST_HOLD", "Expressed", "expressed", "held_degrees"]

MUST_HOLD = frozenset({
    "global_batch", "micro_batch", "seq_len", "tp", "pp", "vpp", "dp", "cp", "ep", "stage_layers",
})  # fmt: skip
"""Without these it is another layout; others may be lost at a price."""
_USUAL = {
    "precision": "bf16", "optimizer": "adamw", "attention": "flash", "offload_optimizer": "no",
    "offload_attention": "no", "reuse_master": "no", "recompute_activation": "no",
    "ep_overlap": "no", "tp_overlap": "no",
}  # fmt: skip
"""Types and switches, and what training scripts take that no setting of a framework says."""
_DEGREES = ("tp", "cp", "pp", "vpp", "ep")


@dataclass(frozen=True, slots=True)
class Expressed:
    """A run as a framework would run it from what it is told."""

    run: TrainingRun
    refused: tuple[str, ...]
    """What no setting says and without which it is another layout, a sentence each."""
    lost: tuple[str, ...]
    """What else the framework does otherwise, a sentence each."""
    unsaid: Mapping[str, tuple[str, str]]
    """Types and switches that no setting says: what was wanted, and what it runs with."""


def expressed(found: Framework, own: RecipeRun, layout: TrainingLayout) -> Expressed:
    """A layout of a run, through the settings of a framework and back.

    Args:
        found: the table of the framework.
        own: model, machine and software.
        layout: of that model.
    """
    wanted = in_layout(own, layout)
    settings: dict[str, Scalar] = {}
    for file in found.written(quantities_of(wanted)).values():
        settings |= file
    known = Quantities()
    if found.reads_only:  # a file of others may leave the devices to its launcher
        known.say("devices", Fraction(layout.devices), "the job")
    found.read(settings, {}, known)
    read, _ = layout_of_values(known.values(), wanted.model)
    run = in_layout(own, read)
    differing = {
        each.name: (getattr(wanted.layout, each.name), getattr(run.layout, each.name))
        for each in fields(TrainingLayout)
        if getattr(wanted.layout, each.name) != getattr(run.layout, each.name)
    }
    values = quantities_of(wanted)
    unsaid = {
        name: (str(values[name]), str(known.values().get(name, usual)))
        for name, usual in _USUAL.items()
        if values[name] != known.values().get(name, usual)
    }
    return Expressed(run, *_sentences(found, differing), unsaid)


def _sentences(
    found: Framework, differing: Mapping[str, tuple[object, object]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    refused, lost = [], []
    for name, (wanted, read) in differing.items():
        text = f"{found.title} has no setting for {name} {_shown(wanted)}"
        if name in MUST_HOLD:
            refused.append(text)
        else:
            lost.append(f"{text}; it runs with {_shown(read)}")
    return tuple(refused), tuple(lost)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(map(str, value)) or "even"
    return str(value)


def held_degrees(found: Framework) -> dict[str, object]:
    """Degrees that no setting of a framework says: they are one."""
    written = {entry.quantity for entry in found.entries if entry.writes and entry.settings}
    also = {
        "vpp": {"chunk_size", "chunk_layers", "parts_size"},
        "pp": {"pp_inside"},
        "ep": {"ep_inside"},
    }
    return {name: 1 for name in _DEGREES if not written & {name, *also.get(name, frozenset())}}
