"""The profile `generic` of conventional layouts: kernels and messages as they take alone.

No run was fitted: products, attention and collectives take what was measured of them alone, the
host is always ahead, everything hides that can. Plans have the same profile
(`costmodel.software.GENERIC`), so that a layout and the plan pinned to it can be held against each
other term by term; docs/step.md names what still differs.
"""

from __future__ import annotations

from costmodel.software import GENERIC as PLANS
from costmodel.training.constants import StepConstants
from costmodel.training.memory import MemoryConstants

__all__ = ["ALONE", "GENERIC", "KEPT", "NO_RUNS"]

GENERIC = PLANS.name

ALONE = StepConstants(
    matmul=1.0, matmul8=1.0, matmul4=1.0, grouped=1.0, memory=1.0, attention=0.5, small_heads=0.0,
    host_s=0.0, host_micro_s=0.0, start_s=0.0, dp_hidden=1.0, fetch_shown=0.0, pp_shown=1.0,
    cp_hidden=0.0, logit_bytes=6.0, sent_bytes=2.0, update_bytes=0.0, clips=0.0,
)  # fmt: skip
"""Rates are those of the chip (`MachineRates`), gradients as wide as their weights. Kernels of
softmax apart and of mixers without softmax reach half of the rate of large products, as
`operators.model` assumes of attention of which only the amount of arithmetic is known."""

KEPT = MemoryConstants(gradient_bytes=2.0, context_bytes=0.0, reserve=1.0)
"""ZeRO's count of states, and no runtime: plans leave that to the reserve of the machine."""

NO_RUNS = "generic: kernels and messages as they take alone, which no published run does"
"""Why there is no interval."""
