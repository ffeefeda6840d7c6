"""What JAX writes in small steps is recognised: means, softmax, norms, activations.

A rule is a list of expressions and a function that says what they are, or None where the sizes do
not fit. Rules of a later stage may name what an earlier one makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from importers.stablehlo.draft import Draft
from importers.stablehlo.groups import with_whole_heads
from importers.stablehlo.nodes import Nodes
from importers.stablehlo.patterns import Match, matches
from importers.traced.writer import Attribute, Step


@dataclass(frozen=True, slots=True)
class Found:
    """A step that does the same."""

    kind: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]


Builder = Callable[[Draft, Match], Found | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to recognise."""

    expressions: tuple[str, ...]
    build: Builder

    @property
    def roots(self) -> frozenset[str]:
        return frozenset(e.partition("(")[0] for e in self.expressions)


def _axes(step: Step) -> tuple[int, ...]:
    axes = step.attributes.get("axes", ())
    return axes if isinstance(axes, tuple) else ()


def _mean(draft: Draft, match: Match) -> Found | None:
    total = next(s for s in match.steps if s.kind == "ReduceSum")
    dims = draft.tensors[total.inputs[0]].dims
    count = math.prod(dims[a] for a in _axes(total))
    if "n_count" in match.names:
        found = draft.scalar(match.names["n_count"]) or 0.0
    else:
        found = 1 / (draft.scalar(match.names["n_share"]) or math.inf)
    if not math.isclose(found, count, rel_tol=4e-3):
        return None
    return Found("ReduceMean", total.inputs, total.attributes)


def _renamed(kind: str, **attributes: Attribute) -> Builder:
    """An operator of `x` alone."""
    return lambda _, match: Found(kind, (match.names["x"],), attributes)


def _normalised(kind: str) -> Builder:
    """Over one dimension, the same in every reduction."""

    def build(_: Draft, match: Match) -> Found | None:
        axes = {_axes(s) for s in match.steps if s.kind.startswith("Reduce")}
        if len(axes) != 1 or len(only := next(iter(axes))) != 1:
            return None
        return Found(kind, (match.names["x"],), {"axis": only[0]})

    return build


def _layer_norm(kind: str) -> Builder:
    """Over the last dimension, with a scale and, where the expression has it, a shift."""

    def build(draft: Draft, match: Match) -> Found | None:
        dims = draft.tensors[match.names["x"]].dims
        operands = [match.names[n] for n in ("scale", "bias") if n in match.names]
        if any(draft.tensors[n].dims != dims[-1:] for n in operands):
            return None
        reductions = [s for s in match.steps if s.kind == "ReduceMean"]
        if any(_axes(s) != (len(dims) - 1,) for s in reductions):
            return None
        epsilon = draft.scalar(match.names["n_eps"]) or 0.0
        return Found(kind, (match.names["x"], *operands), {"axis": -1, "epsilon": epsilon})

    return build


def _batch_norm(draft: Draft, match: Match) -> Found | None:
    """Along dimension 1, with statistics that are at hand."""
    dims = draft.tensors[match.names["x"]].dims
    wanted = (dims[1], *(1,) * (len(dims) - 2)) if len(dims) > 1 else ()
    views = [s for s in match.steps if s.kind == "Reshape"]
    vectors = [match.names[n] for n in ("scale", "bias", "mean", "variance")]
    if any(draft.tensors[v.outputs[0]].dims != wanted for v in views) or len(dims) < 3:
        return None
    if any(draft.tensors[n].dims != dims[1:2] for n in vectors):
        return None
    epsilon = draft.scalar(match.names["n_eps"]) or 0.0
    return Found("BatchNormalization", (match.names["x"], *vectors), {"epsilon": epsilon})


def _forms(text: str, **choices: tuple[str, ...]) -> tuple[str, ...]:
    """An expression with every choice of its parts."""
    return tuple(
        text.format(**dict(zip(choices, chosen, strict=True)))
        for chosen in product(*choices.values())
    )


def _half_of(inner: tuple[str, ...]) -> tuple[str, ...]:
    """`0.5 * x * inner` in every order of the factors."""
    return (
        *_forms("Mul(Mul(0.5, x), {e})", e=inner), *_forms("Mul(x, Mul(0.5, {e}))", e=inner),
        *_forms("Mul(0.5, Mul(x, {e}))", e=inner), *_forms("Div(Mul(x, {e}), 2)", e=inner),
    )  # fmt: skip


