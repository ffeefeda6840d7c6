"""What published runs say of a plan's step, in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from topology.units import format_seconds

if TYPE_CHECKING:
    from ir.plan_estimate import Estimate, Published

__all__ = [
    "CONTEXT_PARALLEL", "DENSE", "KINDS", "QUARTER", "ROUTED", "expected_s", "expected_text",
    "expected_upper_s", "published_note",
]  # fmt: skip

DENSE, ROUTED, CONTEXT_PARALLEL = "dense", "routed", "context parallel"

KINDS: Mapping[str, str] = MappingProxyType(
    {
        DENSE: "dense transformers",
        ROUTED: "mixtures of experts",
        CONTEXT_PARALLEL: "dense transformers with context parallelism",
    }
)
"""What runs are told apart by, in words. Mixtures are routed with and without context parallelism.
"""


QUARTER = 0.41
"""Share of the distance from the median to the 95 % end at the 75th percentile (normal)."""


def expected_s(estimate: Estimate) -> tuple[float, float] | None:
    """Between which seconds a step is expected on real machines; None where no published run is
    like it.

    Without a software profile the ends are ratios to steps in which nothing overlaps: what real
    software hides is in them.
    """
    found = estimate.published
    if found is None:
        return None
    step_s = _compared_s(estimate, found)
    return step_s * found.low, step_s * found.high


def expected_upper_s(estimate: Estimate) -> float | None:
    """Three of four such steps take no longer on real machines, which is more where runs differ
    more; None where no published run is like it.
    """
    found = estimate.published
    if found is None:
        return None
    middle = _compared_s(estimate, found) * found.middle
    return middle * float((found.high / found.middle) ** QUARTER)


def _compared_s(estimate: Estimate, found: Published) -> float:
    """The seconds that the ends are ratios to."""
    return estimate.step_time_s + (0.0 if found.with_software else estimate.hidden_s)


def expected_text(estimate: Estimate) -> str:
    """The same in two digits, such as `4.1 s to 6.2 s`; empty where no published run is like it."""
    ends = expected_s(estimate) or ()
    return " to ".join(format_seconds(float(f"{end_s:.2g}")) for end_s in ends)


def published_note(estimate: Estimate) -> str:
    """What the seconds of a plan rest on, as one of its notes."""
    found = estimate.published
    if found is None:
        rest = "other times rest on data sheets and assumed efficiencies"
        if not estimate.unlike:
            return f"no step was measured: {rest}"
        return f"no published run is like this step: {estimate.unlike}; {rest}"
    where = f"chips of this generation ({found.of})" if found.of else "chips of all generations"
    return (
        f"no step of this plan was measured; {found.runs} published runs of {KINDS[found.kind]} on "
        f"{where}: measured over predicted {found.low:.2f} to {found.high:.2f} (90 % interval), "
        f"median {found.middle:.2f}"
    )
