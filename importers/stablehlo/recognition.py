"""What JAX writes in small steps is recognised: means, softmax, norms, activations.

The entries of the catalogue have the expressions; here is what their sizes and numbers tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from importers.stablehlo.draft import Draft
from importers.stablehlo.groups import with_whole_heads
from importers.stablehlo.nodes import Nodes
from importers.stablehlo.patterns import Match, matches
from importers.traced.writer import Attribute, Step
from ir.ops import catalogue, lookup
from ir.ops.reduction import REDUCTIONS
from ir.ops.shape import RESHAPES

Attributes = Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to recognise."""

    kind: str
    expression: str
    attributes: Attributes

    @property
    def root(self) -> str:
        return self.expression.partition("(")[0]

    def stands_for(self, draft: Draft, match: Match) -> Step | None:
        """What does the same as the steps of a match; None where the sizes do not fit."""
        found = self._told(draft, match)
        if found is None:
            return None
        operands = [match.names[name] for name in _OPERANDS if name in match.names]
        attributes = {**self.attributes, **found}
        return replace(match.root, kind=self.kind, inputs=tuple(operands), attributes=attributes)

    def _told(self, draft: Draft, match: Match) -> Attributes | None:
        """The attributes that the steps tell."""
        if "n_eps" in match.names:
            fits = _fits_channels if "mean" in match.names else _fits_rows
            epsilon = draft.scalar(match.names["n_eps"]) or 0.0
            axis = {} if "mean" in match.names else {"axis": -1}
            return {**axis, "epsilon": epsilon} if fits(draft, match) else None
        sums = [s for s in match.steps if s.kind in REDUCTIONS]
        if {"n_count", "n_share"} & match.names.keys():
            return sums[0].attributes if _is_mean(draft, match, sums[0]) else None
        axes = {_axes(s) for s in sums}
        if not axes:
            return {}
        only = next(iter(axes))
        return {"axis": only[0]} if len(axes) == 1 and len(only) == 1 else None


_OPERANDS = ("x", "scale", "bias", "mean", "variance")


def _rules() -> Iterator[tuple[Rule, ...]]:
    """In three stages: later expressions name what the earlier ones make, and those with a bias go
    before those without. Longer expressions go first: a shorter one may be a part of them.
    """
    every = [
        Rule(kind, text, dict(each.attributes))
        for kind, entry in catalogue().items()
        for each in entry.small_steps
        for text in each.expressions
    ]
    stages: dict[int, list[Rule]] = {0: [], 1: [], 2: []}
    for rule in sorted(every, key=lambda rule: -len(rule.expression)):
        first = "n_eps" not in rule.expression
        stages[0 if first else 1 if "bias" in rule.expression else 2].append(rule)
    return (tuple(rules) for rules in stages.values())


STAGES = tuple(_rules())


def _axes(step: Step) -> tuple[int, ...]:
    axes = step.attributes.get("axes", ())
    return axes if isinstance(axes, tuple) else ()


def _is_mean(draft: Draft, match: Match, total: Step) -> bool:
    """Whether a sum is divided by the number of its terms."""
    dims = draft.tensors[total.inputs[0]].dims
    if "n_count" in match.names:
        found = draft.scalar(match.names["n_count"]) or 0.0
    else:
        found = 1 / (draft.scalar(match.names["n_share"]) or math.inf)
    return math.isclose(found, math.prod(dims[a] for a in _axes(total)), rel_tol=4e-3)


def _fits_rows(draft: Draft, match: Match) -> bool:
    """Whether the last dimension is normalised, with a scale and perhaps a shift as long."""
    dims = draft.tensors[match.names["x"]].dims
    vectors = [match.names[n] for n in ("scale", "bias") if n in match.names]
    reductions = [s for s in match.steps if s.kind in REDUCTIONS]
    return all(draft.tensors[n].dims == dims[-1:] for n in vectors) and all(
        _axes(s) == (len(dims) - 1,) for s in reductions
    )