_ERF = (
    "Erfc(Mul(Neg(x), 0.70710678))", "Erfc(Neg(Mul(x, 0.70710678)))",
    "Add(1, Erf(Mul(x, 0.70710678)))", "Add(1, Erf(Div(x, 1.41421356)))",
    "Erfc(Div(Neg(x), 1.41421356))", "Erfc(Neg(Div(x, 1.41421356)))",
)  # fmt: skip
_TANH = _forms(
    "Add(1, Tanh(Mul(0.79788456, Add(x, Mul(0.044715, {cube})))))",
    cube=("Mul(Mul(x, x), x)", "Pow(x, 3)"),
)
_SHIFTED = "Sub(x, ReduceMax(x))"
_CENTRED = "Sub(x, ReduceMean(x))"
_SPREAD = (
    f"ReduceMean(Mul({_CENTRED}, {_CENTRED}))",
    "Sub(ReduceMean(Mul(x, x)), Mul(ReduceMean(x), ReduceMean(x)))",
    "Max(Sub(ReduceMean(Mul(x, x)), Mul(ReduceMean(x), ReduceMean(x))), 0)",
    "Relu(Sub(ReduceMean(Mul(x, x)), Mul(ReduceMean(x), ReduceMean(x))))",
)
_SCALED = (
    "Mul(Mul({d}, Rsqrt(Add({v}, n_eps))), scale)", "Mul({d}, Mul(Rsqrt(Add({v}, n_eps)), scale))",
    "Mul(Div({d}, Sqrt(Add({v}, n_eps))), scale)",
)  # fmt: skip
_LAYER = tuple(e for s in _SCALED for e in _forms(s, d=(_CENTRED,), v=_SPREAD))
_RMS = tuple(e for s in _SCALED for e in _forms(s, d=("x",), v=("ReduceMean(Mul(x, x))",)))
_MEANT = "Sub(x, Reshape(mean))"
_BATCH_ROOT = "Reshape(Rsqrt(Add(variance, n_eps)))"
_BATCH_GAIN = "Reshape(Mul(Rsqrt(Add(variance, n_eps)), scale))"

STAGES: tuple[tuple[Rule, ...], ...] = (
    (
        Rule(("Div(ReduceSum(x), n_count)", "Mul(ReduceSum(x), n_share)"), _mean),
        Rule(("Max(x, 0)",), _renamed("Relu")),
        Rule(("Div(1, Add(1, Exp(Neg(x))))",), _renamed("Sigmoid")),
        Rule(
            (f"Div(Exp({_SHIFTED}), ReduceSum(Exp({_SHIFTED})))", "Div(Exp(x), ReduceSum(Exp(x)))"),
            _normalised("Softmax"),
        ),
        Rule(
            (f"Sub({_SHIFTED}, Log(ReduceSum(Exp({_SHIFTED}))))",), _normalised("LogSoftmax")
        ),
        Rule(_half_of(_ERF), _renamed("Gelu", approximate="none")),
        Rule(_half_of(_TANH), _renamed("Gelu", approximate="tanh")),
    ),
    (
        Rule(tuple(f"Add({e}, bias)" for e in _LAYER), _layer_norm("LayerNormalization")),
        Rule(
            (
                f"Add(Mul(Mul({_MEANT}, {_BATCH_ROOT}), Reshape(scale)), Reshape(bias))",
                f"Add(Mul({_MEANT}, {_BATCH_GAIN}), Reshape(bias))",
            ),
            _batch_norm,
        ),
    ),
    (
        Rule(_LAYER, _layer_norm("LayerNormalization")),
        Rule(_RMS, _layer_norm("RMSNormalization")),
    ),
)  # fmt: skip


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
                _put(draft, index, replace(step, kind=found.kind, inputs=found.inputs,
                                           attributes=found.attributes))  # fmt: skip
        _keep_live(draft, results)


def _first(draft: Draft, rule: Rule, step: Step) -> Found | None:
    if step.kind not in rule.roots:
        return None
    for text in rule.expressions:
        for match in matches(draft, text, step):
            found = rule.build(draft, match)
            if found is not None:
                return found
    return None


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
        source = draft.makers.get(step.inputs[0]) if step.kind == "Reshape" else None
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
        if not step.kind.startswith(("Gather", "Scatter")):
            continue
        source = draft.makers.get(step.inputs[1])
        shape = draft.tensors[step.inputs[1]].dims
        if source is not None and source.kind == "Reshape":
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
