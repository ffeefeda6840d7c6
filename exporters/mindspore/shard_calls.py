"""A plan as calls of `shard` on cells, as MindSpore's tutorials on functional sharding write them.

MindSpore derives what is inside a cell by sharding propagation, so a call says how arguments arrive
and how parameters are cut. `planner search --shard` reads the same calls as YAML.

Source: MindSpore 2.10.0, `parallel/shard.py`; its tutorial on functional operator splitting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from exporters.errors import ExportError
from exporters.mindspore.checkpoint import strategy_checkpoint
from exporters.python_tables import table
from exporters.settings import Made, Setting, Settings, fault
from ir.graph import Op, Role
from ir.plan import Plan, PlannedOperator
from ir.violations import Violation

__all__ = ["SETTINGS", "CellCall", "calls_of", "shard_module"]

Own: TypeAlias = tuple[int, ...]
SETTINGS = (
    Setting("cells", "PATH[,PATH...]", "cells to call shard on; by default those of the network"),
    Setting("form", "python|yaml", "a module, or calls for planner search --shard"),
)
_MODULE = '''"""Calls of shard that split {model} on {devices} devices.

Written by `planner export --format mindspore-shard`. MindSpore derives what is inside a cell:

    import shard_mindspore as sharding

    sharding.start()
    network = ...
    sharding.sharded(network)
"""

import mindspore as ms
from mindspore.communication import init

DEVICES = {devices}

CALLS = {calls}
"""By cell: how its arguments arrive, how its results leave (MindSpore takes no notice), and how
its parameters are cut."""


def start():
    """PyNative mode, in which sharding propagation derives what no call says."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    init()
    ms.set_auto_parallel_context(
        parallel_mode="auto_parallel",
        search_mode="sharding_propagation",
        dataset_strategy="data_parallel",
        device_num=DEVICES,
    )


def sharded(network):
    """Shard every cell that is listed.

    Releases in which `Cell.shard` gives a function hold it beside the cell, as <cell>_graph: these
    names are returned, and construct calls them in place of the cells. 2.10 shards the cell itself.
    """
    cells = dict(network.cells_and_names())
    added = []
    for path, (arguments, results, parameters) in CALLS.items():
        outer, _, name = path.rpartition(".")
        function = cells[path].shard(arguments, results, parameters)
        if function is not None:
            object.__setattr__(cells[outer], name + "_graph", function)
            added.append(path + "_graph")
    return added
'''
_HEAD = """# Calls of shard that split {model} on {devices} devices, for planner search --shard.
dataset_strategy: data_parallel
release: '2.10'
calls:
"""


@dataclass(frozen=True, slots=True)
class CellCall:
    """One call."""

    cell: str
    arguments: tuple[Own, ...]
    results: tuple[Own, ...]
    parameters: Mapping[str, Own]
    """By `self.` and the name, cuts of those that are cut."""


def shard_module(plan: Plan, settings: Settings) -> Made:
    """Text of the calls.

    Raises:
        ExportError: the plan has stages, or a cell is not in it.
    """
    calls = list(calls_of(plan, _cells(plan, settings)))
    form = settings.choice("form", ("python", "yaml"), "python")
    model = re.sub(r"[^\w.-]", "_", plan.graph.name, flags=re.ASCII) or "the model"
    if form == "yaml":
        head = _HEAD.format(model=model, devices=plan.devices)
        return Made({"": head + "".join(map(_yaml, calls))}, _notes(calls))
    entries = {each.cell: (each.arguments, each.results, dict(each.parameters)) for each in calls}
    text = _MODULE.format(model=model, devices=plan.devices, calls=table(entries))
    return Made({"": text}, _notes(calls))


def _notes(calls: list[CellCall]) -> tuple[str, ...]:
    several = [each.cell for each in calls if len(each.arguments) > 1]
    notes = ["MindSpore derives what is inside a cell, which may differ from the plan"]
    if several:
        notes.append(f"arguments of {', '.join(several)} stand in the order in which they are read")
    return tuple(notes)


def _cells(plan: Plan, settings: Settings) -> list[str]:
    if not plan.pipeline.is_single:
        what = "the plan has pipeline stages, which shard does not know"
        raise ExportError(Violation(what, "--pipeline", "plan without stages"))
    scopes = {op.scope for op in plan.operators if op.scope}
    known = {".".join(s.split(".")[:n]) for s in scopes for n in range(1, s.count(".") + 2)}
    if not settings.has("cells"):
        return sorted({scope.partition(".")[0] for scope in scopes})
    wanted = re.findall(r"[^\s,]+", settings.text("cells", ""))
    strange = [path for path in wanted if path not in known]
    if strange or not wanted:
        what = f"no cell {strange[0][:80]!r}" if strange else "no cells"
        raise fault(what, "cells", f"known: {', '.join(sorted(known)[:10])}")
    return wanted


def calls_of(plan: Plan, cells: list[str]) -> Iterator[CellCall]:
    """The calls for cells that take a tensor, in the order given."""
    sizes = plan.axis_sizes
    stored = {each.name: each.cuts for each in strategy_checkpoint(plan).layouts}
    pairs = list(zip(plan.graph.ops, plan.operators, strict=True))
    for path in cells:
        own = [(op, o) for op, o in pairs if o.scope == path or o.scope.startswith(f"{path}.")]
        arguments = dict(_read(plan, own, sizes))
        if not arguments:
            continue
        held = {name: cuts for name, cuts in stored.items() if name.startswith(f"{path}.")}
        parameters = {f"self.{n}": cuts for n, cuts in held.items() if max(cuts, default=1) > 1}
        results = tuple(_left(plan, own, sizes))
        yield CellCall(path, tuple(arguments.values()), results, parameters)


_LENT = frozenset({Role.PARAMETER, Role.CONSTANT, Role.BUFFER})
"""Roles of what is no argument of a call."""
Pairs: TypeAlias = list[tuple[Op, PlannedOperator]]


def _read(plan: Plan, own: Pairs, sizes: Mapping[str, int]) -> Iterator[tuple[str, Own]]:
    """What comes from outside, with the cuts of its first reader."""
    made = {name for op, _ in own for name in op.outputs}
    seen: set[str] = set()
    for op, planned in own:
        for name, layout in zip(op.inputs, planned.inputs, strict=True):
            if not name or name in made or name in seen or layout is None:
                continue
            seen.add(name)
            if plan.graph.tensors[name].role not in _LENT:
                yield name, layout.shards(sizes)


def _left(plan: Plan, own: Pairs, sizes: Mapping[str, int]) -> Iterator[Own]:
    """What others read, or the network returns."""
    inside = {op.name for op, _ in own}
    readers = plan.graph.consumers()
    for op, planned in own:
        for name, layout in zip(op.outputs, planned.outputs, strict=True):
            outer = any(reader.name not in inside for reader in readers.get(name, ()))
            if layout is not None and (outer or name in plan.graph.outputs):
                yield layout.shards(sizes)


def _yaml(call: CellCall) -> str:
    lines = [f"  - cell: {call.cell}", f"    in_strategy: {[list(own) for own in call.arguments]}"]
    if call.results:
        lines.append(f"    out_strategy: {[list(own) for own in call.results]}")
    if call.parameters:
        lines.append("    parameter_plan:")
        lines += [f"      {name}: {list(cuts)}" for name, cuts in call.parameters.items()]
    return "\n".join(lines) + "\n"