def _fits_channels(draft: Draft, match: Match) -> bool:
    """Whether dimension 1 is normalised, with statistics that are at hand."""
    dims = draft.tensors[match.names["x"]].dims
    wanted = (dims[1], *(1,) * (len(dims) - 2)) if len(dims) > 1 else ()
    views = [s for s in match.steps if s.kind in RESHAPES]
    vectors = [match.names[n] for n in ("scale", "bias", "mean", "variance")]
    return (
        len(dims) > 2
        and all(draft.tensors[v.outputs[0]].dims == wanted for v in views)
        and all(draft.tensors[n].dims == dims[1:2] for n in vectors)
    )


def recognised(draft: Draft, results: list[str]) -> None:
    """Replace what the rules find, and leave out what no result depends on then."""
    _apply(draft, results)
    with_whole_heads(draft)
    _join_sums(draft, results)
    _with_plain_places(draft)
    _keep_live(draft, results)


def _apply(draft: Draft, results: list[str]) -> None:
    for stage in STAGES:
        for index, step in enumerate(draft.steps):
            found = next((f for rule in stage for f in [_first(draft, rule, step)] if f), None)
            if found is not None:
                _put(draft, index, found)
        _keep_live(draft, results)


def _first(draft: Draft, rule: Rule, step: Step) -> Step | None:
    found = matches(draft, rule.expression, step) if step.kind == rule.root else ()
    return next(filter(None, (rule.stands_for(draft, match) for match in found)), None)


def _put(draft: Draft, index: int, step: Step) -> None:
    draft.steps[index] = step
    draft.makers.update(dict.fromkeys(step.outputs, step))


def _keep_live(draft: Draft, results: list[str]) -> None:
    wanted = set(results)
    kept: list[Step] = []
    for step in reversed(draft.steps):
        if wanted.intersection(step.outputs):
            wanted.update(step.inputs)
            kept.append(step)
    draft.steps[:] = kept[::-1]


def _readers(draft: Draft) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in draft.steps:
        for name in step.inputs:
            found.setdefault(name, []).append(step)
    return found


def _join_sums(draft: Draft, results: list[str]) -> None:
    """A reduction whose dimensions of size one go at once does not keep them."""
    readers = _readers(draft)
    for index, step in enumerate(draft.steps):
        source = draft.makers.get(step.inputs[0]) if step.kind in RESHAPES else None
        if source is None or not source.attributes.get("keepdims") or source.outputs[0] in results:
            continue
        axes = _axes(source)
        before = draft.tensors[source.inputs[0]].dims
        short = tuple(d for i, d in enumerate(before) if i not in axes)
        if draft.tensors[step.outputs[0]].dims == short and len(readers[source.outputs[0]]) == 1:
            attributes = {**source.attributes, "keepdims": 0}
            made = replace(source, outputs=step.outputs, attributes=attributes)
            _put(draft, index, made)


def _with_plain_places(draft: Draft) -> None:
    """Places of rows as the operator that finds them has them, without a cast to fewer bits."""
    for index, step in enumerate(draft.steps):
        if lookup(step.kind).family != "indexing":
            continue
        source = draft.makers.get(step.inputs[1])
        shape = draft.tensors[step.inputs[1]].dims
        if source is not None and source.kind in RESHAPES:
            source = draft.makers.get(source.inputs[0])
        if source is None or source.kind != "Cast":
            continue
        origin = draft.tensors[source.inputs[0]]
        if origin.dtype != "int64":
            continue
        count = len(draft.steps)
        name = Nodes(draft, step.scope).reshape(origin.name, *shape)
        added = draft.steps[count:]
        del draft.steps[count:]
        draft.steps[index:index] = added
        place = index + len(added)
        _put(draft, place, replace(step, inputs=(step.inputs[0], name, *step.inputs[2:])))
