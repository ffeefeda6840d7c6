"""Advice on a recipe: what an expert would warn of, the best single changes, the best of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_simulation import load_of_run, simulate_layout
from costmodel.simulation.layout_step import Options
from costmodel.simulation.variation import Variation
from costmodel.training.calibration import shipped_calibration
from costmodel.training.layout_check import check_layout
from costmodel.training.machines import machine
from costmodel.training.memory import charged_bytes
from costmodel.training.predict import Prediction, predict
from costmodel.training.records import LayoutError, Recompute, TrainingLayout, TrainingRun
from costmodel.training.table import RunTable
from ir.recipes.quantities import Value
from ir.recipes.table import Framework
from ir.throughput import Rates
from planner.pipeline.space import divisors
from planner.requests.conventional_layouts import check
from planner.requests.errors import UserError
from planner.whatif.layouts import COLUMNS, Report, priced_layouts
from planner.whatif.recipe_runs import RecipeRun, in_layout, quantities_of
from planner.whatif.recipe_stages import conventional_stages
from planner.whatif.recipe_targets import expressed, held_degrees

__all__ = ["Change", "PricedRun", "best_changes", "best_of_all", "priced_runs", "warnings"]

_LOOKED_AT = 200
"""Layouts of the ranking that are tried until the framework can say one."""
_LEAST = 0.002
"""Share of the step that a change must save to be named."""
_APART = 0.02
"""Share of the step that estimate and simulation of a change may differ by."""
_MOST_PASSES = 4_096
"""Of a step that is simulated: forward passes of all chunks, a second of work."""
_LEAST_PART = 8_192
"""Tokens of a part of a sequence."""
MOST_CHANGES = 3
"""Single changes that are told."""
_ENDS = ("first", "middle", "last")


@dataclass(frozen=True, slots=True)
class PricedRun:
    """A run with its step and its memory."""

    run: TrainingRun
    prediction: Prediction
    stage_bytes: tuple[float, ...]
    """Peak on a device of the first stage, of the fullest inner one and of the last."""
    limit_bytes: float
    rates: Rates

    @property
    def memory_bytes(self) -> float:
        return max(self.stage_bytes)

    @property
    def fits(self) -> bool:
        return self.memory_bytes <= self.limit_bytes

    @property
    def chance(self) -> float:
        """How likely it fits, by how far predictions of memory of other sources have been off."""
        return self.prediction.fit_chance


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a layout, alone."""

    text: str
    """Such as `tp 8 -> 4, dp 8 -> 16`."""
    priced: PricedRun


def priced_runs(runs: Sequence[TrainingRun]) -> list[PricedRun]:
    """Runs with step and memory, as `planner layouts` prices them."""
    out = []
    for run, found in zip(runs, predict(runs), strict=True):
        table, constants = RunTable.of([run]), shipped_calibration().memory_of(run.profile)
        ends = (
            _ENDS if run.layout.pp > 2 else ("first", "last") if run.layout.pp > 1 else ("first",)
        )
        stages = tuple(float(charged_bytes(table, constants, (end,))[0]) for end in ends)
        rates = Rates(load_of_run(run), found.step_s)
        out.append(PricedRun(run, found, stages, machine(run.machine).usable_bytes, rates))
    return out


def warnings(own: PricedRun, values: Mapping[str, Value], found: Framework) -> Iterator[str]:
    """What an expert would say of a layout at first sight, a sentence each."""
    run, layout, model = own.run, own.run.layout, own.run.model
    server = machine(run.machine).server
    try:
        check_layout(model, layout)
    except LayoutError as error:
        yield f"the framework refuses it: {error}"
    yield from found.faults(values)
    if layout.tp > server:
        yield f"tensor parallel {layout.tp} crosses servers of {server} devices"
    if layout.ep > 1 and model.experts % layout.ep:
        yield f"expert parallel {layout.ep} does not divide {model.experts} experts"
    if layout.vpp > 1 and model.layers % (layout.pp * layout.vpp):
        chunks = layout.pp * layout.vpp
        yield f"{chunks} chunks do not divide {model.layers} layers: some have one more"
    if not own.fits:
        yield (
            f"it does not fit: {own.memory_bytes / 2**30:.1f} GiB of "
            f"{own.limit_bytes / 2**30:.1f} GiB"
        )
    yield from _wasted(own, values, found)
    yield from _pipeline(own)


