"""Strategies of MindSpore's files as cuts that operators of a graph are held to.

Every strategy is checked by MindSpore's own rules. A file of parameters goes by primitive and
parameter (`MatMul_fc1.weight`), one of operators by full names, which only a MindIR file has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from exporters.errors import StrategyFileError, UnknownOperatorError
from exporters.mindspore.compiled_names import compiled_names
from exporters.mindspore.cuts import reader_of_cuts
from exporters.mindspore.file_operators import (
    Group,
    Part,
    aligned,
    apart,
    graph_parts,
    groups,
    turned,
)
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.operator_strategy import DATASET, scoped
from exporters.mindspore.records import StrategyCheckpoint, StrategyItem
from ir import texts
from ir.file_primitives import FilePrimitive
from ir.graph import OpGraph, Role
from ir.mindspore_forms.primitives import primitive_form
from ir.mindspore_forms.readers import NEVER_CUT, Reader, file_name
from ir.mindspore_forms.strategies import Cuts, Strategy, cuts_of, spread, strategy_key
from ir.ops import OpView, lookup
from ir.rule import FactorMap
from ir.violations import Violation

_DEEPEST = 64
"""Cells within cells of a full name that are tried."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file says of a graph."""

    pins: Mapping[str, Strategy]
    """By the name of an operator of the graph, the cuts of its operands."""
    inputs: Strategy | None
    """How the inputs arrive, where the file says so."""
    notes: tuple[str, ...]
    """What was passed over, a sentence each."""
    is_of_operators: bool = True
    """Whether the file is one of all operators; the loss, which is the planner's own, is none."""


def pins_of_checkpoint(graph: OpGraph, content: StrategyCheckpoint, devices: int) -> Imported:
    """The strategies of a parameter-strategy checkpoint.

    Args:
        graph: as it is planned.
        content: the file.
        devices: that the plan is for.

    Raises:
        StrategyFileError: no key is of this model, or MindSpore would refuse a strategy.
    """
    _check_stages(content.strategies)
    sizes = {math.prod(layout.device_matrix) for layout in content.layouts}
    if sizes - {devices}:
        what = f"its layouts are for {', '.join(map(str, sorted(sizes)))} devices, not {devices}"
        raise StrategyFileError(Violation(what, "--devices", "give the number that it is for"))
    found: dict[str, list[Part]] = {}
    for part in graph_parts(graph):
        key = strategy_key(part.view, part.rule)
        if key:
            found.setdefault(key, []).append(part)
    work = Strategies(graph, devices)
    unknown = []
    listed = _by_parameter(graph)
    for item in content.strategies:
        if item.key in listed and item.cuts:
            primitive, group = listed[item.key]
            cuts = _as_planned(group, primitive, item, work)
            if cuts is not None:
                work.take(group.main, cuts, item.key)
        elif item.key not in found:
            unknown.append(item.key)
        elif item.cuts:
            for part in found[item.key]:
                work.take(part, item.cuts, item.key)
    _check_known(content.strategies, unknown, [*listed, *found])
    return replace(work.finished(None, unknown_note(unknown)), is_of_operators=False)


def _by_parameter(graph: OpGraph) -> dict[str, tuple[FilePrimitive, Group]]:
    """By primitive and parameter, what reads the parameter first in a file of MindSpore's."""
    trained = {file_name(tensor) for tensor in graph.parameters}
    in_graph = groups(graph, graph.primitives)
    out: dict[str, tuple[FilePrimitive, Group]] = {}
    for each in graph.primitives:
        read = [maker for maker in each.makers if maker in trained]
        if read and each.name in in_graph:
            out.setdefault(f"{each.kind}_{read[0]}", (each, in_graph[each.name]))
    return out


def pins_of_operators(
    graph: OpGraph,
    content: OperatorStrategies,
    primitives: Sequence[FilePrimitive],
    devices: int,
) -> Imported:
    """The strategies of an operator-strategy file.

    Args:
        graph: as it is planned.
        content: the file.
        primitives: of the MindIR file that the graph comes from.
        devices: that the plan is for.

    Raises:
        StrategyFileError: no key is of this model, or MindSpore would refuse one.
    """
    _check_stages(content.strategies)
    given = {item.key: item for item in content.strategies}
    scope = _scope(given, primitives)
    names = reversed(list(compiled_names(primitives, inside=bool(scope))))
    known = {scoped(name, scope): each for name, each in names}  # the likelier name wins
    unknown = [key for key in given if key not in known and key != DATASET]
    _check_known([i for i in content.strategies if i.key != DATASET], unknown, list(known))
    work = Strategies(graph, devices)
    in_graph = groups(graph, primitives)
    told = _told(known, given)
    for primitive in primitives:
        group, key = in_graph.get(primitive.name), told.get(primitive.name)
        if key is None or group is None or primitive.kind in NEVER_CUT:
            continue
        if not primitive_form(group.main.view, group.main.rule).name:
            work.foreign.append(key)
            continue
        cuts = _as_planned(group, primitive, given[key], work)
        if cuts is not None:
            work.take(group.main, cuts, key)
    missing = (scoped(each.name, scope) for each in primitives if each.name not in told)
    notes = unknown_note(unknown)
    if not content.is_compiled:
        notes += _missing_note(list(missing))
    return work.finished(given[DATASET].cuts if DATASET in given else None, notes)


