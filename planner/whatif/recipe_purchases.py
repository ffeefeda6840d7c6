"""What the choices of a layout buy: each against the layout without it, in seconds and GiB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from costmodel.memory import Optimizer
from costmodel.training.machines import machine
from costmodel.training.records import (
    Attention,
    LayoutError,
    Recompute,
    TrainingLayout,
    TrainingRun,
)
from ir.recipes.quantities import Value
from ir.recipes.table import Framework, framework, framework_names
from planner.requests.errors import UserError, unknown_name
from planner.whatif.recipe_advice import PricedRun, priced_runs
from planner.whatif.recipe_runs import RecipeRun, in_layout, quantities_of
from planner.whatif.recipe_targets import Expressed, expressed

__all__ = ["purchases", "said_of_layout"]

_GIB = 2.0**30


def said_of_layout(
    name: str, own: RecipeRun, layout: TrainingLayout, option: str
) -> tuple[Framework, Mapping[str, Value], tuple[str, ...]]:
    """What the files of a framework say of a layout: its table, quantities, and lines of comment.

    Args:
        name: of the framework.
        own: model, machine and software.
        layout: of that model.
        option: what named the framework, for errors.

    Raises:
        UserError: there is no such framework, or it cannot run the layout.
    """
    if name not in framework_names():
        raise unknown_name("framework", name[:80], framework_names(), option)
    found = framework(name)
    said = expressed(found, own, layout)
    if said.refused:
        raise UserError(
            "; ".join(said.refused), f"{option} {name}",
            "choose another layout or another framework",
        )  # fmt: skip
    return found, quantities_of(said.run), tuple(purchases(own, layout, said))


def purchases(own: RecipeRun, layout: TrainingLayout, said: Expressed) -> Iterator[str]:
    """Lines for the head of a file: the step, what each choice buys, and what is lost.

    Args:
        own: model, machine and software.
        layout: that was wanted.
        said: what the framework makes of it.
    """
    wanted, here = priced_runs([in_layout(own, layout), said.run])
    rates = here.rates
    yield (
        f"{here.run.model.name} on {here.run.layout.devices} x {here.run.machine}: a step of "
        f"{here.prediction.step_s:.4g} s, {rates.tokens_per_s or 0:,.0f} tokens/s, "
        f"MFU {100 * rates.utilisation:.1f} %, {here.memory_bytes / _GIB:.1f} of "
        f"{here.limit_bytes / _GIB:.1f} GiB"
    )
    without = dict(_without(said.run.layout))
    priced = priced_runs([in_layout(own, other) for other in without.values()])
    for name, other in zip(without, priced, strict=True):
        yield f"{name}: {_bought(here, other)}"
    for text in said.lost:
        yield f"lost: {text} ({_bought(wanted, here)})"
    for name, (one, used) in said.unsaid.items():
        text = f"lost: no setting says {name.replace('_', ' ')} {one}; it runs with {used}"
        instead = _instead(said.run, name, used)
        price = "" if instead is None else f" ({_bought(here, priced_runs([instead])[0])})"
        yield text + price


def _instead(run: TrainingRun, name: str, other: str) -> TrainingRun | None:
    """The run with another type; None for what is a switch, and for types that it cannot have."""
    if name == "precision":
        try:
            machine(run.machine).product_type(other)
        except LayoutError:
            return None
        return replace(run, precision=other)
    if name == "optimizer":
        return replace(run, optimizer=Optimizer(other))
    return replace(run, attention=Attention(other)) if name == "attention" else None


def _without(layout: TrainingLayout) -> Iterator[tuple[str, TrainingLayout]]:
    """The layout without each of its choices that can be left out alone."""
    if layout.sequence_parallel:
        yield "sequence parallel", replace(layout, sequence_parallel=False)
    if layout.zero_stage:
        yield f"ZeRO {layout.zero_stage}", replace(layout, zero_stage=0, zero_group=0)
    if layout.recompute is not Recompute.NONE:
        kept = replace(layout, recompute=Recompute.NONE, recompute_share=1.0)
        yield f"recomputation ({layout.recompute})", kept
    if layout.vpp > 1:
        yield f"{layout.vpp} chunks of a stage", replace(layout, vpp=1, stage_layers=())
    if layout.micro_batch > 1:
        yield f"micro-batch {layout.micro_batch}", replace(layout, micro_batch=1)


def _bought(here: PricedRun, other: PricedRun) -> str:
    """What the first has over the second."""
    seconds = other.prediction.step_s - here.prediction.step_s
    gib = (other.memory_bytes - here.memory_bytes) / _GIB
    time = f"{'saves' if seconds >= 0 else 'costs'} {abs(seconds):.3g} s"
    return f"{time}, {'saves' if gib >= 0 else 'costs'} {abs(gib):.3g} GiB"
