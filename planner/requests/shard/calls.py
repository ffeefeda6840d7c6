"""Calls of MindSpore's `shard`, their file, and the pins that they stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from ir.batch import BatchError, batch_dims
from ir.folding import common_scope
from ir.graph import Op, OpGraph, Role, Tensor
from ir.ops import OpView, lookup
from ir.rule import FactorMap, ShardingRule
from planner.request import Cuts, RequestError
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
_FIX = "write it as the documentation of --shard shows"


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


Pinned = tuple[str, Cuts]


def pins_of_calls(
    graph: OpGraph, calls: Sequence[ShardCall], context: ShardContext, devices: int
) -> tuple[Pinned, ...]:
    """What the calls hold operators to, as `SearchRequest.pins` has it.

    Args:
        graph: as it is planned; the calls are free of errors (`check_calls`).
        calls: the calls.
        context: says how the rest is laid out.
        devices: of the job.

    Raises:
        ShardError: the entries of a call want different cuts of one operator.
    """
    scopes = Scopes(graph)
    found: dict[str, Cuts] = {}
    taken: set[str] = set()
    for call in calls:
        wanted = _wanted(call, scopes, taken)
        for op in scopes.part(call.target).ops:
            own = {i: wanted[name] for i, name in enumerate(op.inputs) if name in wanted}
            if own:
                found[op.name] = _derived(graph, op, own, call)
    rest = scopes.outside([call.target for call in calls])
    found |= dict(_data_parallel(graph, rest, context, devices))
    return tuple(sorted(found.items()))


def _wanted(call: ShardCall, scopes: Scopes, taken: set[str]) -> dict[str, Own]:
    """Cuts of the arguments and of the parameters of a call, by tensor."""
    part = scopes.part(call.target)
    pairs = zip(part.inputs, call.in_strategy, strict=True)
    wanted = {tensor.name: cuts for tensor, cuts in pairs if cuts is not None}
    plan = {name.removeprefix("self."): cuts for name, cuts in call.parameter_plan.items()}
    for tensor in part.parameters:
        name = parameter_name(tensor)
        if name in plan and name not in taken:
            taken.add(name)
            wanted[tensor.name] = _here(tensor, plan[name])
    return wanted


def _here(tensor: Tensor, cuts: Own) -> Own:
    """Cuts in the order of the graph, from those in the order of the model file."""
    return tuple(cuts[there] for there in tensor.stored_permutation) or cuts


def _derived(graph: OpGraph, op: Op, own: Mapping[int, Own], call: ShardCall) -> Cuts:
    """Cuts of all operands, from those of some by the operator's rule."""
    view = OpView(op, graph)
    rule = lookup(op.kind).rule(view)
    factors: dict[int, int] = {}
    for index, cuts in own.items():
        mapping = rule.operands[index]
        for dim, cut in zip(mapping or (), cuts, strict=False):
            for factor, part in _shares(rule, dim, cut, op, call):
                if factors.setdefault(factor, part) != part:
                    what = f"operator {op.name} would be cut {factors[factor]} and {part} ways"
                    fix = "give the inputs strategies that agree, or None to one of them"
                    raise ShardError(ShardIssue("E_SHARD_DISAGREE", what, str(call), fix))
    return _cuts(graph, op, rule, factors)


def _shares(
    rule: ShardingRule, dim: Sequence[int], cut: int, op: Op, call: ShardCall
) -> Iterator[tuple[int, int]]:
    """What a cut of a dimension splits of its factors, the outermost first."""
    for factor in dim:
        part = math.gcd(cut, rule.sizes[factor])
        if part < cut and part < rule.sizes[factor]:
            break
        cut //= part
        yield factor, part
    if cut > 1:
        what = f"operator {op.name} cannot cut a dimension so"
        fix = "cut another dimension, or fewer ways"
        raise ShardError(ShardIssue("E_SHARD_DIVIDE", what, str(call), fix))


