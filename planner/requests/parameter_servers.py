"""`--servers 'count=4,mode=async,...'`: replicas that exchange gradients through servers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from costmodel.simulation.parameter_server import (
    Change,
    ChangedRun,
    Member,
    ServedRate,
    ServedTraining,
    ServerError,
    Servers,
    Workers,
    changed_run,
    served_rate,
    served_training,
)
from costmodel.simulation.workers import layout_workers, plan_workers
from costmodel.training.records import TrainingRun
from ir.plan import Plan
from planner.requests.errors import UserError, unknown_name
from planner.requests.option_texts import named_parts
from topology.errors import UnitError
from topology.units import parse_bandwidth

KEYS = ("count", "mode", "port", "update", "slow", "lose", "add", "downtime", "horizon")
MAX_WORKERS = 4096
_FIX = (
    "give a layout of dp alone, or a plan that is data parallel, such as `planner import-strategy "
    "dp=16 MODEL --devices 16 -o dp.json` writes"
)
_CHANGE = re.compile(r"(\d{1,4}x)?(worker|server)@(\d{1,9}(?:\.\d{1,6})?)")


@dataclass(frozen=True, slots=True)
class Served:
    """What was simulated."""

    workers: Workers
    training: ServedTraining
    rate: ServedRate
    changed: ChangedRun | None
    horizon_s: float


def served_layout(run: TrainingRun, text: str) -> Served:
    """Simulate the replicas of a layout with servers; raises as `served_plan`."""
    return _served(partial(layout_workers, run), text)


def served_plan(plan: Plan, text: str) -> Served:
    """Simulate the devices of a plan with servers.

    Raises:
        UserError: something in the text cannot be, or the devices are no workers that are alike.
    """
    return _served(partial(plan_workers, plan), text)


def _served(made: Callable[[], Workers], text: str) -> Served:
    parts = named_parts(text, KEYS, "part of --servers", "--servers")
    change, horizon_s = _change(parts)
    servers = _servers(parts)
    try:
        workers = made()
        _check_members(workers.count, servers, change)
        training = served_training(workers, servers)
        rate = served_rate(training)
        changed = None if change is None else changed_run(training, change, horizon_s)
    except ServerError as error:
        raise UserError(str(error), f"--servers {text}", _FIX) from error
    return Served(workers, training, rate, changed, horizon_s)


def _check_members(workers: int, servers: Servers, change: Change | None) -> None:
    """Raise `UserError` if there are too many, or fewer than are slow or lost."""
    if workers > MAX_WORKERS:
        raise UserError(
            f"{workers} workers; at most {MAX_WORKERS} are simulated", "--servers", "lower dp"
        )
    if servers.slow_workers > workers:
        raise UserError(
            f"{servers.slow_workers} workers are slow, of {workers}",
            "--servers slow=",
            f"give {workers} at most, or a larger dp",
        )
    if change is None:
        return
    there = workers if change.member is Member.WORKER else servers.count
    if there + change.count < 1:
        name = f"{change.member}s"
        raise UserError(
            f"{-change.count} of {there} {name} are lost: none is left",
            "--servers lose=",
            "lose fewer, or give more of them",
        )


def _servers(parts: Mapping[str, str]) -> Servers:
    count = parts.get("count", "1")
    if not (count.isdecimal() and len(count) < 7 and int(count) > 0):
        raise UserError(f"count={count[:40]} is no number of servers", "--servers", "write count=4")
    mode = parts.get("mode", "sync")
    if mode not in {"sync", "async"}:
        raise unknown_name("mode", mode, ("sync", "async"), "--servers mode=")
    slow = re.fullmatch(r"(\d{1,6})x(\d{1,6}(?:\.\d{1,9})?)", parts.get("slow", "0x1"))
    if slow is None or float(slow.group(2)) < 1:
        raise UserError(f"slow={parts['slow'][:40]}", "--servers", "write it like slow=1x1.5")
    return Servers(
        int(count),
        mode == "sync",
        _port(parts.get("port")),
        _seconds(parts, "update", 0.0),
        int(slow.group(1)),
        float(slow.group(2)),
    )


def _port(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        rate = parse_bandwidth(text)
    except UnitError as error:
        raise UserError(str(error).partition("\n")[0], "--servers port=", "write 25GB/s") from error
    if not rate:
        raise UserError(f"port={text} moves nothing", "--servers", "write it like port=25GB/s")
    return rate


def _seconds(parts: Mapping[str, str], key: str, default: float) -> float:
    try:
        value = float(parts.get(key, default))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UserError(
            f"{key}={parts[key][:40]} is no time in seconds", "--servers", f"write it like {key}=30"
        )
    return value


def _change(parts: Mapping[str, str]) -> tuple[Change | None, float]:
    """Who is lost or added, and how long the run is."""
    if "lose" in parts and "add" in parts:
        raise UserError("somebody is lost and somebody added", "--servers", "give one of the two")
    horizon_s = _seconds(parts, "horizon", 3600.0)
    for key, sign in (("lose", -1), ("add", 1)):
        if key in parts:
            found = _CHANGE.fullmatch(parts[key])
            if found is None:
                raise UserError(
                    f"{key}={parts[key][:40]}", "--servers", f"write it like {key}=worker@600"
                )
            count = int((found.group(1) or "1x")[:-1])
            downtime_s = _seconds(parts, "downtime", 0.0)
            member, at_s = Member(found.group(2)), float(found.group(3))
            return Change(member, sign * count, at_s, downtime_s), horizon_s
    unheeded = [key for key in ("downtime", "horizon") if key in parts]
    if unheeded:
        raise UserError(
            f"{unheeded[0]} is of a change, but no member is lost or added",
            "--servers",
            f"add lose=worker@600 or add=server@600, or leave {unheeded[0]} out",
        )
    return None, horizon_s


def served_json(found: Served) -> dict[str, object]:
    """The JSON object of a simulation with servers."""
    changed = None if found.changed is None else asdict(found.changed)
    return {
        "status": "ok",
        "name": found.workers.name,
        "step_time_s": found.rate.step_s,
        "samples_per_s": found.rate.batches_per_s * found.workers.samples,
        "samples_of_batch": found.workers.samples,
        "tokens_per_s": found.rate.batches_per_s * found.workers.tokens,
        "communication_s": found.rate.communication_s,
        "staleness": found.rate.staleness,
        "workers": len(found.training.compute_s),
        "servers": found.training.servers,
        "synchronous": found.training.synchronous,
        "exchanged_bytes": found.training.nbytes,
        "change": changed,
        "horizon_s": found.horizon_s if changed else None,
    }
