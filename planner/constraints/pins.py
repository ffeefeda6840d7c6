"""Operators whose split the user gives: which operators a pin names, and which cuts it wants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ir.dialects import TARGETS, target_with
from ir.folding import common_scope
from ir.graph import Op, OpGraph, Role
from ir.mindspore_forms.readers import parts_of
from ir.mindspore_forms.strategies import batch_only, batch_pins, strategy_key
from ir.normalise.ends import ENDS
from ir.ops import OpView, lookup
from ir.rule import FactorMap, ShardingRule
from ir.texts import listed
from planner.lowering.pricing import SLICES
from planner.mindspore_searches.recursive_programming import recursive_pins
from planner.request import Cuts, RequestError, SearchRequest
from planner.solvers import ONE_BY_ONE, RECURSIVE

MOST_SHOWN = 8
"""Names or cuts that a message lists; the rest is counted."""
RESULT = "->"
"""Behind the name of an operator: its cuts are those in which its result is read, MindSpore's
`out_strategy`."""
BY_BATCH = "--rest semi-auto"
FULL_BATCH = "full_batch"
"""Every device has the whole batch."""
LONGEST_NAME = 1000
"""A longer pattern is no slip of the finger."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What one operator is held to."""

    op: Op
    text: str
    """The option, for messages."""
    cuts: tuple[tuple[int, ...] | None, ...]
    """Cuts of the dims of every operand; None leaves an operand free."""


@dataclass(frozen=True, slots=True)
class ResultPin:
    """What the result of one operator is held to."""

    text: str
    """The option, for messages."""
    cuts: tuple[int, ...]


def result_pins(graph: OpGraph, pins: Sequence[tuple[str, Cuts]]) -> dict[str, ResultPin]:
    """The operators whose results are pinned, by name.

    Raises:
        RequestError: a name fits no operator, or a result has other dims.
    """
    found: dict[str, ResultPin] = {}
    for name, cuts in pins:
        text = pin_text(name, cuts)
        for op in _named(graph, name.removesuffix(RESULT), text) if name.endswith(RESULT) else ():
            found[op.name] = ResultPin(text, _of_result(graph, op.outputs[0], cuts, text))
    return found


def pins_of(graph: OpGraph, pins: Sequence[tuple[str, Cuts]]) -> tuple[Pin, ...]:
    """The operators that are pinned, in the order of the graph.

    Args:
        graph: as it is planned.
        pins: names of operators with the cuts of their inputs, as `SearchRequest.pins` has them.

    Raises:
        RequestError: a name fits no operator or operators of several kinds, an operator has other
            inputs or dims, or two pins hold it to different cuts.
    """
    found: dict[str, Pin] = {}
    for name, cuts in pins:
        text = pin_text(name, cuts)
        if name.endswith(RESULT):
            continue
        for pin in _of_parts(graph, name, cuts, text) or _of_operators(graph, name, cuts, text):
            op, other = pin.op, found.setdefault(pin.op.name, pin)
            if other.cuts != pin.cuts:
                raise RequestError(
                    f"operator {op.name} ({op.label}) is pinned twice\n"
                    f"  at:  {other.text} and {text}\n"
                    "  fix: give every operator one strategy"
                )
    found = _of_readers(graph, pins) | found
    return tuple(found[op.name] for op in graph.ops if op.name in found)


def with_recursive_pins(request: SearchRequest, graph: OpGraph, devices: int) -> SearchRequest:
    """A request for the search that halves the machine, with what that chooses as pins; any other
    as it is.

    Raises:
        RequestError: the devices are no power of two, or the target's framework has no such search.
    """
    if request.solver != RECURSIVE:
        return request
    if not TARGETS[request.target].own_cost:
        target = target_with(lambda dialect: dialect.own_cost)
        raise RequestError(
            f"{RECURSIVE} is a search of {TARGETS[target].framework}'s\n"
            f"  at:  --solver {RECURSIVE}\n  fix: leave it out, or use --target {target}"
        )
    whole = "" if request.training else FULL_BATCH
    found = recursive_pins(
        graph,
        devices,
        dict(request.pins),
        training=request.training,
        full_batch=(request.dataset_strategy or whole) == FULL_BATCH,
    )
    return replace(request, solver="portfolio", pins=tuple(found.items()))