def _told(known: Mapping[str, FilePrimitive], given: Mapping[str, StrategyItem]) -> dict[str, str]:
    """By primitive its key.

    Where the numbers of dimensions differ, it is that of another operator of the kind in its scope:
    names in a compiled graph are counted in another order than MindSpore may have asked for them.
    """
    found = [(key, primitive) for key, primitive in known.items() if key in given]
    out = {primitive.name: key for key, primitive in found}
    odd = [(key, p) for key, p in found if not _fits(p, given[key])]
    free = [key for key, _ in odd]
    for own, primitive in odd:
        scope = own.rpartition("-op")[0]
        alike = (k for k in free if k.rpartition("-op")[0] == scope and _fits(primitive, given[k]))
        key = next(alike, "")
        if key:
            free.remove(key)
            out[primitive.name] = key
    return out


def _fits(primitive: FilePrimitive, item: StrategyItem) -> bool:
    return [len(cuts) for cuts in item.cuts] == [len(dims) for dims in primitive.operands]


def _scope(given: Iterable[str], primitives: Sequence[FilePrimitive]) -> str:
    """Where the exported cell is in the network of the file: what fits the most keys."""
    tails = {each.name.removeprefix("Default/") for each in primitives}
    found: Counter[str] = Counter()
    for key in given:
        path = key.removeprefix("Default/").split("/")
        for place in range(min(len(path), _DEEPEST)):
            if "/".join(path[place:]) in tails:
                found["/".join(path[:place])] += 1
    return max(found, key=lambda scope: (found[scope], -len(scope)), default="")


def _as_planned(
    group: Group, primitive: FilePrimitive, item: StrategyItem, work: Strategies
) -> Strategy | None:
    """A strategy in the dims that the main part of a primitive has; None if it is at fault."""
    form = primitive_form(group.main.view, group.main.rule)
    place = f"operator {primitive.name!r} ({primitive.kind})"
    places = aligned(group, len(form.dims), len(primitive.operands))
    if places is None or len(item.cuts) != len(primitive.operands):
        what = f"the strategy has {len(item.cuts)} inputs, the operator {len(primitive.operands)}"
        work.violations.append(Violation(what, place, "give one tuple for each input"))
        return None
    out: list[Cuts] = [(1,) * len(dims) for dims in form.dims]
    present = [name for name in group.main.view.op.inputs if name]
    for index, cuts, dims in zip(places, item.cuts, primitive.operands, strict=True):
        if len(cuts) != len(dims):
            what = f"the strategy of input {index} has {len(cuts)} dimensions, it has {len(dims)}"
            work.violations.append(Violation(what, place, "give one number for each dimension"))
            return None
        for part in reversed(group.between(present[index]) if index < len(present) else ()):
            cuts = turned(part, cuts, back=False) or cuts  # noqa: PLW2901
        own = cuts
        if len(cuts) != len(form.dims[index]):
            fitted = apart(form.dims[index], dims, cuts)
            if fitted is None:
                what = f"input {index} is cut {list(cuts)}, and its rows are not merged here"
                work.violations.append(Violation(what, place, "cut the outer dimension first"))
                return None
            own = fitted
        out[index] = own
    for index in set(range(len(out))).difference(places):  # `Square` is a product with itself
        like = (out[place] for place in places if form.dims[place] == form.dims[index])
        out[index] = next(like, out[index])
    return tuple(out)


