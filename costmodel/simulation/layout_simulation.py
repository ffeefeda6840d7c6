"""Simulates the step of a conventional layout."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from costmodel.memory import Optimizer
from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_estimate import in_turn_s
from costmodel.simulation.layout_step import LayoutConstants, Options, layout_step
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.simulate_step import simulate_step
from costmodel.simulation.variation import Lanes, Variation
from costmodel.training.calibration import Calibration, shipped_calibration
from costmodel.training.families import family_of
from costmodel.training.layout_check import near_batches, order_faults
from costmodel.training.machines import machine
from costmodel.training.predict import constants_of, predict
from costmodel.training.rows import expert_remarks
from costmodel.training.sizes import model_flops
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from ir.throughput import Load

if TYPE_CHECKING:
    from costmodel.training.records import TrainingRun


def calibrated(training: TrainingRun, known: Calibration | None = None) -> LayoutConstants:
    """The constants of the family that a run belongs to, as similar runs say.

    Args:
        training: says of which family.
        known: of all families; those of the package if not said.
    """
    whole = shipped_calibration() if known is None else known
    return LayoutConstants(constants_of(training, whole), whole.memory_of(training.profile))


def simulate_layout(
    training: TrainingRun,
    effects: Effects,
    options: Options | None = None,
    variation: Variation | None = None,
    constants: LayoutConstants | None = None,
    calibration: Calibration | None = None,
) -> Simulation:
    """The step of a conventional layout, event by event.

    Args:
        training: model, layout, machine.
        effects: what is taken into account.
        options: what the layout leaves open.
        variation: how devices differ.
        constants: of the machine and the software; None takes those that were fitted.
        calibration: what was fitted; None takes that of the package.

    Raises:
        SimulationError: the schedule does not allow the layout, or it is too large.
    """
    _check_batch(training)
    known = calibrated(training, calibration) if constants is None else constants
    step = layout_step(training, known, options, overlap=effects.overlap)
    layout = training.layout
    told = partial(
        Simulation,
        name=training.model.name,
        load=load_of_run(training),
        estimate_s=_estimate_s(training, known, overlap=effects.overlap),
        estimate_means=("with fitted overlap" if effects.overlap else "without overlap"),
        facts={
            "degrees": str(layout.degrees),
            "schedule": step.schedule,
            "micro-batches": step.micro_batches,
            "machine": training.machine,
            "software": training.profile,
        }
        | ({} if training.optimizer is Optimizer.ADAMW else {"optimizer": training.optimizer.value})
        | ({"MTP layers": training.model.further} if training.model.further else {}),
        notes=_notes(training, calibration) if constants is None else (),
    )
    # Tensor and context parallel ranks wait for one another anyway.
    lanes = Lanes((layout.dp,), layout.tp * layout.cp)
    return simulate_step(step, effects, told, variation, lanes)


def _check_batch(training: TrainingRun) -> None:
    """Raise `SimulationError` if the batch is not of whole micro-batches in a possible order."""
    if training.layout.micro_batches % 1 or training.layout.micro_batches < 1:
        raise SimulationError(
            f"{training.layout.micro_batches:g} micro-batches on each replica\n  at:  the layout\n"
            "  fix: make the batch a multiple of micro-batch times replicas, such as "
            f"{' or '.join(map(str, near_batches(training.layout)))}"
        )
    if training.layout.global_batch not in near_batches(training.layout):
        _check_order(training)


def _check_order(training: TrainingRun) -> None:
    """Raise `SimulationError` if another batch would do for the schedule."""
    batches = near_batches(training.layout)
    other = replace(training.layout, global_batch=batches[0])
    faults = list(order_faults(training.layout))
    if faults and not any(order_faults(other)):
        raise SimulationError(
            f"{faults[0]}\n  at:  the schedule {training.layout.order}\n"
            f"  fix: make the batch {' or '.join(map(str, batches))}, or choose another schedule="
        )


def _estimate_s(training: TrainingRun, known: LayoutConstants, *, overlap: bool) -> float:
    if not overlap:
        return in_turn_s(training, known.step)
    return float(step_times(RunTable.of([training]), known.step).total[0])


def _notes(training: TrainingRun, known: Calibration | None) -> tuple[str, ...]:
    """What the constants rest on, and the estimate with its interval."""
    found, (family, _) = predict([training], (), known)[0], family_of(training)
    runs = "runs" if known is not None and known.is_own else "published runs"
    rests = found.inherited or f"constants of {family.name}, fitted to {runs}"
    interval = f"{found.low_s:.4g} to {found.high_s:.4g} s"
    expected = f"90 % interval of the estimate: {interval}"
    expected = found.unlike or expected
    return tuple(
        filter(None, (*expert_remarks(training), rests, found.look_up, *found.unmeasured, expected))
    )


def load_of_run(training: TrainingRun) -> Load:
    """What a step of a conventional layout does."""
    layout, found = training.layout, machine(training.machine)
    tokens = float(layout.global_batch * layout.seq_len)
    return Load(
        devices=layout.devices,
        samples=float(layout.global_batch),
        tokens=tokens,
        flops=float(model_flops(RunTable.of([training]), whole=True)[0]),
        peak_flops=found.peak(training.precision),
        memory_bytes=found.usable_bytes,
        precision=found.product_type(training.precision),
    )