def held_pins(graph: OpGraph, request: SearchRequest, devices: int) -> tuple[Pin, ...]:
    """All that a request holds operators to: its pins, and what is split by batch beside them."""
    own = [pin for pin in request.pins if not (scatters(request) and pin[0].endswith(RESULT))]
    return (*pins_of(graph, own), *rest_of(graph, request, devices))


def scatters(request: SearchRequest) -> bool:
    """Whether cuts of results are those that a propagation spreads, not those of all readers."""
    return request.solver == ONE_BY_ONE and request.cost == SLICES


def rest_of(graph: OpGraph, request: SearchRequest, devices: int) -> tuple[Pin, ...]:
    """Operators that no pin names, split by batch where the request wants that of them, or the
    target can do nothing else.
    """
    text, alone = BY_BATCH, dict[str, Cuts]()
    if request.rest != "semi-auto":
        dialect = TARGETS[request.target]
        text = f"{dialect.framework}, which splits it by batch alone"
        alone = batch_only(graph, devices) if dialect.cut_counts else {}
        if not alone:
            return ()
    wished = (*request.pins, *((name, cuts) for name, cuts, _ in request.soft_pins))
    named = {pin.op.name: () for pins in wished for pin in pins_of(graph, [pins])}
    rest = alone or batch_pins(graph, devices, named)
    return tuple(
        Pin(op, text, _by_operand(graph, op, rest[op.name], text))
        for op in graph.ops
        if op.name in rest and op.name not in named
    )


def parts_at_odds(graph: OpGraph, pins: Sequence[tuple[str, Cuts]]) -> frozenset[str]:
    """Parts of composites that have pins of their own which no split of the composite keeps all."""
    found: dict[str, list[tuple[str, Pin]]] = {}
    for name, cuts in pins:
        for pin in _of_parts(graph, name, cuts, pin_text(name, cuts)):
            found.setdefault(pin.op.name, []).append((name, pin))
    odd = {n for own in found.values() if len({pin.cuts for _, pin in own}) > 1 for n, _ in own}
    parts = {part.name for op in graph.ops for part in op.parts}
    results = {name.removesuffix(RESULT) for name, _ in pins if name.endswith(RESULT)}
    return frozenset(odd | (parts & results))


def _of_readers(graph: OpGraph, pins: Sequence[tuple[str, Cuts]]) -> dict[str, Pin]:
    """What reads the results of operators whose results are pinned, by name.

    What has a pin of its own keeps that, as in MindSpore.
    """
    found: dict[str, Pin] = {}
    for name, cuts in pins:
        if name.endswith(RESULT):
            for wanted in _reading(graph, name, cuts, pin_text(name, cuts)):
                held = found.get(wanted.op.name, wanted)
                found[wanted.op.name] = _both(held, wanted)
    return found


def _reading(graph: OpGraph, name: str, cuts: Cuts, text: str) -> list[Pin]:
    """What one pinned result holds."""
    readers, found = graph.consumers(), list[Pin]()
    for maker in _named(graph, name.removesuffix(RESULT), text):
        result = maker.outputs[0]
        own = _of_result(graph, result, cuts, text)
        found += (
            Pin(op, text, tuple(own if n == result else None for n in op.inputs))
            for op in readers.get(result, [])
            if op.kind not in ENDS
        )
    if not found:
        raise RequestError(
            f"no operator reads the result of {name.removesuffix(RESULT)}\n  at:  {text}\n"
            "  fix: pin the operator itself"
        )
    return found


def _both(one: Pin, other: Pin) -> Pin:
    """An operator that is held to cuts of several of its operands."""
    pairs = list(zip(one.cuts, other.cuts, strict=True))
    if any(None not in pair and len(set(pair)) > 1 for pair in pairs):
        raise RequestError(
            f"two pins hold what {one.op.name} reads to different cuts\n"
            f"  at:  {one.text} and {other.text}\n  fix: give every result one strategy"
        )
    return replace(other, cuts=tuple(b if a is None else a for a, b in pairs))