def _cuts(graph: OpGraph, op: Op, rule: ShardingRule, factors: Mapping[int, int]) -> Cuts:
    """Cuts of all operands that are arrays, factors that are not given whole."""

    def of(mapping: FactorMap | None, rank: int) -> Own:
        if mapping is None:
            return (1,) * rank
        return tuple(math.prod(factors.get(f, 1) for f in dim) for dim in mapping)

    pairs = zip(op.inputs, rule.operands, strict=True)
    return tuple(of(mapping, len(graph.tensors[name].dims)) for name, mapping in pairs if name)


def _data_parallel(
    graph: OpGraph, ops: Sequence[Op], context: ShardContext, devices: int
) -> Iterator[Pinned]:
    """Operators outside all calls: the batch over all devices, or whole under full_batch.

    What has no batch, or a batch that does not split so, is left to the search.
    """
    try:
        where = batch_dims(graph)
    except BatchError:
        return
    parts = devices if context.dataset_strategy == "data_parallel" else 1
    for op in ops:
        if not any(op.inputs):
            continue
        rule = lookup(op.kind).rule(OpView(op, graph))
        batch = _batch_factor(op, rule, where)
        fine = batch in rule.splittable and batch not in rule.uncut if parts > 1 else True
        if batch is not None and fine and rule.sizes[batch] % parts == 0:
            yield op.name, _cuts(graph, op, rule, {batch: parts})


def _batch_factor(op: Op, rule: ShardingRule, where: Mapping[str, int]) -> int | None:
    for name, mapping in zip(op.inputs, rule.operands, strict=True):
        if name in where and mapping is not None and mapping[where[name]]:
            return mapping[where[name]][0]
    return None


_LENT = (Role.PARAMETER, Role.CONSTANT, Role.BUFFER)
"""Roles of what is no argument of a call."""


@dataclass(frozen=True, slots=True)
class Part:
    """The operators of one call."""

    ops: tuple[Op, ...]
    inputs: tuple[Tensor, ...]
    """Tensors made outside, in the order in which they are first read: the arguments."""
    parameters: tuple[Tensor, ...]


class Scopes:
    """Paths of the operators of a graph."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        prefix = len(common_scope(op.scope for op in graph.ops))
        self._paths = {op.name: (op.scope, op.scope[prefix:], _path(op.name)) for op in graph.ops}

    def holds(self, target: str, op: Op) -> bool:
        """Whether an operator belongs to a cell: by its scope, or by the path in its name."""
        return any(path == target or path.startswith(f"{target}.") for path in self._paths[op.name])

    def part(self, target: str) -> Part:
        """The operators of a cell or function."""
        ops = tuple(op for op in self.graph.ops if self.holds(target, op))
        made = {name for op in ops for name in op.outputs}
        read = dict.fromkeys(name for op in ops for name in op.inputs if name and name not in made)
        tensors = [self.graph.tensors[name] for name in read]
        return Part(
            ops,
            tuple(t for t in tensors if t.role not in _LENT),
            tuple(t for t in tensors if t.role is Role.PARAMETER),
        )

    def is_cell(self, name: str) -> bool:
        """Whether some operator belongs to a cell of that path."""
        return any(self.holds(name, op) for op in self.graph.ops)

    def outside(self, targets: Sequence[str]) -> tuple[Op, ...]:
        """Operators of no call."""
        return tuple(
            op for op in self.graph.ops if not any(self.holds(each, op) for each in targets)
        )


def _path(name: str) -> str:
    """`/block1/dense1/MatMul` belongs to `block1.dense1`."""
    return ".".join(part for part in name.split("/")[:-1] if part)


def parameter_name(tensor: Tensor) -> str:
    """The name in the model file."""
    return tensor.source or tensor.name


def stored_dims(tensor: Tensor) -> tuple[int, ...]:
    """Sizes in the order of the model file."""
    order = tensor.stored_permutation
    if not order:
        return tensor.dims
    out = [0] * len(order)
    for here, there in enumerate(order):
        out[there] = tensor.dims[here]
    return tuple(out)
