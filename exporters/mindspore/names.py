r"""Names and orientation of parameters as a MindSpore network has them.

A names file is a list of entries in YAML or JSON. `pattern` is a regular expression that must match
the whole name of a parameter in the model file, `name` what it is called in the network, with
`\1` for a group. `transpose: true` says that the network keeps the matrix the other way round. A
list of names says that the network keeps it as so many equal parts along its last dimension.
`optional: true` allows the entry to match nothing. `primitive` is the network's operator that reads
the parameter, where it is another than the model's: `BiasAdd` for the bias of `nn.Dense`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

import data
from exporters.errors import ExportError
from exporters.mindspore.records import ParameterLayout, StrategyCheckpoint, is_nested
from ir.mindspore_forms.readers import Reader, file_name
from ir.plan import NamedLayout, Plan, PlannedTensor
from ir.violations import Violation

__all__ = [
    "NameRule", "Names", "bundled_names", "in_network", "in_parts", "name_rules", "names_for",
    "renamed", "renamed_scope",
]  # fmt: skip

LARGEST_FILE_BYTES = 2**20
_FOLDER = "mindspore_names"
_KEYS = {"pattern", "name", "transpose", "optional", "primitive"}
_FIX = "write a list of entries with `pattern`, `name` and, if need be, `transpose: true`"


@dataclass(frozen=True, slots=True)
class NameRule:
    """One entry of a names file."""

    pattern: re.Pattern[str]
    names: tuple[str, ...]
    """Templates; several for a parameter that the network keeps in parts."""
    transpose: bool = False
    optional: bool = False
    primitive: str = ""
    at: str = "--names"


@dataclass(frozen=True, slots=True)
class Names:
    """What the parameters of one plan are called in a network."""

    new: Mapping[str, tuple[str, ...]]
    """By the name in the model file; a parameter that is not there keeps its name."""
    transposed: frozenset[str]
    primitives: Mapping[str, str] = field(default_factory=dict)
    """By the name in the network: the primitive that reads it, where the network has another."""

    def of(self, name: str) -> tuple[str, ...]:
        return self.new.get(name, (name,))

    def parts(self, name: str) -> tuple[str, ...]:
        """Names of the parts of what the network does not keep whole; else the name itself."""
        found = self.new.get(name, ())
        return found if len(found) > 1 else (name,)


def bundled_names() -> tuple[str, ...]:
    """Networks whose names are known."""
    return data.names(_FOLDER)


def name_rules(source: str) -> tuple[NameRule, ...]:
    """Entries of a names file, or of the bundled ones of a network.

    Raises:
        ExportError: no such file, or it is no names file.
    """
    if source in bundled_names():
        return _parsed(data.read_text(_FOLDER, f"{source}.yaml"), source)
    path = Path(source)
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise _fault(f"more than {LARGEST_FILE_BYTES} bytes", source, "name a names file")
        return _parsed(path.read_text(encoding="utf-8"), source)
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(bundled_names())
        what = f"the names file cannot be read: {getattr(error, 'strerror', None) or error}"
        raise _fault(what, source, f"name a file, or one of {known}") from error


def names_for(plan: Plan, rules: Sequence[NameRule]) -> Names:
    """The names that entries give to the parameters of a plan.

    Raises:
        ExportError: an entry matches nothing, a parameter is matched twice, two get one name, a
            name holds a dash, or a parameter cannot be transposed; all of them are named.
    """
    tensors = {file_name(tensor): tensor for tensor in plan.graph.parameters}
    matches = [(rule, name, rule.pattern.fullmatch(name)) for rule in rules for name in tensors]
    found = [(rule, name, match) for rule, name, match in matches if match]
    violations = [*_unmatched(rules, [rule for rule, _, _ in found]), *_twice(found)]
    new = {
        name: tuple(match.expand(template) for template in rule.names)
        for rule, name, match in found
    }
    rule_of = {name: rule for rule, name, _ in found}
    violations += _bad_names(new, rule_of, tensors)
    for name, rule in rule_of.items():
        rank = len(tensors[name].dims)
        if rule.transpose and rank != 2:
            what = f"{name!r} has {rank} dimensions, only a matrix can be transposed"
            violations.append(Violation(what, rule.at, "leave `transpose` out"))
    if violations:
        raise ExportError(*violations)
    return Names(
        new,
        frozenset(name for name, rule in rule_of.items() if rule.transpose),
        {new[name][0]: rule.primitive for name, rule in rule_of.items() if rule.primitive},
    )


def _fault(what: str, at: str, fix: str) -> ExportError:
    return ExportError(Violation(what, at, fix))


def _parsed(text: str, source: str) -> tuple[NameRule, ...]:
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        line = f"{source}, line {place.line + 1}" if place is not None else source
        raise _fault("the names file is neither YAML nor JSON", line, _FIX) from error
    if not isinstance(content, list) or not content:
        raise _fault("a names file holds a list of entries", source, _FIX)
    return tuple(_rule(entry, f"{source}, entry {i}") for i, entry in enumerate(content, 1))


def _rule(entry: Any, at: str) -> NameRule:
    if not isinstance(entry, dict) or not {"pattern", "name"} <= set(entry):
        raise _fault("an entry has a `pattern` and a `name`", at, _FIX)
    unknown = sorted(str(key) for key in set(entry) - _KEYS)
    if unknown:
        raise _fault(f"unknown key {unknown[0]!r}", at, f"known: {', '.join(sorted(_KEYS))}")
    names = entry["name"] if isinstance(entry["name"], list) else [entry["name"]]
    transpose, optional = entry.get("transpose", False), entry.get("optional", False)
    texts = [entry["pattern"], *names]
    if not names or not all(isinstance(t, str) and t for t in texts):
        raise _fault("`pattern` and `name` are texts", at, _FIX)
    if not isinstance(transpose, bool) or not isinstance(optional, bool):
        raise _fault("`transpose` and `optional` are true or false", at, _FIX)
    primitive = entry.get("primitive", "")
    if not isinstance(primitive, str) or not re.fullmatch(r"\w*", primitive, re.ASCII):
        raise _fault("`primitive` is the name of an operator of MindSpore", at, _FIX)
    compiled = _compiled(entry["pattern"], names, at)
    return NameRule(compiled, tuple(names), transpose, optional, primitive, at)


def _compiled(pattern: str, names: Sequence[str], at: str) -> re.Pattern[str]:
    """The pattern, if the names ask for no group that it lacks."""
    fix = "mend the regular expression; groups are \\1, \\2 in the name"
    try:
        compiled = re.compile(pattern)
        probe = re.compile(pattern + "|").fullmatch("")  # the same groups, and matches nothing too
        for name in names:
            assert probe is not None
            probe.expand(name)
    except (re.error, IndexError) as error:
        raise _fault(f"{pattern!r} does not work: {error}", at, fix) from error
    return compiled


def _unmatched(rules: Sequence[NameRule], used: Sequence[NameRule]) -> Iterator[Violation]:
    for rule in rules:
        if rule not in used and not rule.optional:
            what = f"the pattern {rule.pattern.pattern!r} matches no parameter"
            yield Violation(what, rule.at, "mend it, leave it out, or add `optional: true`")


def _twice(found: Sequence[tuple[NameRule, str, re.Match[str]]]) -> Iterator[Violation]:
    first: dict[str, NameRule] = {}
    for rule, name, _ in found:
        before = first.setdefault(name, rule)
        if before is not rule:
            what = f"parameter {name!r} is matched twice: also by {before.pattern.pattern!r}"
            yield Violation(what, rule.at, "let one pattern match it")


def _bad_names(
    new: Mapping[str, tuple[str, ...]],
    rule_of: Mapping[str, NameRule],
    parameters: Mapping[str, object],
) -> Iterator[Violation]:
    every = [n for name in parameters for n in new.get(name, (name,))]
    taken = Counter(every)
    for name, targets in new.items():
        for target in targets:
            at = rule_of[name].at
            if taken[target] > 1:
                what = f"{name!r} and another parameter are both called {target!r}"
                yield Violation(what, at, "give each a name of its own")
            if "-" in target:
                what = f"{name!r} would be called {target!r}: what stands before a dash is a stage"
                yield Violation(what, at, "choose a name without a dash")


def renamed(plan: Plan, names: Names) -> Plan:
    """The plan with the names and the orientation of the network.

    Where a transposed matrix rests shared by the optimizer, the share moves to what is now its
    first dimension: MindSpore always cuts that one, into parts of the same size.
    """
    tensors, rest = dict(plan.graph.tensors), {t.name: t for t in plan.parameters}
    for tensor in plan.graph.parameters:
        old = file_name(tensor)
        source, permutation = old, tensor.stored_permutation
        if len(names.of(old)) == 1:
            (source,) = names.of(old)
        if old in names.transposed:
            rest[tensor.name] = _share_moved(rest[tensor.name], permutation)
            permutation = () if permutation == (1, 0) else (1, 0)
        tensors[tensor.name] = replace(tensor, source=source, stored_permutation=permutation)
    planned = tuple(rest.get(t.name, t) if t.role == "parameter" else t for t in plan.tensors)
    return replace(plan, graph=replace(plan.graph, tensors=tensors), tensors=planned)


def _share_moved(planned: PlannedTensor, permutation: tuple[int, ...]) -> PlannedTensor:
    """The matrix with the optimizer's share on the dimension that is the last one in the file."""
    first = permutation.index(0) if permutation else 0
    used = planned.used
    if used is None or planned.layout.dims[1 - first] != used.dims[1 - first]:
        return planned
    share = planned.layout.dims[first][len(used.dims[first]) :]
    dims = list(used.dims)
    dims[1 - first] = (*dims[1 - first], *share)
    return replace(planned, layout=NamedLayout(tuple(dims)))