@dataclass(slots=True)
class Strategies:
    """Strategies under way."""

    graph: OpGraph
    devices: int
    known: dict[str, dict[int, int]] = field(default_factory=dict)
    """By operator of the graph the pieces of its factors."""
    weights: dict[str, tuple[str, Cuts]] = field(default_factory=dict)
    """By parameter: who read it first, and its cuts there."""
    violations: list[Violation] = field(default_factory=list)
    sizes: dict[str, Sequence[int]] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    """Operators of kinds of which nothing is known here."""
    split: list[str] = field(default_factory=list)
    """Composites whose parts are cut differently."""

    def take(self, part: Part, cuts: Strategy, key: str) -> None:
        """Note the strategy of one primitive."""
        try:
            reader = reader_of_cuts(part.view, cuts, self.devices)
        except UnknownOperatorError:
            self.foreign.append(key)
            return
        except StrategyFileError as error:
            self.violations += [v._replace(at=f"key {key!r}, {v.at}") for v in error.violations]
            return
        rule = lookup(part.view.op.kind).rule(part.view)
        counts: dict[int, int] = {}
        sides = zip(part.view.inputs, rule.operands, part.rule.operands, strict=True)
        for tensor, own, outer in sides:
            if tensor is None:
                continue
            pieces = _pieces(reader, own, len(tensor.dims))
            for dim, cut in zip(outer or (), pieces, strict=False):
                spread(counts, dim, cut, self._sizes(part.whole))
            if tensor.role is Role.PARAMETER:
                self._share(tensor.name, key, pieces)
        self._merge(part.whole, counts)

    def take_as_cut(self, part: Part, cuts: Strategy, key: str) -> None:
        """Note the cuts of an operator that no primitive of MindSpore's is."""
        counts: dict[int, int] = {}
        present = [m for t, m in zip(part.view.inputs, part.rule.operands, strict=True) if t]
        fits = len(cuts) == len(present)
        for mapping, own in zip(present, cuts, strict=False):
            fits = fits and len(own) == len(mapping or own)
            for dim, cut in zip(mapping or (), own, strict=False):
                spread(counts, dim, cut, self._sizes(part.whole))
        if not fits:
            what = "its inputs have other numbers or dimensions"
            self.violations.append(Violation(what, f"key {key!r}", "pass the model of the file"))
        self._merge(part.whole, counts)

    def _sizes(self, name: str) -> Sequence[int]:
        """Sizes of the factors of an operator of the graph."""
        if name not in self.sizes:
            op = next(each for each in self.graph.ops if each.name == name)
            self.sizes[name] = lookup(op.kind).rule(OpView(op, self.graph)).sizes
        return self.sizes[name]

    def _merge(self, name: str, counts: Mapping[int, int]) -> None:
        """The parts of a composite are cut as the first of them that the file has."""
        known = self.known.setdefault(name, {})
        for factor, pieces in counts.items():
            if known.setdefault(factor, pieces) != pieces and name not in self.split:
                self.split.append(name)

    def _share(self, name: str, key: str, pieces: Cuts) -> None:
        """Two operators that read one parameter must cut it alike.

        Source: MindSpore 2.7.0, `step_parallel.cc`, CheckParameterSplit.
        """
        first, before = self.weights.setdefault(name, (key, pieces))
        if before != pieces:
            what = f"{first!r} cuts it {before}, {key!r} {pieces}"
            place = f"parameter {file_name(self.graph.tensors[name])!r}"
            self.violations.append(Violation(what, place, "let both cut it alike"))

    def finished(self, inputs: Strategy | None, notes: Sequence[str]) -> Imported:
        if self.violations:
            raise StrategyFileError(*self.violations)
        ops = {op.name: op for op in self.graph.ops}
        pins = {
            name: cuts_of(OpView(ops[name], self.graph), counts)
            for name, counts in self.known.items()
        }
        return Imported(pins, inputs, (*notes, *self._own_notes()))

    def _own_notes(self) -> Iterator[str]:
        if self.foreign:
            yield (
                f"whether MindSpore takes the strategies of {len(self.foreign)} operators is "
                f"unknown here, and they are left to the search: {texts.listed(self.foreign, 3)}"
            )
        if self.split:
            yield (
                f"{len(self.split)} fused operators whose parts the file cuts differently are cut "
                f"as the first of them: {texts.listed(self.split, 3)}"
            )


def _pieces(reader: Reader, mapping: FactorMap | None, rank: int) -> Cuts:
    if mapping is None:
        return (1,) * rank
    return tuple(reader.count(dim) for dim in mapping)


def _check_stages(items: Sequence[StrategyItem]) -> None:
    stages = sorted({item.stage for item in items})
    if stages not in ([], [0]):
        what = f"its strategies are of pipeline stage {', '.join(map(str, stages))}"
        fix = "plan each stage as a model of its own"
        raise StrategyFileError(Violation(what, "the strategies", fix))


def _check_known(
    items: Sequence[StrategyItem], unknown: Sequence[str], known: Sequence[str]
) -> None:
    """A file of which nothing is known is another model's."""
    if not items or len(unknown) < len(items):
        return
    close = get_close_matches(unknown[0], known, n=2, cutoff=0.3) or list(known[:2])
    what = f"none of its {len(items)} keys is an operator of the model, such as {unknown[0]!r}"
    fix = f"pass the model that it was written for; here they are called {', '.join(close)}"
    raise StrategyFileError(Violation(what, "the keys", fix))


def unknown_note(unknown: Sequence[str]) -> list[str]:
    """What is said of keys that match nothing."""
    if not unknown:
        return []
    return [f"{len(unknown)} keys match nothing and are passed over: {texts.listed(unknown, 3)}"]


def _missing_note(missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    count = len(missing)
    return [
        f"{count} operators have no key, so MindSpore refuses the file: {texts.listed(missing, 3)}"
    ]