def _wasted(own: PricedRun, values: Mapping[str, Value], found: Framework) -> Iterator[str]:
    layout = own.run.layout
    kept = replace(layout, recompute=Recompute.NONE, recompute_share=1.0)
    if layout.recompute is Recompute.FULL and priced_runs([replace(own.run, layout=kept)])[0].fits:
        yield "whole layers are computed again though memory does not need it"
    if layout.dp * layout.cp > 1 and not layout.zero_stage:
        ranks = layout.dp * layout.cp
        yield f"optimizer states are kept whole on each of {ranks} data parallel ranks"
    if values.get("overlap") == "no" and layout.dp * layout.cp > 1:
        yield "gradients are not reduced beside the backward pass"
    if values.get("gather_overlap") == "no" and layout.zero_stage and layout.dp * layout.cp > 1:
        yield "parameters are not gathered beside the forward pass"
    sp = any(entry.quantity == "sequence_parallel" and entry.at for entry in found.entries)
    if sp and layout.tp > 1 and not layout.sequence_parallel:
        yield "norms are not split over tensor parallel ranks (sequence parallel is off)"
    if values.get("offload") == "yes":
        yield "parameters wait on the host, which is not priced: the step is longer than said"


def _pipeline(own: PricedRun) -> Iterator[str]:
    layout, model = own.run.layout, own.run.model
    if layout.pp == 1:
        return
    micro = layout.micro_batches
    bubble = (layout.pp - 1) / (layout.vpp * micro) if micro else 0.0
    if bubble > 0.2 and layout.schedule != "dualpipe":
        yield (
            f"{micro:g} micro-batches for {layout.pp} stages: the pipeline stands idle for "
            f"{100 * bubble / (1 + bubble):.0f} % of the step"
        )
    stages = conventional_stages(model, layout)
    head = model.vocab * model.hidden / max(1.0, 12.0 * model.hidden**2)
    if stages and stages[-1] == max(stages) and head > 0.5 and layout.vpp == 1:
        yield (
            f"the last stage has as many layers as the others and the head beside them, which is "
            f"the work of {head:.1f} layers"
        )


def best_changes(own: PricedRun, recipe: RecipeRun, found: Framework) -> list[Change]:
    """The best single changes that the framework can say, the one that saves most first, by the
    75th percentile of the interval: what was hardly measured must promise more.

    Where the recipe does not fit, those that make it fit, the fastest first.
    """
    options: dict[TrainingLayout, tuple[str, str]] = {}
    run = recipe.run
    for kind, layout in _neighbours(run):
        if layout.cp > _most_parts(run.layout) or (own.fits and _more_again(run.layout, layout)):
            continue
        changed = expressed(found, recipe, layout)
        if changed.refused or changed.lost or not _can_be(changed.run, found):
            continue
        options.setdefault(changed.run.layout, (kind, _difference(own.run.layout, layout)))
    options.pop(own.run.layout, None)
    priced = priced_runs([in_layout(recipe, layout) for layout in options])
    fine = [
        (each.prediction.upper_s, kind, Change(text, each))
        for each, (kind, text) in zip(priced, options.values(), strict=True)
        if _better(each, own)
    ]
    best: dict[str, Change] = {}
    for _, kind, change in sorted(fine, key=lambda each: each[0]):
        if kind not in best and len(best) < MOST_CHANGES and _confirmed(own, change):
            best[kind] = change
    return list(best.values())


def _better(new: PricedRun, old: PricedRun) -> bool:
    """Whether a run fits and is faster, in the median and the 75th percentile of its interval; an
    old one that does not fit is slower than all.
    """
    if not old.fits:
        return new.fits
    saves = 1.0 - _LEAST
    middle = new.prediction.step_s < old.prediction.step_s * saves
    return new.fits and middle and new.prediction.upper_s < old.prediction.upper_s * saves


def _confirmed(own: PricedRun, change: Change) -> bool:
    """Whether the step, simulated, is shorter by what the estimates say; long ones are believed."""
    runs = (own.run, change.priced.run)
    if any(
        run.layout.micro_batches * run.layout.pp * run.layout.vpp > _MOST_PASSES for run in runs
    ):
        return True
    before, after = (_simulated_s(run) for run in runs)
    said = own.prediction.step_s - change.priced.prediction.step_s
    return abs(before - after - said) <= _APART * before


def _simulated_s(run: TrainingRun) -> float:
    found = simulate_layout(run, Effects(), Options(1.0), Variation())
    return found.step_s


def _more_again(old: TrainingLayout, new: TrainingLayout) -> bool:
    """Whether a layout computes more again, which saves memory alone."""
    order = list(Recompute)
    before, after = ((order.index(each.recompute), each.recompute_share) for each in (old, new))
    return after > before


