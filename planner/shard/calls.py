"""Calls of MindSpore's `shard`, and the file that lists those of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from planner.request import RequestError
from topology.errors import ClusterError
from topology.reading import plain_values

Own: TypeAlias = tuple[int, ...]
"""Cuts of the dimensions of one tensor."""

_CONTEXT = ("mode", "parallel_mode", "search_mode", "dataset_strategy", "release")
_CALL = (
    "cell", "function", "in_strategy", "out_strategy", "parameter_plan", "device", "level",
    "assigned_to", "inside",
)  # fmt: skip
_RELEASE = re.compile(r"(\d{1,3})\.(\d{1,3})(\.\d{1,3})?")
_MOST_CALLS = 10_000
_FIX = "write it as docs/mindspore.md shows"


@dataclass(frozen=True, slots=True)
class ShardIssue:
    """Something that MindSpore refuses in a call, or passes over."""

    code: str
    """`E_SHARD_...` is refused, `W_SHARD_...` is told."""
    what: str
    where: str
    fix: str = ""

    @property
    def is_error(self) -> bool:
        return self.code.startswith("E_")

    def __str__(self) -> str:
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{self.code} {self.what}\n  at:  {self.where}{fix}"


class ShardError(RequestError):
    """Calls that MindSpore refuses; `issues` has all of them."""

    def __init__(self, *issues: ShardIssue) -> None:
        super().__init__("\n".join(str(issue) for issue in issues))
        self.issues = issues


@dataclass(frozen=True, slots=True)
class ShardContext:
    """What the context of the program is where `shard` is called."""

    mode: str = "PYNATIVE_MODE"
    parallel_mode: str = "auto_parallel"
    search_mode: str = "sharding_propagation"
    dataset_strategy: str = "data_parallel"
    """`data_parallel` or `full_batch`: also how results of a call are laid out."""
    release: tuple[int, int] = (2, 2)
    """From 2.3 on `shard` also works in graph mode and in semi_auto_parallel."""


@dataclass(frozen=True, slots=True)
class ShardCall:
    """`shard(fn, in_strategy, out_strategy, parameter_plan, device, level)`."""

    target: str
    """The path of a cell, or the name of a function: the scope of its operators."""
    is_cell: bool
    in_strategy: tuple[Own | None, ...]
    """None entries are derived."""
    out_strategy: tuple[Own | None, ...] | None = None
    parameter_plan: Mapping[str, Own] = field(default_factory=lambda: MappingProxyType({}))
    device: str = "Ascend"
    level: int = 0
    assigned_to: str = ""
    """The attribute that the result is assigned to, if any."""
    inside: str = ""
    """`vmap` or `shard`, if the call stands inside a function given to it."""

    def __str__(self) -> str:
        return f"shard of {'cell' if self.is_cell else 'function'} {self.target!r}"


def read_calls(text: str, where: str) -> tuple[ShardContext, tuple[ShardCall, ...]]:
    """The context and the calls of a file, YAML or JSON.

    Raises:
        ShardError: it is no such file.
    """
    try:
        record = dict(plain_values(text, where))
    except ClusterError as error:
        raise _fault(error.what, error.where, error.fix) from error
    unknown = sorted(set(record) - {*_CONTEXT, "calls"})
    if unknown:
        raise _fault(f"no field {unknown[0][:80]!r}", where, f"use {', '.join(_CONTEXT)}, calls")
    calls = record.pop("calls", None)
    if not isinstance(calls, list) or len(calls) > _MOST_CALLS:
        fix = "list the calls; an empty list leaves all data parallel"
        raise _fault("there are no calls", f"{where}, calls", fix)
    context = {name: _text(value, f"{where}, {name}") for name, value in record.items()}
    release = context.pop("release", "")
    made = ShardContext(**context)  # type: ignore[arg-type]  # release is apart
    if release:
        made = ShardContext(**context, release=_release(release, where))
    return made, tuple(_call(each, f"{where}, calls[{i}]") for i, each in enumerate(calls))


def _fault(what: str, where: str, fix: str = _FIX) -> ShardError:
    return ShardError(ShardIssue("E_SHARD_FILE", what, where, fix))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str | float | int) or len(str(value)) > 200:
        raise _fault("it is no word", where)
    return str(value)


def _release(text: str, where: str) -> tuple[int, int]:
    found = _RELEASE.fullmatch(text)
    if found is None:
        raise _fault(f"{text!r} is no release", f"{where}, release", "write such as '2.3'")
    return int(found[1]), int(found[2])


def _call(record: object, where: str) -> ShardCall:
    if not isinstance(record, Mapping):
        raise _fault("a call is no mapping", where)
    unknown = sorted(str(name) for name in set(record) - set(_CALL))
    if unknown:
        raise _fault(f"no field {unknown[0][:80]!r}", where, f"use {', '.join(_CALL)}")
    targets = [name for name in ("cell", "function") if name in record]
    if len(targets) != 1 or not isinstance(record[targets[0]], str) or not record[targets[0]]:
        raise _fault("a call names one cell or one function", where)
    if "in_strategy" not in record:
        raise _fault("a call has no in_strategy", where)
    out = record.get("out_strategy")
    level = record.get("level", 0)
    if type(level) is not int:
        raise _fault("the level is no whole number", f"{where}, level")
    return ShardCall(
        target=record[targets[0]],
        is_cell=targets[0] == "cell",
        in_strategy=_strategy(record["in_strategy"], f"{where}, in_strategy"),
        out_strategy=None if out is None else _strategy(out, f"{where}, out_strategy"),
        parameter_plan=_plan(record.get("parameter_plan"), f"{where}, parameter_plan"),
        device=_text(record.get("device", "Ascend"), f"{where}, device"),
        level=level,
        assigned_to=_text(record.get("assigned_to", ""), f"{where}, assigned_to"),
        inside=_text(record.get("inside", ""), f"{where}, inside"),
    )


def _strategy(value: object, where: str) -> tuple[Own | None, ...]:
    if not isinstance(value, list) or not value:
        raise _fault("a strategy is no list with an entry for each tensor", where)
    return tuple(None if each is None else _own(each, where) for each in value)


def _own(value: object, where: str) -> Own:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _fault("an entry is no list of cuts", where)
    cuts: list[Any] = list(value)
    if not all(type(cut) is int and cut > 0 for cut in cuts):
        raise _fault("cuts are whole numbers from 1 on", where)
    return tuple(cuts)


def _plan(value: object, where: str) -> Mapping[str, Own]:
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _fault("it is no mapping of names to cuts", where)
    return MappingProxyType({name: _own(cuts, where) for name, cuts in value.items()})
