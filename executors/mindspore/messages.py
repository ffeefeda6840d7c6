"""Collectives of a plan and of MindSpore's graph in one form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from executors.reference import mesh_of, paths_of
from ir.differentiation import operand_gradients, tensors_with_gradient
from ir.graph import Op, OpGraph
from ir.ops import Needs, lookup
from ir.plan import Plan, PlannedCollective
from ir.plan_enums import Cause
from topology.mesh import Mesh


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """One collective."""

    kind: str
    """As in `ir.plan.PlannedCollective.kind`."""
    ranks: tuple[int, ...]
    """Of the group with rank 0, ascending."""
    nbytes: int
    """As plans count them (docs/step.md)."""
    place: str = ""
    """Whose it is, for people."""

    @property
    def bare(self) -> Message:
        return replace(self, place="")


def promised(plan: Plan) -> list[Message]:
    """The messages of a plan as MindSpore accounts for them, joined; see `accounts`."""
    return [m for chain in _Accounts(plan).chains() for m in chain]


def emitted(collectives: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages of a graph, as `executors.mindspore.script.collectives` lists them, joined."""
    same = _merged(collectives)
    kept = [i for i in range(len(collectives)) if same[i] == i]
    next_of: dict[int, list[int]] = {}
    for i in kept:
        if collectives[i]["after"] >= 0:
            next_of.setdefault(same[collectives[i]["after"]], []).append(i)
    followed = {each for found in next_of.values() if len(found) == 1 for each in found}
    out: list[Message] = []
    for i in kept:
        chain = [] if i in followed else [i]
        while chain and len(next_of.get(chain[-1], ())) == 1:
            chain += next_of[chain[-1]]
        out += _joined(_graph_message(collectives[each]) for each in chain)
    return out


