"""What published runs took, in units of what the cost model of plans says of them.

Fitted by benchmarks/plan_steps.py to runs of transformers; docs/fidelity.md has the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import data
from costmodel.operators.constants import POOLED, generation_of
from costmodel.software import GENERIC, SoftwareProfile
from ir.plan_estimate import Published
from ir.published import DENSE
from topology.units import format_seconds

if TYPE_CHECKING:
    from topology.cluster import Chip

__all__ = ["SHORT_OPERATOR_S", "published_steps"]


SHORT_OPERATOR_S = 80e-6
"""Mean time of a forward operator below which starting its kernels takes longer than they do, where
a framework starts each from Python (vTrain's small models on A100: 1.3 times as long in the middle,
2.6 at most of nineteen in twenty)."""

_IDEAL = "ideal"


def published_steps(
    chip: Chip, operator_s: float, kind: str = DENSE, software: SoftwareProfile = GENERIC
) -> tuple[Published | None, str]:
    """What published runs say of a training step on such chips, or nothing and why.

    Args:
        chip: of the cluster.
        operator_s: mean seconds of a forward operator.
        kind: what is trained and how, one of `ir.published.KINDS`.
        software: that the step is priced for; without one kernels are as alone, and the ends are
            those of steps in turn.

    Returns:
        Nothing for a hypothetical machine, for operators shorter than those of the runs, and where
        there are too few runs of the kind, or none.
    """
    generation = generation_of(chip.name, chip.family)
    if generation == _IDEAL:
        return None, "there are no runs on an idealised chip"
    if software.is_neutral and operator_s < SHORT_OPERATOR_S:
        mean, least = format_seconds(operator_s), format_seconds(SHORT_OPERATOR_S)
        return None, f"forward operators take {mean} on average, those of the runs {least} or more"
    ends = "in_turn" if software.is_neutral else "software"
    known = data.calibration("plan_steps")[ends].get(kind, {})
    own = generation in known
    record = known.get(generation if own else POOLED)
    if record is None:
        return None, "no runs of this kind of model were priced"
    of = generation if own else ""
    return Published(of, **record, kind=kind, with_software=not software.is_neutral), ""
