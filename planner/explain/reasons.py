"""Causes in the user's words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.explain.case import Case
from planner.explain.causes import EQUAL, Cause, CauseKind, term_s
from planner.explain.difference_by_cause import FASTER
from planner.explain.posed import Answer
from planner.explain.records import Reason
from planner.explain.terms import Term, Terms, by_label
from planner.lowered import NodeKind
from topology.units import format_bytes, format_seconds


def reason_of(case: Case, cause: Cause, alternatives: Sequence[Sequence[int]]) -> Reason:
    """A cause as a sentence.

    Args:
        case: the plan.
        cause: what was found.
        alternatives: choices with the candidate: all else as planned, all else anew.
    """
    name = _name(case, cause)
    alternatives = [*alternatives, *([cause.choice] if cause.choice else [])]
    return Reason(
        kind=cause.kind.value,
        name=name,
        text=_text(case, cause, name, alternatives),
        share_s=cause.share_s if math.isfinite(cause.share_s) else None,
        left_s=cause.left_s,
        decisive=cause.is_decisive,
    )


def does_not_fit(case: Case, rival: Answer) -> Reason:
    """The reason of a candidate with which nothing fits into memory, limit or not lifted."""
    text = (
        f"nothing fits with it: the smallest found needs {format_bytes(rival.peak_bytes)} "
        f"of {format_bytes(case.posed.limit_bytes)}"
    )
    return Reason(CauseKind.MEMORY.value, "", text, None, math.inf, decisive=False)


def is_missed(case: Case, rival: Answer) -> bool:
    """Whether a search with the candidate finds what the search of the plan did not."""
    plan_s = case.plan_answer.cost_s
    return rival.fits and rival.cost_s < plan_s * (1 - EQUAL)


def missed(case: Case, rival: Answer) -> Reason:
    """The reason of a candidate with which a search finds a faster plan."""
    gain_s = case.plan_answer.cost_s - rival.cost_s
    return Reason("search", "", FASTER, None, -gain_s, decisive=True)


def node_name(case: Case, number: int) -> str:
    """An operator by its name, a tensor by its name and what it is."""
    node = case.lowered.nodes[number]
    name = case.plain(node.name)
    return name if node.kind is NodeKind.OPERATOR else f"{node.kind} {name}"


def _name(case: Case, cause: Cause) -> str:
    if cause.kind is CauseKind.HOLD:
        return case.posed.holds[cause.index].text
    if cause.kind is CauseKind.NODE:
        return node_name(case, cause.index)
    if cause.kind is CauseKind.EDGE:
        edge = case.lowered.edges[cause.index]
        ends = (node_name(case, edge.source), node_name(case, edge.target))
        return f"{case.plain(edge.tensor)} from {ends[0]} to {ends[1]}"
    return ""


def _text(case: Case, cause: Cause, name: str, alternatives: Sequence[Sequence[int]]) -> str:
    if cause.kind is CauseKind.HOLD:
        return f"{name} holds the plan: {_then(cause)} without it"
    if cause.kind is CauseKind.MEMORY:
        limit = format_bytes(case.posed.limit_bytes)
        return f"the memory of {limit} per device: {_then(cause)} without the limit"
    term = (cause.kind, cause.index)
    problem = case.posed.problem
    before = term_s(problem, term, case.choice)
    worst = max(alternatives, key=lambda own: term_s(problem, term, own), default=case.choice)
    after, noun = term_s(problem, term, worst), _noun(case, cause, worst)
    if after <= before:
        return f"{noun} costs other ways to arrange it more than the plan: {_then(cause)} otherwise"
    return f"{noun} takes {format_seconds(after)}, in the plan {format_seconds(before)}"


def _then(cause: Cause) -> str:
    about = "about " if cause.is_near else ""
    if cause.left_s < 0:
        gain = format_seconds(-cause.left_s)
        return f"the step would be {about}{gain} faster with this candidate"
    if cause.left_s == 0:
        return "this candidate would be as good as the plan's"
    if math.isinf(cause.share_s):
        return f"it would cost {about}{format_seconds(cause.left_s)} more, but be possible"
    return f"{about}{format_seconds(cause.share_s)} of the difference would go"


def _noun(case: Case, cause: Cause, choice: Sequence[int]) -> str:
    """What a node does or an edge moves, with the largest parts of it."""
    terms = Terms(case.lowered)
    if cause.kind is CauseKind.NODE:
        parts = [*terms.of_node(cause.index, choice[cause.index])]
        return f"the work of {_name(case, cause)} ({_parts(parts)})"
    edge = case.lowered.edges[cause.index]
    parts = [*terms.of_edge(cause.index, choice[edge.source], choice[edge.target])]
    return f"moving {_name(case, cause)} ({_parts(parts)})"


def _parts(parts: Sequence[Term]) -> str:
    found = sorted(by_label(parts).items(), key=lambda kv: -kv[1])
    return ", ".join(label for label, _ in found[:2]) or "nothing"