def _most_parts(layout: TrainingLayout) -> int:
    """Parts that a sequence may be cut into: hardly a measured run has parts below 8k tokens."""
    return max(layout.cp, layout.seq_len // _LEAST_PART)


def _can_be(run: TrainingRun, found: Framework) -> bool:
    """Whether neither the model nor the framework is against a layout."""
    if found.faults(quantities_of(run)):
        return False
    try:
        check(run.layout, run.model)
        check_layout(run.model, run.layout)
    except (UserError, LayoutError):
        return False
    return True


def _neighbours(run: TrainingRun) -> Iterator[tuple[str, TrainingLayout]]:
    """Layouts that differ by one decision; what is data parallel takes up the devices."""
    layout, devices = replace(run.layout, etp=0), run.layout.devices
    even = replace(layout, stage_layers=())
    for name in ("tp", "cp", "pp"):
        old = getattr(layout, name)
        rest = devices // (layout.dp * old)
        for new in divisors(devices // rest):
            if new != old and new <= 8 * old and old <= 8 * new:
                yield name, _exchanged(even, name, new, devices // (rest * new))
    yield from (("ep", replace(layout, ep=n)) for n in divisors(layout.tp * layout.cp * layout.dp))
    each = layout.global_batch // layout.dp
    yield from (("micro", replace(layout, micro_batch=n)) for n in divisors(each) if n <= 64)
    yield from (("vpp", replace(even, vpp=n)) for n in range(1, run.model.layers // layout.pp + 1))
    yield from (("zero", replace(layout, zero_stage=n, zero_group=0)) for n in range(4))
    yield "sp", replace(layout, sequence_parallel=not layout.sequence_parallel)
    for kind in Recompute:
        yield "recompute", replace(layout, recompute=kind, recompute_share=1.0)
    chunks = layout.pp * layout.vpp
    for layers in range(chunks, run.model.layers, chunks):
        share = layers / run.model.layers
        yield "recompute", replace(layout, recompute=Recompute.FULL, recompute_share=share)
    if layout.stage_layers:
        yield "stages", even


def _exchanged(layout: TrainingLayout, name: str, new: int, dp: int) -> TrainingLayout:
    """A layout with another degree, in exchange for replicas."""
    changed = replace(layout, dp=dp, zero_group=0)
    if name == "cp":
        return replace(changed, cp=new)
    if name == "tp":
        return replace(
            changed, tp=new, sequence_parallel=layout.sequence_parallel or layout.tp == 1
        )
    return replace(changed, pp=new, vpp=1 if new == 1 else layout.vpp)


_SHOWN = {
    "tp": "tp", "cp": "cp", "pp": "pp", "dp": "dp", "vpp": "vpp", "ep": "ep",
    "micro_batch": "micro", "zero_stage": "zero", "zero_group": "zero-group",
    "sequence_parallel": "sp", "recompute": "recompute", "recompute_share": "recompute-share",
    "stage_layers": "stages",
}  # fmt: skip


def _difference(old: TrainingLayout, new: TrainingLayout) -> str:
    parts = []
    for field, name in _SHOWN.items():
        was, now = getattr(old, field), getattr(new, field)
        if was != now:
            parts.append(f"{name} {_plain(was)} -> {_plain(now)}")
    return ", ".join(parts)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(map(str, value)) or "even"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def best_of_all(
    own: PricedRun, recipe: RecipeRun, found: Framework, report: Report = lambda _: None
) -> Change | None:
    """The fastest layout that fits, that the framework can say and that the simulation confirms, by
    the 75th percentile of the interval; None if none is faster.
    """
    job = recipe.run
    plain = replace(job, layout=replace(job.layout, stage_layers=(), schedule=""))

    def flags(layout: TrainingLayout) -> frozenset[str]:
        return in_layout(recipe, layout).flags

    priced = priced_layouts(plain, job.layout.devices, held_degrees(found), flags, report)
    priced = priced.taken(priced.layouts[:, COLUMNS.index("cp")] <= _most_parts(job.layout))
    best: PricedRun | None = None
    for index in priced.ranked(robust=True)[:_LOOKED_AT]:
        changed = expressed(found, recipe, priced.layout(index, plain))
        if changed.refused or changed.lost or not _can_be(changed.run, found):
            continue
        each = priced_runs([changed.run])[0]
        faster = best is None or each.prediction.upper_s < best.prediction.upper_s
        if each.fits and faster and _confirmed(own, Change("", each)):
            best = each
        if best is not None and priced.upper_s[index] > best.prediction.upper_s:
            break
    if best is None or not _better(best, own):
        return None
    return Change(_difference(own.run.layout, best.run.layout), best)