def _of_result(graph: OpGraph, result: str, cuts: Cuts, text: str) -> tuple[int, ...]:
    """The cuts of a result, checked against its dims."""
    dims = graph.tensors[result].dims
    if len(cuts) == 1 and len(cuts[0]) == len(dims) and all(cut > 0 for cut in cuts[0]):
        return cuts[0]
    raise RequestError(
        f"the result {result} has other dims than {_count_text(cuts)}\n  at:  {text}\n"
        f"  fix: give one tuple with a cut for each dimension of {_dims(dims)}"
    )


def _of_operators(graph: OpGraph, name: str, cuts: Cuts, text: str) -> list[Pin]:
    return [Pin(op, text, _by_operand(graph, op, cuts, text)) for op in _named(graph, name, text)]


def _of_parts(graph: OpGraph, name: str, cuts: Cuts, text: str) -> list[Pin]:
    """Composites of which a part has this name; what the part does not say of them stays free."""
    if any(op.name == name for op in graph.ops):
        return []
    out = []
    for op in graph.ops:
        for view, rule in parts_of(OpView(op, graph)) if op.parts else ():
            if view.op.name == name:
                given = _by_operand(graph, view.op, cuts, text)
                counts = _counts(rule, given)
                whole = lookup(op.kind).rule(OpView(op, graph))
                out.append(Pin(op, text, tuple(_told(m, counts) for m in whole.operands)))
    return out


def _counts(rule: ShardingRule, given: Sequence[tuple[int, ...] | None]) -> dict[int, int]:
    """Pieces of the factors of a composite, from the cuts of one of its parts."""
    counts: dict[int, int] = {}
    for mapping, cuts in zip(rule.operands, given, strict=True):
        for dim, cut in zip(mapping or (), cuts or (), strict=False):
            rest = cut
            for place, factor in enumerate(dim):
                last = place == len(dim) - 1 or factor >= len(rule.sizes)
                pieces = rest if last else math.gcd(rest, rule.sizes[factor])
                rest //= pieces
                counts[factor] = max(pieces, counts.get(factor, 1))
    return counts


def _told(mapping: FactorMap | None, counts: Mapping[int, int]) -> tuple[int, ...] | None:
    if mapping is None or any(factor not in counts for dim in mapping for factor in dim):
        return None
    return tuple(math.prod(counts[factor] for factor in dim) for dim in mapping)


def pin_notes(pins: Sequence[Pin]) -> list[str]:
    """What is pinned, a line for each option."""
    by_text: dict[str, list[Op]] = {}
    for pin in pins:
        by_text.setdefault(pin.text, []).append(pin.op)
    return [
        f"pinned by {text}: {_counted(ops)} ({listed([op.name for op in ops], 3)})"
        for text, ops in by_text.items()
    ]


def pin_text(name: str, cuts: Cuts) -> str:
    """The option as it is written.

    >>> pin_text("node_linear", ((2, 4), (4,)))
    "--pin 'node_linear=((2,4),(4,))'"
    """
    return f"--pin '{name}={cuts_text(cuts)}'"


def cuts_text(cuts: Cuts) -> str:
    """Cuts of all inputs as Python and MindSpore write them, without spaces."""
    return repr(cuts).replace(" ", "")


def _counted(ops: Sequence[Op]) -> str:
    return ", ".join(
        f"{count} x {label}" for label, count in Counter(op.label for op in ops).items()
    )


