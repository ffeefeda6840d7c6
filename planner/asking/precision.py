"""An element type that nobody chose: what the usual one would change."""

from __future__ import annotations

from costmodel.memory import Optimizer, parameter_bytes
from ir.dtypes import SHORT_NAMES
from ir.normalise import main_dtype
from ir.plan import Plan
from planner.moving import retyped
from planner.request import RequestError
from topology.cluster import Chip, Cluster
from topology.units import format_bytes, format_flops, format_seconds

WIDE = "float32"
OWN_TYPE = f"{WIDE} as the model has it"
_USUAL = ("bf16", "fp16")
"""What a network is trained in, the better one first."""


def precision_notes(plan: Plan) -> tuple[str, ...]:
    """What the usual element type would change, where a plan computes in float32 because the model
    says so; else nothing.

    A plan of one stage is priced in the other type as it stands; of several stages the bytes and
    the rates are told, since to price all of them again would take long.
    """
    cluster = Cluster.from_dict(plan.cluster)
    usual = next((short for short in _USUAL if cluster.chip.supports(SHORT_NAMES[short])), None)
    if plan.request.get("dtype") is not None or main_dtype(plan.graph) != WIDE or usual is None:
        return ()
    change = _priced(plan, cluster, usual) or _told(plan, cluster.chip, usual)
    return (f"{OWN_TYPE}; with --dtype {usual} {change}",)


def _priced(plan: Plan, cluster: Cluster, short: str) -> str:
    """What the plan would take in the other type; nothing where it cannot be priced so."""
    if plan.pipeline is not None:
        return ""
    try:
        other = retyped(plan, cluster, SHORT_NAMES[short]).estimate
    except RequestError:
        return ""
    time, memory = format_seconds(other.step_time_s), format_bytes(other.peak_memory_bytes)
    return f"these splits take {time} and {memory} a device"


def _told(plan: Plan, chip: Chip, short: str) -> str:
    """What differs between the two types."""
    usual, training = SHORT_NAMES[short], bool(plan.request.get("training"))
    optimizer = Optimizer(str(plan.request.get("optimizer")))
    kept = " instead of ".join(
        f"{parameter_bytes(dtype, optimizer, training=training).resident:g}"
        for dtype in (usual, WIDE)
    )
    rates = " instead of ".join(
        format_flops(chip.peak_flops[dtype]) for dtype in (usual, WIDE) if chip.supports(dtype)
    )
    return (
        "an element of weights, activations and messages has 2 bytes instead of 4, a parameter "
        f"with its states {kept}, and products reach {rates} at most"
    )