def in_network(reader: Reader, names: Names | None) -> Reader:
    """The operator as the network has it; `BiasAdd` gets its rows as one dimension, as in
    `nn.Dense`.
    """
    first = file_name(reader.parameters[0][0]) if reader.parameters else ""
    name = names.primitives.get(first) if names is not None else None
    if name is None:
        return reader
    form = replace(reader.form, name=name)
    inputs = sorted(zip(form.inputs, form.dims, strict=True), key=lambda i: -len(i[0]))
    if name == "BiasAdd" and len(inputs) == 2 and len(inputs[0][0]) > 1:
        (data, dims), (bias, size) = inputs
        rows = tuple(factor for dim in data[:-1] for factor in dim)
        form = replace(
            form,
            inputs=((rows, data[-1]), bias),
            dims=((math.prod(dims[:-1]), dims[-1]), size),
            device_matrix=(rows, data[-1]),
        )
    return replace(reader, form=form)


def in_parts(plan: Plan, checkpoint: StrategyCheckpoint, names: Names) -> StrategyCheckpoint:
    """The checkpoint with several names for what the network keeps in parts.

    Raises:
        ExportError: a part would not divide as the whole does.
    """
    several = {name: new for name, new in names.new.items() if len(new) > 1}
    axes = {
        file_name(t): (t.stored_permutation or range(len(t.dims)))[-1]
        for t in plan.graph.parameters
        if file_name(t) in several
    }
    strategies = [
        replace(item, key=f"{item.key.removesuffix(old)}{target}")
        for item in checkpoint.strategies
        for old in [next((n for n in several if item.key.endswith(f"_{n}")), "")]
        for target in several.get(old, ("",))
    ]
    layouts = [
        _part(layout, target, axes[layout.name], len(several[layout.name]))
        if layout.name in several
        else layout
        for layout in checkpoint.layouts
        for target in several.get(layout.name, ("",))
    ]
    return replace(checkpoint, strategies=tuple(strategies), layouts=tuple(layouts))


