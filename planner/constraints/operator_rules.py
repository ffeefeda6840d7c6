"""Rules that the user gives to operators which the catalogue lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType

from ir.graph import Op, OpGraph
from ir.ops import RULE_ATTRIBUTE, OpView, annotation, is_known, lookup
from ir.rule import check_rule
from planner.request import RequestError


def annotated(graph: OpGraph, rules: Sequence[tuple[str, str]]) -> OpGraph:
    """The graph with rules on the operators of these kinds, where planning finds them.

    Args:
        graph: as imported.
        rules: kinds as the graph names them, each with the notation of `ir.rule.parse_rule`.

    Raises:
        RequestError: a kind has two rules, is known already or is not in the model; or a rule does
            not fit an operator.
    """
    if not rules:
        return graph
    given = _by_kind(rules)
    unknown = {op.kind for op in graph.ops if not is_known(op.kind)}
    for kind, text in given.items():
        _check_kind(kind, text, unknown)
    ops = [
        replace(op, attributes={**op.attributes, RULE_ATTRIBUTE: given[op.kind]})
        if op.kind in given
        else op
        for op in graph.ops
    ]
    graph = graph.with_ops(ops)
    check_annotations(graph)
    return graph


def check_annotations(graph: OpGraph) -> None:
    """Bind every given rule to the sizes of its operator; another batch may make it a misfit.

    Raises:
        RequestError: a rule does not fit an operator; both are named.
    """
    for op in graph.ops:
        if not annotation(op):
            continue
        view = OpView(op, graph)
        operands = [None if t is None else t.dims for t in view.inputs]
        results = [t.dims for t in view.outputs]
        try:
            check_rule(lookup(op.kind).rule(view), operands, results)
        except ValueError as error:
            raise _misfit(op, operands, results, str(error)) from error


def given_rules(graph: OpGraph) -> Mapping[str, str]:
    """The rules that operators of a graph were given, by kind."""
    found = {op.kind: annotation(op) for op in graph.ops if annotation(op)}
    return MappingProxyType(dict(sorted(found.items())))


def _by_kind(rules: Sequence[tuple[str, str]]) -> dict[str, str]:
    given: dict[str, str] = {}
    for kind, text in rules:
        if kind in given:
            raise RequestError(
                f"{kind} has two rules: {given[kind]!r} and {text!r}\n"
                f"  at:  {_option(kind, text)}\n"
                "  fix: give every kind one rule, which holds for all its operators"
            )
        given[kind] = text
    return given


def _check_kind(kind: str, text: str, unknown: set[str]) -> None:
    if is_known(kind):
        raise RequestError(
            f"the catalogue has a rule for {kind} already\n"
            f"  at:  {_option(kind, text)}\n"
            "  fix: leave it out; rules are for operators that the catalogue lacks"
        )
    if kind not in unknown:
        raise RequestError(
            f"the model has no operator of kind {kind!r} that lacks a rule\n"
            f"  at:  {_option(kind, text)}\n"
            f"  fix: {_instead(kind, unknown)}"
        )


def _instead(kind: str, unknown: set[str]) -> str:
    if not unknown:
        return "leave it out; every operator of the model has a rule"
    names = sorted(unknown)
    close = get_close_matches(kind, names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}kinds without a rule: {', '.join(names)}"


def _misfit(
    op: Op,
    operands: Sequence[tuple[int, ...] | None],
    results: Sequence[tuple[int, ...]],
    reason: str,
) -> RequestError:
    shown = [", ".join(_dims(d) for d in side) for side in (operands, results)]
    whole = " -> ".join(", ".join(_ones(d) for d in side) for side in (operands, results))
    return RequestError(
        f"operator {op.name} ({op.kind}) does not fit its {reason}\n"
        f"  at:  {_option(op.kind, annotation(op))}, for {shown[0] or 'nothing'} -> {shown[1]}\n"
        "  fix: name a factor for each dimension of each operand and result, or write 1 for one "
        f"that stays whole: {whole.strip()!r} splits nothing"
    )


def _dims(dims: Sequence[int] | None) -> str:
    return "an absent operand" if dims is None else str(list(dims))


def _ones(dims: Sequence[int] | None) -> str:
    return " ".join("1" for _ in dims or ())


def _option(kind: str, text: str) -> str:
    return f"--rule '{kind}: {text}'"