def _named(graph: OpGraph, name: str, text: str) -> list[Op]:
    """Operators of a name or scope, wildcards allowed, behind their kind if that is given."""
    if len(name) > LONGEST_NAME:
        raise RequestError(
            f"the name of a pin has {len(name)} characters\n  at:  --pin\n"
            f"  fix: use {LONGEST_NAME} at most, and wildcards where many operators are meant"
        )
    found = _matching(graph, graph.ops, name)
    if not found:
        kind, _, rest = name.partition(" ")
        alike = [op for op in graph.ops if kind in {op.kind, op.label}]
        found = _matching(graph, alike, rest.strip()) if rest else _by_key(graph, name)
    labels = list(dict.fromkeys(op.label for op in found))
    if not found:
        raise RequestError(
            f"the model has no operator {name!r}\n  at:  {text}\n{_closest(graph, name)}"
        )
    if len(labels) > 1:
        raise RequestError(
            f"{name!r} names operators of {len(labels)} kinds: {listed(labels)}\n  at:  {text}\n"
            f"  fix: put the kind before the name, such as '{labels[0]} {name}=...'"
        )
    return found


def _by_key(graph: OpGraph, name: str) -> list[Op]:
    """Operators that MindSpore calls so: the primitive and the first parameter, `MatMul_w1`."""
    plain = (op for op in graph.ops if not op.parts)
    views = ((op, OpView(op, graph)) for op in plain)
    return [op for op, view in views if strategy_key(view, lookup(op.kind).rule(view)) == name]


def _matching(graph: OpGraph, ops: Sequence[Op], name: str) -> list[Op]:
    """By name, else by scope, else by wildcards over both."""
    prefix = len(common_scope(op.scope for op in graph.ops))
    exact = [op for op in ops if op.name == name]
    scoped = [op for op in ops if op.scope and name in {op.scope, op.scope[prefix:]}]
    if exact or scoped or not any(sign in name for sign in "*?["):
        return exact or scoped
    return [
        op
        for op in ops
        if any(fnmatchcase(x, name) for x in (op.name, op.scope, op.scope[prefix:]) if x)
    ]


def _closest(graph: OpGraph, name: str) -> str:
    known = list(dict.fromkeys(n for op in graph.ops for n in (op.name, op.scope) if n))
    wanted = name.rpartition(" ")[2]
    close = [n for n in known if wanted and n.endswith(wanted)]
    close = close or get_close_matches(wanted, known, n=MOST_SHOWN, cutoff=0.5)
    if close:
        return f"  fix: use a name or a scope; the closest are {listed(close)}"
    return "  fix: use a name or a scope; `planner inspect MODEL` shows them, and * stands for any"


def _by_operand(
    graph: OpGraph, op: Op, cuts: Cuts, text: str
) -> tuple[tuple[int, ...] | None, ...]:
    """The cuts of every operand.

    MindSpore's strategies leave out what is no tensor there: scalars, and constants that a
    composite operator brings with it, may be left out here.
    """
    if any(cut < 1 for own in cuts for cut in own):
        raise RequestError(f"a cut below 1\n  at:  {text}\n  fix: write 1 for what stays whole")
    dims = {name: graph.tensors[name].dims for name in op.inputs if name}
    present = [i for i, name in enumerate(op.inputs) if name]
    arrays = [i for i in present if dims[op.inputs[i]]]
    moving = [i for i in arrays if graph.tensors[op.inputs[i]].role is not Role.CONSTANT]
    for places in (present, arrays, moving):
        ranks = [len(dims[op.inputs[i]]) for i in places]
        if ranks == [len(own) for own in cuts]:
            given: Mapping[int, tuple[int, ...]] = dict(zip(places, cuts, strict=True))
            return tuple(given.get(i) for i in range(len(op.inputs)))
    shown = "; ".join(f"{op.inputs[i]} {_dims(dims[op.inputs[i]])}" for i in moving or present)
    example = tuple((1,) * len(dims[op.inputs[i]]) for i in moving or present)
    raise RequestError(
        f"operator {op.name} ({op.label}) has other inputs than {_count_text(cuts)}\n"
        f"  at:  {text}\n"
        f"  fix: give one cut for each dimension of {shown}, such as {cuts_text(example)}"
    )


def _count_text(cuts: Cuts) -> str:
    ranks = ", ".join(str(len(own)) for own in cuts)
    return f"{len(cuts)} with {ranks} dims" if cuts else "none"


def _dims(dims: Sequence[int]) -> str:
    return "x".join(str(size) for size in dims) or "without dims"
