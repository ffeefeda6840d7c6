"""MindSpore's communication-group file: the groups that one rank takes part in.

The environment variable GROUP_INFO_FILE and `AutoParallel.set_group_ckpt_save_file` name it. It
also lists the ranks whose checkpoints are the same as this one's (`restore_group_info_list`).

Source: MindSpore 2.7.0, `utils/node_strategy.proto` (ParallelGroupMap) and
`frontend/parallel/device_manager.cc`, GenerateGroupNameByRanks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from exporters.errors import ExportError, StrategyFileError
from exporters.protobuf_wire import UINT32, Message, bytes_field, integer_fields
from exporters.settings import Setting
from ir.plan import Plan
from ir.plan_stages import axis_groups, stage_plan, stage_size
from ir.violations import Violation
from ir.wire import WireError

SETTINGS = (Setting("rank", "0 to the number of devices", "whose groups; 0 by default"),)
_FIX = "save the file again; it holds groups, no strategies"
_WORD = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907


@dataclass(frozen=True, slots=True)
class Group:
    """One communication group."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupFile:
    """What such a file says."""

    groups: tuple[Group, ...]
    """Those of a part of the devices; the world group goes without saying."""
    same: tuple[int, ...]
    """Ranks that hold the same part of every parameter, this one among them."""


def group_name(ranks: Sequence[int]) -> str:
    """What MindSpore calls a group: its size and a hash of its ranks.

    >>> group_name((0, 1, 2, 3))
    '4-6301172352641561019'
    """
    return f"{len(ranks)}-{_hash('-'.join(map(str, ranks)).encode())}"


def _hash(data: bytes) -> int:
    """MurmurHash64A, which libstdc++ has as `std::hash<std::string>`."""
    value = _SEED ^ (len(data) * _MULTIPLIER & _WORD)
    whole = len(data) & ~7
    for start in range(0, whole, 8):
        word = int.from_bytes(data[start : start + 8], "little") * _MULTIPLIER & _WORD
        value = (value ^ (_mixed(word) * _MULTIPLIER & _WORD)) * _MULTIPLIER & _WORD
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _WORD
    return _mixed(_mixed(value) * _MULTIPLIER & _WORD)


def _mixed(value: int) -> int:
    return value ^ (value >> 47)


def groups_of(plan: Plan, rank: int = 0) -> GroupFile:
    """The groups of a rank that the plan's collectives need, in the order of the collectives.

    Raises:
        ExportError: there is no such rank.
    """
    if not 0 <= rank < plan.devices:
        what = f"the plan has no rank {rank}"
        fix = f"choose one from 0 to {plan.devices - 1}"
        raise ExportError(Violation(what, "--set rank", fix))
    if not plan.pipeline.is_single:
        return _in_part(plan, rank)
    every = [_members(plan, rank, axes) for axes in dict.fromkeys(i.axes for i in plan.collectives)]
    groups = [ranks for ranks in dict.fromkeys(every) if 1 < len(ranks) < plan.devices]
    used = {axis for each in plan.parameters for dim in each.layout.dims for axis in dim}
    free = [name for name, _, _ in plan.mesh if name not in used]
    return GroupFile(
        tuple(Group(group_name(ranks), ranks) for ranks in groups),
        _members(plan, rank, free),
    )


def _in_part(plan: Plan, rank: int) -> GroupFile:
    """The groups of a rank among those that run the same pipeline stages."""
    pipeline = plan.pipeline
    part, place = divmod(rank, stage_size(plan, 0))
    stages = range(part, len(pipeline.stages), pipeline.parts)
    found = [groups_of(stage_plan(plan, stage), place) for stage in stages]
    first = part * stage_size(plan, 0)
    every = dict.fromkeys(group.ranks for own in found for group in own.groups)
    members = [tuple(first + rank for rank in ranks) for ranks in every]
    same = set(found[0].same).intersection(*(own.same for own in found))
    return GroupFile(
        tuple(Group(group_name(ranks), ranks) for ranks in members),
        tuple(sorted(first + rank for rank in same)),
    )


def _members(plan: Plan, rank: int, axes: Collection[str]) -> tuple[int, ...]:
    """Ranks that differ from one in these axes alone, ascending."""
    return next(group for group in axis_groups(plan, axes) if rank in group)


def to_protobuf(content: GroupFile) -> bytes:
    """The bytes that MindSpore writes for these groups."""
    items = (
        bytes_field(
            1,
            bytes_field(1, group.name.encode()) + bytes_field(2, integer_fields(1, group.ranks)),
        )
        for group in content.groups
    )
    return b"".join((*items, bytes_field(2, integer_fields(1, content.same))))


def from_protobuf(data: bytes) -> GroupFile:
    """The groups that these bytes hold.

    Raises:
        StrategyFileError: they hold none, with the byte where that shows.
    """
    try:
        root = Message.parse(data)
        return GroupFile(
            tuple(
                Group(
                    each.text(1, "group_name"),
                    each.message(2, "parallel_group_ranks").integers(1, "dim", UINT32),
                )
                for each in root.messages(1, "parallel_group_item")
            ),
            root.message(2, "ckpt_restore_rank_list").integers(1, "dim", UINT32),
        )
    except WireError as error:
        place = f"byte {error.offset}"
        raise StrategyFileError(Violation(error.what, place, _FIX)) from error