def _merged(collectives: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """For each collective the first that is equal; only those of the forward pass are merged."""
    same: dict[int, int] = {}
    first: dict[tuple[Any, ...], int] = {}
    for i, each in enumerate(collectives):
        after = each["after"]
        source = same[after] if after >= 0 else each["source"]
        key = (source, each["kind"], tuple(each["ranks"]), each["nbytes"])
        backward = each["scope"].startswith("Gradients/")
        same[i] = i if backward or each["kind"] == "all_reduce" else first.setdefault(key, i)
    return same


def _graph_message(each: Mapping[str, Any]) -> Message:
    return Message(each["kind"], tuple(each["ranks"]), each["nbytes"], each["scope"])


_ROWS = """gathers, or reduce-scatters, in a row are one: MindSpore joins some and parts others,
and the bytes that travel are the same"""
_READERS = """equal redistributions of one tensor are one: MindSpore merges them forward, and
backward where they begin with a gather or where an addition hands the same gradient to both its
operands; a plan counts each reader"""
_STATISTICS = """batch normalisation sends nothing: MindSpore 2.10.0 synchronises its statistics
only in a form that its front end no longer makes"""


_EDGES = """edges of positions are not compared: MindSpore exchanges those of all dimensions at
once (NeighborExchangeV2), a plan those of one dimension after the other"""
NEIGHBOURS = "point_to_point"


def accounts(plan: Plan) -> tuple[str, ...]:
    """Where MindSpore and a plan count differently: both are brought to one form."""
    normalised = any(_is_batch_norm(op) for op in plan.graph.ops)
    texts = [_ROWS, _READERS, *([_STATISTICS] if normalised else [])]
    texts += [_EDGES] if any(item.kind == NEIGHBOURS for item in plan.collectives) else []
    return tuple(" ".join(text.split()) for text in texts)


def _is_batch_norm(op: Op) -> bool:
    return lookup(op.kind).primitive == "BatchNorm"


_MOVES = (Cause.FORWARD, Cause.ACTIVATION_GRADIENT)


class _Accounts:
    """Messages of a plan, chain by chain."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.mesh = plan, mesh_of(plan)
        self.ops = {op.name: op for op in plan.graph.ops}
        derived = plan.derives_gradients
        self.known = tensors_with_gradient(plan.graph) if derived else frozenset[str]()
        self.items = [item for item in plan.collectives if item.group_size > 1]

    def chains(self) -> Iterator[list[Message]]:
        yield from self._parameters()
        for tensor in dict.fromkeys(i.tensor for i in self.items if i.cause in _MOVES):
            yield from self._moves(tensor)
        for item in self.items:
            counted = item.cause == Cause.INSIDE and item.kind != NEIGHBOURS
            if counted and not _is_batch_norm(self.ops[item.operator]):
                yield [self._message(item)] * item.count

    def _parameters(self) -> Iterator[list[Message]]:
        """Gathers of shared weights and sums of gradients, those of the first reader. MindSpore
        gathers updated weights when the next forward pass reads them.
        """
        for cause in (Cause.PARAMETER_GATHER, Cause.UPDATED_PARAMETERS, Cause.GRADIENT_SYNC):
            paths = paths_of(self.items, frozenset({cause}))
            first: dict[str, tuple[str, str, int]] = {}
            for key in paths:
                first.setdefault(key[0], key)
            for tensor, key in first.items():
                gathers = cause == Cause.PARAMETER_GATHER
                twice = gathers and self._read_again(tensor)
                forward = [item for item in paths[key] if not (gathers and item.backward)]
                chain = _joined(self._message(item) for item in forward)
                yield from [chain] * (2 if twice else 1)

    def _read_again(self, parameter: str) -> bool:
        """Whether the backward pass of some operator reads a parameter."""
        parts = [part for op in self.ops.values() for part in op.parts or (op,)]
        return any(
            _reads(part, index, self.known)
            for part in parts
            for index, name in enumerate(part.inputs)
            if name == parameter
        )

    def _moves(self, tensor: str) -> Iterator[list[Message]]:
        """Redistributions of a tensor to its readers, and of their gradients back.

        What the readers share is a stage of its own, before theirs.
        """
        own = [item for item in self.items if item.tensor == tensor and item.cause in _MOVES]
        for stage in ([i for i in own if not i.operator], [i for i in own if i.operator]):
            there, back = (paths_of(stage, frozenset({cause})) for cause in _MOVES)
            seen: set[tuple[Message, ...]] = set()
            for path in there.values():
                steps = [self._message(item) for item in path]
                new = [not _known(steps[:length], seen) for length in range(1, len(steps) + 1)]
                yield _joined(m for m, is_new in zip(steps, new, strict=True) if is_new)
            merged = self._is_merged([path[0] for path in there.values()])
            seen = set()
            for path in self._apart(back):
                steps = [self._message(item) for item in path]
                if merged and steps[-1].kind == "reduce_scatter" and _known(steps[-1:], seen):
                    steps = steps[:-1]
                yield _joined(steps)

    def _is_merged(self, firsts: Sequence[PlannedCollective]) -> bool:
        """MindSpore merges gathers of one tensor before it differentiates, if all are equal."""
        gathers = [item for item in firsts if item.kind == "all_gather"]
        return len({self._message(item).bare for item in gathers}) == 1

    def _apart(self, back: _Paths) -> Iterator[list[PlannedCollective]]:
        """Ways back of gradients, without those that another operand of an addition has too."""
        for (tensor, operator, operand), path in back.items():
            if not self._is_twin(tensor, operator, operand, path):
                yield path

    def _is_twin(
        self, tensor: str, operator: str, operand: int, path: Sequence[PlannedCollective]
    ) -> bool:
        """Whether an operand before this one of the same addition gets the same gradient on the
        same way: MindSpore sees that both are one.
        """
        op = self.ops.get(operator)
        if op is None:
            return False
        names = op.inputs
        for before in range(operand):
            if not _are_added(op, names[before], tensor, self.plan.graph):
                continue
            other = [i for i in self.items if (i.operator, i.operand) == (operator, before)]
            other = [i for i in other if i.cause == Cause.ACTIVATION_GRADIENT]
            if [self._message(i).bare for i in other] == [self._message(i).bare for i in path]:
                return True
        return False

    def _message(self, item: PlannedCollective) -> Message:
        return _message(item, self.mesh)


_Paths: TypeAlias = Mapping[tuple[str, str, int], list[PlannedCollective]]


def _known(path: Sequence[Message], seen: set[tuple[Message, ...]]) -> bool:
    """Whether messages were seen already; now they are."""
    key = tuple(m.bare for m in path)
    if key in seen:
        return True
    seen.add(key)
    return False


def _are_added(op: Op, first: str, second: str, graph: OpGraph) -> bool:
    """Whether an operator, or a part of it, adds two tensors of one size."""
    same = graph.tensors[first].dims == graph.tensors[second].dims
    parts = [part for part in op.parts or (op,) if part.kind == "Add"]
    return same and any({first, second} == set(part.inputs) for part in parts)


def _reads(op: Op, index: int, known: frozenset[str]) -> bool:
    """Whether the backward pass of an operator reads one of its operands."""
    flags = operand_gradients(op, known)
    match lookup(op.kind).needs:
        case Needs.OTHERS:
            return any(flag for i, flag in enumerate(flags) if i != index)
        case Needs.OPERANDS | Needs.OPERANDS_AND_RESULT:
            return any(flags)
        case Needs.ITSELF | Needs.FIRST:
            return any(flags) and index < 2 - (lookup(op.kind).needs is Needs.FIRST)
        case _:
            return False


def _message(item: PlannedCollective, mesh: Mesh) -> Message:
    number = {axis.name: i for i, axis in enumerate(mesh.axes)}
    axes = {number[name] for name in item.axes}
    places = itertools.product(*(range(n if a in axes else 1) for a, n in enumerate(mesh.sizes)))
    strides = [math.prod(mesh.sizes[a + 1 :]) for a in range(len(mesh.sizes))]
    ranks = sorted(sum(p * s for p, s in zip(place, strides, strict=True)) for place in places)
    whose = f"{item.cause}, {item.tensor or 'result'} of {item.operator or 'its update'}"
    return Message(item.kind, tuple(ranks), round(item.nbytes), whose)


def _joined(chain: Iterable[Message]) -> list[Message]:
    """A chain in which gathers, and reduce-scatters, in a row are one."""
    out: list[Message] = []
    for message in chain:
        last = out[-1] if out else None
        if last is not None and _continues(last, message):
            ranks = tuple(sorted(a + b for a in last.ranks for b in message.ranks))
            out[-1] = replace(last, ranks=ranks, nbytes=max(last.nbytes, message.nbytes))
        else:
            out.append(message)
    return out


def _continues(first: Message, second: Message) -> bool:
    """Whether the second message takes all that the first has left, and nothing else."""
    if first.kind != second.kind or set(first.ranks) & set(second.ranks) != {0}:
        return False
    if first.kind == "all_gather":
        return second.nbytes == first.nbytes * len(second.ranks)
    return first.kind == "reduce_scatter" and first.nbytes == second.nbytes * len(first.ranks)
