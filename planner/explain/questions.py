"""The questions that a plan can be asked; everything else in this package answers them."""

from __future__ import annotations

from dataclasses import replace

from ir.plan import Plan
from ir.texts import listed
from planner.constraints.pins import cuts_text
from planner.explain.infeasible import Infeasibility, why_infeasible
from planner.explain.operator import RIVALS, explained
from planner.explain.plan_problem import PlanProblem, problem_of
from planner.explain.reasons import Subject
from planner.request import Cuts, InfeasibleError, RequestError
from planner.requests.machines import machine
from planner.requests.options.searches import SearchOptions
from planner.requests.plan_names import operator_named, unknown_part
from planner.requests.searches import Question
from planner.requests.sources import Document
from planner.search import Report
from report.explanation import InStage, OperatorExplanation
from topology.cluster import Cluster


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


def at_operator(plan: Plan, operator: str) -> tuple[int, PlanProblem, int]:
    """The stage of an operator, the problem that it is part of, and its node there.

    Raises:
        RequestError: the plan has no such operator.
    """
    name = operator_named(plan, operator).name
    stage = next(op.stage for op in plan.operators if op.name == name)
    case = problem_of(plan, stage % plan.pipeline.parts)
    return stage, case, case.node_of(name)


def _placed(
    plan: Plan, stage: int, case: PlanProblem, found: OperatorExplanation
) -> OperatorExplanation:
    pipeline = plan.pipeline
    if pipeline.is_single:
        return found
    work_s = case.plan_answer.cost_s
    place = InStage(stage, len(pipeline.stages), pipeline.micro_batches, work_s)
    return replace(found, place=place)


def _with_cuts(subject: Subject, cuts: Cuts) -> tuple[int, ...]:
    found = tuple(i for i in range(subject.size) if subject.cuts(i) == cuts)
    if not found:
        known = dict.fromkeys(subject.cuts_text(i) for i in range(subject.size))
        name = subject.node.origin.name
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
    stage = 0 if plan.pipeline.is_single else _stage_of_tensor(plan, tensor)
    case = problem_of(plan, stage % plan.pipeline.parts)
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
        raise unknown_part("decision about a tensor", "--tensor", name, known)
    return found[0]


def explain_infeasible(
    found: Question, asked: SearchOptions, machine_file: Document | None,
    error: InfeasibleError, report: Report = lambda _: None,
) -> Infeasibility:  # fmt: skip
    """Reasons, and changes that were tried; after Ctrl-C those that were tried until then.

    Args:
        found: what was asked.
        asked: the same as text.
        machine_file: what `asked.cluster` names, if that is no bundled machine.
        error: how the search ended.
        report: receives progress.
    """
    named = asked.cluster if machine_file is None else machine_file

    def grow(devices: int) -> Cluster:
        return machine(named, devices, asked.product, found.request).cluster

    graph = found.model.graph(dict(found.request.bind))
    if not error.interrupted:
        report("nothing fits: looking for the smallest change that makes it fit")
    request = found.left
    return why_infeasible(graph, found.machine.cluster, request, error, grow, report=report)


def with_fixes(error: InfeasibleError, found: Infeasibility) -> InfeasibleError:
    """The error with the changes that were tried in place of those that were only reckoned."""
    return replace(
        error,
        remedies=tuple(fix.text for fix in found.fixes) or error.remedies,
        interrupted=found.interrupted,
        out_of_time=found.out_of_time or error.out_of_time,
    )
