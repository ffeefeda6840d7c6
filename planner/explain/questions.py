"""The questions that a plan can be asked; everything else in this package answers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches

from exporters.folding import common_scope
from ir.plan import Pipeline, Plan
from planner.explain.case import Case, case_of
from planner.explain.operator import RIVALS, explained
from planner.explain.records import InStage, OperatorExplanation, PlanExplanation
from planner.explain.stage_case import stage_case
from planner.explain.stage_summary import summarised_stages
from planner.explain.subject import Subject
from planner.explain.summary import summarised
from planner.pins import cuts_text, listed
from planner.request import Cuts, RequestError

Report = Callable[[str], None]
"""Receives one line of progress."""


def why(
    plan: Plan,
    operator: str,
    *,
    rivals: int = RIVALS,
    cuts: Cuts | None = None,
    report: Report = lambda _: None,
) -> OperatorExplanation:
    """Why an operator is split as it is: costs by cause, the next best ways, what forces it.

    Args:
        plan: with or without stages; nothing else is needed.
        operator: its name, or its scope if no other operator has that.
        rivals: how many of the next best candidates to explain.
        cuts: explain in their place the best candidate that cuts the operands so, as `--pin` says.
        report: receives progress.

    Raises:
        RequestError: the plan has no such operator, or it cannot be cut so.
    """
    stage, case, number = at_operator(plan, operator)
    asked = () if cuts is None else _with_cuts(Subject(case, number), cuts)
    found = explained(case, number, rivals=rivals, asked=asked, report=report)
    return _placed(plan, stage, case, found)


def at_operator(plan: Plan, operator: str) -> tuple[int, Case, int]:
    """The stage of an operator, the problem that it is part of, and its node there.

    Raises:
        RequestError: the plan has no such operator.
    """
    stage = 0 if plan.pipeline is None else _stage_of_operator(plan, operator)
    case = _case(plan, stage)
    return stage, case, case.operator_named(operator)


def _case(plan: Plan, stage: int) -> Case:
    """The problem that a stage is part of."""
    return case_of(plan) if plan.pipeline is None else stage_case(plan, stage % plan.pipeline.parts)


def _placed(plan: Plan, stage: int, case: Case, found: OperatorExplanation) -> OperatorExplanation:
    pipeline: Pipeline | None = plan.pipeline
    if pipeline is None:
        return found
    work_s = case.plan_answer.cost_s
    place = InStage(stage, len(pipeline.stages), pipeline.micro_batches, work_s)
    return replace(found, place=place)


def _stage_of_operator(plan: Plan, name: str) -> int:
    """The stage of an operator by its name, or by its scope if that is enough."""
    prefix = len(common_scope(op.scope for op in plan.operators))
    found = [op for op in plan.operators if op.name == name] or [
        op for op in plan.operators if op.scope and name in {op.scope, op.scope[prefix:]}
    ]
    if len(found) > 1:
        raise RequestError(
            f"{len(found)} operators have the scope {name!r}\n  at:  --op {name}\n"
            f"  fix: name one of {listed([op.name for op in found])}"
        )
    if not found:
        known = {op.name for op in plan.operators} | {op.scope for op in plan.operators if op.scope}
        raise _unknown("operator", f"--op {name}", name, known)
    return found[0].stage


def _unknown(noun: str, option: str, name: str, known: set[str]) -> RequestError:
    close = get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    hint = f"the closest are {listed(close)}" if close else "`planner show` lists them"
    return RequestError(f"the plan has no {noun} {name!r}\n  at:  {option}\n  fix: {hint}")


def _with_cuts(subject: Subject, cuts: Cuts) -> tuple[int, ...]:
    found = tuple(i for i in range(subject.size) if subject.cuts(i) == cuts)
    if not found:
        known = dict.fromkeys(subject.cuts_text(i) for i in range(subject.size))
        name = subject.case.plain(subject.node.name)
        raise RequestError(
            f"operator {name} cannot be cut {cuts_text(cuts)}\n  at:  --cuts\n"
            f"  fix: use one of {listed(list(known))}"
        )
    return found


def why_tensor(
    plan: Plan, tensor: str, *, rivals: int = RIVALS, report: Report = lambda _: None
) -> OperatorExplanation:
    """The same for the layout of a parameter, an input, or a tensor with several readers.

    Another tensor has the layout that its maker gives it: that operator is explained.

    Raises:
        RequestError: the plan has no such tensor.
    """
    stage = 0 if plan.pipeline is None else _stage_of_tensor(plan, tensor)
    case = _case(plan, stage)
    maker = next((op.name for op in plan.graph.ops if tensor in op.outputs), None)
    decided = any(t.name == tensor for t in plan.tensors)
    if maker is not None and not decided:
        number = case.node_of(maker)
    else:
        number = case.node_of(tensor, tensor=True)
    return _placed(plan, stage, case, explained(case, number, rivals=rivals, report=report))


def _stage_of_tensor(plan: Plan, name: str) -> int:
    """The stage that makes a tensor, or holds it first."""
    makers = [op.stage for op, own in zip(plan.operators, plan.graph.ops, strict=True)
              if name in own.outputs]  # fmt: skip
    holders = [t.stage for t in plan.tensors if t.name == name]
    found = [*makers, *holders]
    if not found:
        known = {t.name for t in plan.tensors} | set(plan.graph.tensors)
        raise _unknown("decision about a tensor", f"--tensor {name}", name, known)
    return found[0]


def summary(plan: Plan, report: Report = lambda _: None) -> PlanExplanation:
    """What costs most, what limits memory, the closest rivals, and what faster links would bring.

    Args:
        plan: with or without stages; nothing else is needed.
        report: receives progress.
    """
    if plan.pipeline is not None:
        return summarised_stages(plan, report)
    return summarised(plan, case_of(plan), report)
