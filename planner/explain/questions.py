"""The questions that a plan can be asked; everything else in this package answers them."""

from __future__ import annotations

from collections.abc import Callable

from ir.plan import Plan
from planner.explain.case import case_of
from planner.explain.operator import RIVALS, explained
from planner.explain.records import OperatorExplanation, PlanExplanation
from planner.explain.subject import Subject
from planner.explain.summary import summarised
from planner.pins import cuts_text, listed
from planner.request import Cuts, RequestError

Report = Callable[[str], None]
"""Receives one line of progress."""


def why(
    plan: Plan, operator: str, *, rivals: int = RIVALS, cuts: Cuts | None = None
) -> OperatorExplanation:
    """Why an operator is split as it is: costs by cause, the next best ways, what forces it.

    Args:
        plan: without pipeline stages; nothing else is needed.
        operator: its name, or its scope if no other operator has that.
        rivals: how many of the next best candidates to explain.
        cuts: explain in their place the best candidate that cuts the operands so, as `--pin` says.

    Raises:
        RequestError: the plan has no such operator, it cannot be cut so, or the plan has stages.
    """
    case = case_of(plan)
    number = case.operator_named(operator)
    asked = () if cuts is None else _with_cuts(Subject(case, number), cuts)
    return explained(case, number, rivals=rivals, asked=asked)


def _with_cuts(subject: Subject, cuts: Cuts) -> tuple[int, ...]:
    found = tuple(i for i in range(subject.size) if subject.cuts(i) == cuts)
    if not found:
        known = dict.fromkeys(subject.cuts_text(i) for i in range(subject.size))
        raise RequestError(
            f"operator {subject.node.name} cannot be cut {cuts_text(cuts)}\n  at:  --cuts\n"
            f"  fix: use one of {listed(list(known))}"
        )
    return found


def why_tensor(plan: Plan, tensor: str, *, rivals: int = RIVALS) -> OperatorExplanation:
    """The same for the layout of a parameter, an input, or a tensor with several readers.

    Another tensor has the layout that its maker gives it: that operator is explained.

    Raises:
        RequestError: the plan has no such tensor, or has stages.
    """
    case = case_of(plan)
    maker = next((op.name for op in case.graph.ops if tensor in op.outputs), None)
    decided = any(node.name == tensor and node.candidates is None for node in case.lowered.nodes)
    if maker is not None and not decided:
        return explained(case, case.node_of(maker), rivals=rivals)
    return explained(case, case.node_of(tensor, tensor=True), rivals=rivals)


def summary(plan: Plan, report: Report = lambda _: None) -> PlanExplanation:
    """What costs most, what limits memory, the closest rivals, and what faster links would bring.

    Args:
        plan: without pipeline stages; nothing else is needed.
        report: receives progress.

    Raises:
        RequestError: the plan has stages.
    """
    return summarised(plan, case_of(plan), report)