def _part(layout: ParameterLayout, name: str, axis: int, parts: int) -> ParameterLayout:
    if layout.tensor_shape is None or is_nested(layout.tensor_map):
        raise TypeError(f"{layout.name} has no shape or a nested map")
    shape = list(layout.tensor_shape)
    if shape[axis] % parts == 0:
        shape[axis] //= parts
        cuts = list(layout.cuts)
        cuts[0] *= max(layout.opt_weight_shard_size, 1)
        if all(size % cut == 0 for size, cut in zip(shape, cuts, strict=True)):
            return replace(layout, name=name, tensor_shape=tuple(shape))
    size = layout.tensor_shape[axis]
    what = f"dimension {axis} of size {size} has no {parts} equal parts that are cut like it"
    raise _fault(what, f"parameter {layout.name!r}", "give it one name")


def renamed_scope(scope: str, names: Names) -> str:
    """Path of the cell that a scope of the model became, as the parameters beneath it show."""
    path = scope.split(".") if scope else []
    for depth in range(len(path), 0, -1):
        stem = ".".join(path[:depth]) + "."
        beneath = {old: new for old, new in names.new.items() if old.startswith(stem)}
        if beneath:
            before = _common(list(beneath))
            after = _common([each for new in beneath.values() for each in new])
            kept = max(len(after) - (len(before) - depth), 0)
            return ".".join([*after[:kept], *path[depth:]])
    return scope


def _common(names: Sequence[str]) -> list[str]:
    """First parts of the paths of all cells that own these parameters."""
    paths = [name.split(".")[:-1] for name in names]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return [parts[0] for parts in same]
