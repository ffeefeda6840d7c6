"""The restrictions of MindSpore's `shard`, each a named error or warning.

Source: MindSpore's tutorial on functional sharding (2.0 to 2.4), and `parallel/shard.py` of 2.10.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from ir.graph import OpGraph
from planner.requests.shard.calls import (
    Own,
    Part,
    Scopes,
    ShardCall,
    ShardContext,
    ShardIssue,
    parameter_name,
    stored_dims,
)

CODES: Mapping[str, str] = {
    "E_SHARD_FILE": "the file of calls is not one",
    "E_SHARD_MODE": "PYNATIVE_MODE with auto_parallel and sharding_propagation only, before 2.3",
    "E_SHARD_DATASET": "results are laid out by full_batch or data_parallel",
    "E_SHARD_DYNAMIC": "no dynamic shapes",
    "E_SHARD_TARGET": "a call is of a cell or function that the model has",
    "E_SHARD_NESTED": "no shard inside shard",
    "E_SHARD_VMAP": "vmap stands inside shard only",
    "E_SHARD_FUNCTION_PARAMETERS": "a function has no parameters (Conv2D, Dense): use a Cell",
    "E_SHARD_PLAN_OF_FUNCTION": "parameter_plan is for a Cell",
    "E_SHARD_ASSIGNED_TO_CELL": "the result is a function and is not assigned over a Cell",
    "E_SHARD_INPUTS": "in_strategy has an entry for each input",
    "E_SHARD_RANK": "an entry has a number for each dimension",
    "E_SHARD_DIVIDE": "cuts divide their dimensions",
    "E_SHARD_DISAGREE": "the entries of a call agree on the operators that read several",
    "E_SHARD_DEVICES": "the parts of a tensor divide the devices",
    "E_SHARD_DEVICE": "the device is Ascend, GPU or CPU",
    "E_SHARD_LEVEL": "the level is 0, 1 or 2",
    "W_SHARD_PARAMETER_UNKNOWN": "entries of parameter_plan with unknown names are skipped",
    "W_SHARD_PARAMETER_SET": "entries of parameter_plan for parameters already set are skipped",
    "W_SHARD_OUT_STRATEGY": "out_strategy is ignored: full_batch or data_parallel decides",
    "W_SHARD_UNUSED": "device and level do nothing yet",
    "W_SHARD_DERIVED": "None entries are derived",
}
"""All codes, with the rule that each stands for."""

_GRAPH_RELEASE = (2, 3)
_MODES = {"PYNATIVE_MODE", "GRAPH_MODE"}
_DEVICES = ("Ascend", "GPU", "CPU")
_LEVELS = (0, 1, 2)
_CELL_FIX = "make it a Cell, and give shard the Cell"


def check_calls(
    graph: OpGraph, calls: Sequence[ShardCall], context: ShardContext, devices: int
) -> tuple[ShardIssue, ...]:
    """Everything that MindSpore would refuse in these calls, or pass over, in their order."""
    scopes = Scopes(graph)
    found = [*_context_issues(graph, context)]
    parts = [scopes.part(call.target) for call in calls]
    taken: set[str] = set()
    for number, (call, part) in enumerate(zip(calls, parts, strict=True)):
        if not part.ops:
            fix = "name a module path of the model; `planner inspect MODEL` shows them"
            found.append(ShardIssue("E_SHARD_TARGET", "the model has no such part", str(call), fix))
            continue
        found += _nesting(number, calls, scopes)
        found += _of_target(call, part, scopes)
        found += _of_inputs(call, part, devices)
        found += _of_parameters(call, part, devices, taken)
        found += _of_rest(call, context)
    return tuple(found)


def _context_issues(graph: OpGraph, context: ShardContext) -> Iterator[ShardIssue]:
    newer = context.release >= _GRAPH_RELEASE
    where = "the context"
    allowed: tuple[tuple[str, str, set[str]], ...] = (
        ("mode", context.mode, _MODES if newer else {"PYNATIVE_MODE"}),
        (
            "parallel_mode",
            context.parallel_mode,
            {"auto_parallel", "semi_auto_parallel"} if newer else {"auto_parallel"},
        ),
    )
    for name, value, known in allowed:
        if value not in known:
            fix = f"set {name} to {' or '.join(sorted(known))}"
            yield ShardIssue("E_SHARD_MODE", f"shard does not work in {value}", where, fix)
    if context.parallel_mode == "auto_parallel" and context.search_mode != "sharding_propagation":
        what = f"shard does not work with the search {context.search_mode}"
        yield ShardIssue("E_SHARD_MODE", what, where, "set search_mode to sharding_propagation")
    if context.dataset_strategy not in {"full_batch", "data_parallel"}:
        what = f"results cannot be laid out by {context.dataset_strategy!r}"
        fix = "set dataset_strategy to full_batch or data_parallel"
        yield ShardIssue("E_SHARD_DATASET", what, where, fix)
    if graph.symbols and any(t.divisors != t.dims for t in graph.tensors.values() if t.divisors):
        names = ", ".join(graph.symbols)
        fix = "bind it to one size, or use Primitive.shard in semi_auto_parallel"
        yield ShardIssue("E_SHARD_DYNAMIC", f"{names} is dynamic", where, fix)


def _nesting(number: int, calls: Sequence[ShardCall], scopes: Scopes) -> Iterator[ShardIssue]:
    call = calls[number]
    if call.inside == "vmap":
        fix = "call vmap inside the function that shard is given"
        yield ShardIssue("E_SHARD_VMAP", "shard stands inside vmap", str(call), fix)
    elif call.inside == "shard":
        yield ShardIssue("E_SHARD_NESTED", "shard stands inside shard", str(call), "take one away")
    elif call.inside:
        fix = "write shard, vmap or nothing"
        yield ShardIssue("E_SHARD_FILE", f"inside {call.inside!r}", str(call), fix)
    own = {op.name for op in scopes.part(call.target).ops}
    for other in calls[:number]:
        if own & {op.name for op in scopes.part(other.target).ops}:
            what = f"it shares operators with the {other}"
            yield ShardIssue("E_SHARD_NESTED", what, str(call), "shard parts that are apart")


def _of_target(call: ShardCall, part: Part, scopes: Scopes) -> Iterator[ShardIssue]:
    if not call.is_cell and part.parameters:
        names = ", ".join(parameter_name(t) for t in part.parameters[:3])
        what = f"the function holds parameters: {names}"
        yield ShardIssue("E_SHARD_FUNCTION_PARAMETERS", what, str(call), _CELL_FIX)
    if not call.is_cell and call.parameter_plan:
        what = "a function has no parameters to lay out"
        yield ShardIssue("E_SHARD_PLAN_OF_FUNCTION", what, str(call), _CELL_FIX)
    if call.assigned_to and scopes.is_cell(call.assigned_to):
        what = f"{call.assigned_to!r} is a cell, and the result of shard a function"
        fix = f"assign it to another name, such as {call.assigned_to}_shard"
        yield ShardIssue("E_SHARD_ASSIGNED_TO_CELL", what, str(call), fix)


def _of_inputs(call: ShardCall, part: Part, devices: int) -> Iterator[ShardIssue]:
    if len(call.in_strategy) != len(part.inputs):
        shown = ", ".join(f"{t.name} {'x'.join(map(str, t.dims))}" for t in part.inputs)
        what = f"{len(call.in_strategy)} entries for {len(part.inputs)} inputs"
        yield ShardIssue("E_SHARD_INPUTS", what, str(call), f"give entries for {shown}")
        return
    for tensor, cuts in zip(part.inputs, call.in_strategy, strict=True):
        if cuts is not None:
            yield from _of_cuts(cuts, tensor.dims, f"input {tensor.name!r}", call, devices)
    derived = [
        t.name for t, cuts in zip(part.inputs, call.in_strategy, strict=True) if cuts is None
    ]
    if derived:
        what = f"cuts of {', '.join(derived)} follow from the others"
        yield ShardIssue("W_SHARD_DERIVED", what, str(call))


def _of_cuts(
    cuts: Own, dims: Sequence[int], what: str, call: ShardCall, devices: int
) -> Iterator[ShardIssue]:
    shown = str(cuts).replace(" ", "")
    if len(cuts) != len(dims):
        text = f"{what} has {len(dims)} dimensions, {shown} has {len(cuts)}"
        yield ShardIssue("E_SHARD_RANK", text, str(call), "give a number for each dimension")
        return
    for place, (size, cut) in enumerate(zip(dims, cuts, strict=True)):
        if size % cut:
            text = f"dimension {place} of {what}, {size}, does not split {cut} ways"
            yield ShardIssue("E_SHARD_DIVIDE", text, str(call), "give a divisor")
    pieces = math.prod(cuts)
    if devices % pieces:
        text = f"{pieces} parts of {what} do not divide {devices} devices"
        yield ShardIssue("E_SHARD_DEVICES", text, str(call), "give fewer parts")


def _of_parameters(
    call: ShardCall, part: Part, devices: int, taken: set[str]
) -> Iterator[ShardIssue]:
    """Entries of `parameter_plan`; those that are taken are put into `taken`."""
    known = {parameter_name(t): t for t in part.parameters}
    for given, cuts in call.parameter_plan.items() if call.is_cell else ():
        name = given.removeprefix("self.")
        if name not in known:
            what = f"{given!r} is no parameter of it and is skipped"
            yield ShardIssue("W_SHARD_PARAMETER_UNKNOWN", what, str(call))
        elif name in taken:
            what = f"{given!r} is laid out already and is skipped"
            yield ShardIssue("W_SHARD_PARAMETER_SET", what, str(call))
        else:
            taken.add(name)
            dims = stored_dims(known[name])
            yield from _of_cuts(cuts, dims, f"parameter {name!r}", call, devices)


def _of_rest(call: ShardCall, context: ShardContext) -> Iterator[ShardIssue]:
    checks: tuple[tuple[str, bool, Callable[[], str], str], ...] = (
        ("E_SHARD_DEVICE", call.device not in _DEVICES, lambda: f"no device {call.device!r}",
         "give Ascend, GPU or CPU"),
        ("E_SHARD_LEVEL", call.level not in _LEVELS, lambda: f"no level {call.level}",
         "give 0, 1 or 2"),
        ("W_SHARD_OUT_STRATEGY", call.out_strategy is not None,
         lambda: f"out_strategy is ignored: {context.dataset_strategy} lays the results out", ""),
        ("W_SHARD_UNUSED", call.device in _DEVICES[1:] or call.level in _LEVELS[1:],
         lambda: "device and level do nothing yet", ""),
    )  # fmt: skip
    for code, applies, what, fix in checks:
        if applies:
            yield ShardIssue(code, what(), str(call), fix)
