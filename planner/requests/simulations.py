"""What a simulation of a plan is asked, as text, and the simulation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.simulation.buckets import Fusion, FusionMode
from costmodel.simulation.effects import FUSED_KINDS, Contention, Effects
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.result import Simulation
from costmodel.simulation.variation import SHAPES, Distribution, Variation
from ir.plan import Plan
from planner.repricing.other_machine import repriced
from planner.requests.errors import UserError, unknown_name
from planner.requests.machines import named_machine
from planner.requests.options.option import check_values
from planner.requests.options.simulations import SimulationOptions
from planner.requests.sources import Document
from topology.cluster import Cluster
from topology.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from costmodel.simulation.accounting import Account
    from costmodel.simulation.memory import MemoryCurve
    from costmodel.simulation.result import Simulation

_MEBIBYTE = 2**20


def effects(asked: SimulationOptions) -> Effects:
    """Overlap, contention and fusion."""
    if not 0 <= asked.interference < 1:
        raise UserError(
            f"--interference {asked.interference:g}", "--interference", "give 0 to below 1"
        )
    check_values(asked)
    fusion = dict(_fusion(text) for text in asked.fusion)
    mode = Contention(asked.contention)
    beside = asked.overlap == "auto"
    return Effects(beside, mode, fusion, asked.prefetch, asked.interference)


def variation_asked(asked: SimulationOptions) -> Variation:
    """How devices differ."""
    check_values(asked)
    count, factor = _stragglers(asked.stragglers)
    return Variation(
        _distribution(asked.jitter, "--jitter"),
        _distribution(asked.spread, "--spread"),
        count,
        factor,
        asked.samples,
        asked.seed,
    )


def placed(asked: SimulationOptions, plan: Plan, machine_file: Document | None = None) -> Plan:
    """The plan on the machine that was asked for.

    Raises:
        RequestError: the plan cannot be moved there.
    """
    if asked.cluster is None and not asked.bandwidth and asked.calibration is None:
        return plan
    machine = Cluster.from_dict(plan.cluster)
    if asked.cluster is not None:
        named = asked.cluster if machine_file is None else machine_file
        machine = named_machine(named, f"--cluster {asked.cluster}").cluster(plan.devices)
    for text in asked.bandwidth:
        machine = machine.with_bandwidth(*_bandwidth(text))
    if asked.calibration is None:
        return repriced(plan, machine)
    from planner.requests.calibrations import plan_calibrated  # noqa: PLC0415  of steps of layouts

    return plan_calibrated(plan, machine, asked.calibration)


def simulated(
    plan: Plan, options: SimulationOptions, machine_file: Document | None = None
) -> Simulation:
    """The simulation of a plan, on its own machine or on another one.

    Args:
        plan: any.
        options: as text.
        machine_file: what `options.cluster` names, if that is no bundled machine.

    Raises:
        UserError: an option is wrong.
        SimulationError: the plan cannot be simulated so.
    """
    beside, drawn = effects(options), variation_asked(options)
    moved = placed(options, plan, machine_file)
    found = simulate_plan(moved, beside, drawn)
    return found if found.fits or not beside.prefetch else _with_remedy(found, moved, beside)


def _with_remedy(found: Simulation, plan: Plan, beside: Effects) -> Simulation:
    """A simulation that does not fit, told whether gathering nothing ahead of use would help."""
    late = simulate_plan(plan, replace(beside, prefetch=0), Variation())
    if not late.fits:
        return found
    more = format_bytes(found.peak_memory_bytes - late.peak_memory_bytes)
    note = (
        f"parameters gathered ahead of use hold {more} more than the plan; "
        f"with --prefetch 0 it fits, and a step takes {format_seconds(late.step_s)}"
    )
    return replace(found, notes=(*found.notes, note))


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{text!r} is no number", option, "write it like 1.5") from None


def _bandwidth(text: str) -> tuple[str, float]:
    tier, equals, factor = text.partition("=")
    if not equals:
        raise UserError(f"{text!r} names no factor", "--bandwidth", "write it like server=2")
    return tier, _number(factor, "--bandwidth")


def _fusion(text: str) -> tuple[str, Fusion]:
    """One `--fusion`."""
    kind, _, rest = text.partition("=")
    mode, colon, value = rest.partition(":")
    if kind not in FUSED_KINDS:
        raise unknown_name("kind of collective", kind, FUSED_KINDS, f"--fusion {text}")
    modes = [m.value for m in FusionMode]
    if mode not in modes:
        raise unknown_name("mode", mode, modes, f"--fusion {text}")
    if mode == FusionMode.AUTO:
        if colon:
            raise unknown_name("mode", rest, modes, f"--fusion {text}")
        return kind, Fusion()
    if mode == FusionMode.SIZE:
        size = _number(value, "--fusion")
        if not 0 <= size < 1 << 30:
            raise UserError(f"a bucket of {value} MiB", "--fusion", "give 0 (no fusion) or more")
        return kind, Fusion(FusionMode.SIZE, int(size * _MEBIBYTE))
    return kind, _index_fusion(kind, value, text)


def _index_fusion(kind: str, value: str, text: str) -> Fusion:
    if kind != "all_reduce":
        raise UserError(f"{kind} is not fused by index", f"--fusion {text}", "use auto or size:MIB")
    splits = tuple(int(n) for n in value.split(",") if n.isdecimal() and len(n) < 10)
    if len(splits) != len(value.split(",")) or sorted(set(splits)) != list(splits):
        raise UserError(
            f"{value!r} is no list of ascending indices",
            f"--fusion {text}",
            "write it like all_reduce=index:20,35",
        )
    return Fusion(FusionMode.INDEX, splits=splits)


def _distribution(text: str | None, option: str) -> Distribution | None:
    if text is None:
        return None
    shape, _, width = text.partition(":")
    if shape not in SHAPES:
        raise unknown_name("distribution", shape, SHAPES, f"{option} {text}")
    try:
        return Distribution(shape, _number(width, option))
    except ValueError as error:
        raise UserError(str(error), option, "write it like lognormal:0.03") from error


def _stragglers(text: str | None) -> tuple[int, float]:
    if text is None:
        return 0, 1.0
    found = re.fullmatch(r"(\d{1,9})x(\d{1,6}(?:\.\d{1,9})?)", text)
    if found is None or float(found.group(2)) < 1:
        raise UserError(
            f"{text!r} does not say how many devices are how much slower",
            "--stragglers",
            "write it like 2x1.3: two devices take 1.3 times as long",
        )
    return int(found.group(1)), float(found.group(2))


CURVE_POINTS = 200
"""Most points of a memory curve that are printed; the trace has all of them."""


def answer(found: Simulation, files: Sequence[object] = ()) -> dict[str, object]:
    """All that a simulation says, but single tasks."""
    load = found.load
    return {
        "status": "ok",
        "name": found.name,
        "step_time_s": found.step_s,
        "estimate_s": found.estimate_s,
        **found.rates.record(),
        "devices": load.devices,
        **_time(found.account),
        "bubble": None if found.bubble is None else asdict(found.bubble),
        "memory": [_memory(curve) for curve in found.memory],
        "peak_memory_bytes": found.peak_memory_bytes,
        "memory_limit_bytes": load.memory_bytes,
        "fits": found.fits,
        "variation": variation(found),
        "tasks": len(found.timeline.graph),
        "facts": dict(found.facts),
        "notes": list(found.notes),
        "files": [str(p) for p in files],
    }


def _time(account: Account) -> dict[str, object]:
    return {
        "computing_s": dict(account.computing),
        "exposed_communication_s": account.exposed_s,
        "hidden_communication_s": account.hidden_s,
        "waiting_s": account.waiting_s,
        "communication": [
            asdict(item) | {"hidden_s": item.hidden_s} for item in account.communication
        ],
        "per_device": [asdict(device) for device in account.devices],
    }


def _memory(curve: MemoryCurve) -> dict[str, object]:
    """Peak and a thinned curve."""
    kept = highest_points(curve.nbytes, CURVE_POINTS)
    return {
        "device": curve.device,
        "peak_bytes": curve.peak_bytes,
        "peak_at_s": curve.peak_at_s,
        "time_s": curve.time_s[kept].tolist(),
        "bytes": curve.nbytes[kept].tolist(),
    }


def highest_points(values: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Places of so many points of a curve at most, all or the highest of each interval."""
    parts = np.array_split(np.arange(len(values)), min(len(values), most) or 1)
    return np.array([part[values[part].argmax()] for part in parts if len(part)], dtype=np.intp)


def variation(found: Simulation) -> dict[str, object] | None:
    """How long drawn steps take; None without variation."""
    drawn = found.varied_s
    if drawn is None:
        return None
    return {
        "samples": len(drawn),
        "mean_s": float(drawn.mean()),
        "median_s": float(np.median(drawn)),
        "p95_s": float(np.quantile(drawn, 0.95)),
        "largest_s": float(drawn.max()),
        "slower_than_equal_devices": float(drawn.mean() / found.step_s - 1),
    }
