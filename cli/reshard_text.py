"""What `planner reshard` did or would do, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.text import tell
from costmodel.transfers import TransferSchedule, scheduled, tier_distance
from executors.checkpoint.pairing import needs
from ir.transfers import Traffic, traffic
from planner.repricing.migration_cost import migration
from report.tables import Lines, Table
from topology.cluster import Cluster
from topology.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from cli.reshard_layouts import GivenLayout
    from executors.checkpoint.moving import Move, Outcome

_MOST_SHOWN = 16


def print_outcome(done: Outcome, move: Move, out: Path, *, as_json: bool) -> None:
    """What was written."""
    if as_json:
        facts = {
            "status": "done",
            "folder": str(out),
            "files": [str(output.file.path) for output in move.outputs],
            "tensors": len(move.wanted),
            "bytes": move.nbytes,
            "written_bytes": done.written_bytes,
            "resumed_bytes": done.resumed_bytes,
            "peak_memory_bytes": done.peak_memory_bytes,
        }
        print(json.dumps(facts))
        return
    again = ""
    if done.resumed_bytes:
        again = f", {format_bytes(done.resumed_bytes)} of them by an earlier attempt"
    told = (
        f"{len(move.wanted)} tensors in {len(move.outputs)} files, "
        f"{format_bytes(move.nbytes)}{again}; memory {format_bytes(done.peak_memory_bytes)}"
    )
    tell((Lines("", (told,)), Lines("", (str(out),), soft_wrap=True)))


def print_dry_run(move: Move, cluster: Cluster | None, *, as_json: bool) -> None:
    """What a move would do: bytes between ranks, the ranks that each new one needs, the time."""
    near = (lambda one, other: tier_distance(cluster, one, other)) if cluster else None
    found = traffic(needs(move.wanted)) if near is None else traffic(needs(move.wanted), near)
    schedule = None if cluster is None else scheduled(found.messages, cluster)
    ranks = found.sources()
    if as_json:
        facts = _traffic_facts(found, schedule) | {
            "tensors": len(move.wanted),
            "bytes": move.nbytes,
            "rank_list": {str(rank): list(sources) for rank, sources in ranks.items()},
        }
        print(json.dumps({"status": "planned"} | facts))
        return
    told = f"{len(move.wanted)} tensors, {len(move.outputs)} files of {format_bytes(move.nbytes)}"
    rows = [(rank, ", ".join(map(str, own))) for rank, own in ranks.items()][:_MOST_SHOWN]
    more = len(ranks) - _MOST_SHOWN
    after = [f"and {more} more; all of them with --json"] if more > 0 else []
    needed = Table.of("Files needed", ("rank", "source ranks"), rows, after=after)
    tell((Lines("", (told, *_traffic_lines(found, schedule, cluster))), needed))


def print_migration(
    plans: tuple[GivenLayout, GivenLayout], lost: Sequence[int], *, as_json: bool
) -> None:
    """What it costs to go on with another plan."""
    old, new = (each.plan for each in plans)
    assert old is not None
    assert new is not None
    found = migration(old, new, lost)
    if as_json:
        print(json.dumps({"status": "planned"} | _traffic_facts(found.traffic, found.schedule)))
        return
    cluster = Cluster.from_dict((old if old.devices >= new.devices else new).cluster)
    after = f", {len(lost)} of them lost" if lost else ""
    told = f"from {old.devices} devices{after} to {new.devices}"
    tell((Lines("", (told, *_traffic_lines(found.traffic, found.schedule, cluster))),))


def _traffic_facts(found: Traffic, schedule: TransferSchedule | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "moved_bytes": found.moved_bytes,
        "kept_bytes": found.kept_bytes,
        "lost_bytes": found.lost_bytes,
        "messages": [[s, r, nbytes] for (s, r), nbytes in found.messages.items()],
    }
    if schedule is not None:
        facts |= {
            "time_s": schedule.time_s,
            "bound_s": schedule.bound_s,
            "rounds": [
                {"time_s": each.time_s, "messages": [list(m) for m in each.messages]}
                for each in schedule.rounds
            ],
        }
    return facts


def _traffic_lines(
    found: Traffic, schedule: TransferSchedule | None, cluster: Cluster | None
) -> Iterable[str]:
    yield (
        f"{format_bytes(found.moved_bytes)} move between devices in {len(found.messages)} "
        f"messages, {format_bytes(found.kept_bytes)} are there already"
    )
    if found.lost:
        yield (
            f"{format_bytes(found.lost_bytes)} are on no device any more: "
            f"{len(found.lost)} devices read them from a checkpoint"
        )
    if schedule is None:
        yield "no machine is named, so there is no time: pass --cluster"
        return
    name = cluster.name if cluster is not None else ""
    yield (
        f"{format_seconds(schedule.time_s)} in {len(schedule.rounds)} rounds over the links of "
        f"{name}; no order takes less than {format_seconds(schedule.bound_s)}"
    )
