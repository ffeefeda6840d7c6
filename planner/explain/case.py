"""A plan as the problem that it answers: what every explanation starts from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from exporters.folding import common_scope
from ir.graph import OpGraph
from ir.plan import Plan
from planner.degrees import followed
from planner.evidence import Evidence
from planner.explain.asked import request_of
from planner.explain.posed import Answer, Hold, Posed
from planner.liveness import analyse
from planner.lowered import Lowered, NodeKind
from planner.lowering import lower
from planner.moving import planned_choice, setting_of
from planner.pinning import kept_candidates
from planner.pins import BY_BATCH, Pin, listed, pin_text, pins_of, rest_of
from planner.request import Cuts, RequestError, SearchRequest
from planner.restriction import IndexArray
from planner.solvers import Budget
from planner.token_cuts import RuledOut, left_by, ruled_out
from topology.cluster import Cluster

LONGEST_S = 120.0
"""Emergency brake of one question."""
SAME_PRICE = 1e-6
"""Relative difference up to which a plan costs what its file says."""


def _as_it_is(name: str) -> str:
    return name


def _the_step(cost_s: float) -> float:
    return cost_s


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A plan, its problem, and its choice there: all of it, or a part of the machine."""

    lowered: Lowered
    """With every saved tensor offered to be computed again. Its problem counts whole steps."""
    posed: Posed
    """The same as numbers, with what the user asked as holds."""
    choice: tuple[int, ...]
    """The plan's."""
    plain: Callable[[str], str] = _as_it_is
    """The name of an operator or tensor in the plan by that in the problem."""
    step_s: Callable[[float], float] = _the_step
    """Seconds of the whole step by those of the problem."""

    @property
    def graph(self) -> OpGraph:
        return self.lowered.liveness.graph

    @property
    def plan_answer(self) -> Answer:
        """The plan itself as an answer."""
        problem = self.posed.problem
        cost_s = problem.cost_s(self.choice)
        peak = problem.peak_bytes(self.choice) + self.posed.buffer_excess_bytes(self.choice)
        return Answer(self.choice, cost_s, -math.inf, peak, problem.fits(peak), "none")

    def node_of(self, name: str, *, tensor: bool = False) -> int:
        """The node of an operator or, where asked, of a tensor.

        Raises:
            RequestError: there is none of that name.
        """
        for number, node in enumerate(self.lowered.nodes):
            if self.plain(node.name) == name and (node.kind is NodeKind.OPERATOR) != tensor:
                return number
        raise self._unknown(name, tensor=tensor)

    def operator_named(self, name: str) -> int:
        """The node of the operator of this name, or of the only one of this scope.

        Raises:
            RequestError: there is none, or there are several.
        """
        ops = self.graph.ops
        prefix = len(common_scope(op.scope for op in ops))
        names = {op.name: self.plain(op.name) for op in ops}
        found = [own for own in names.values() if own == name] or [
            names[op.name] for op in ops if op.scope and name in {op.scope, op.scope[prefix:]}
        ]
        if len(found) > 1:
            raise RequestError(
                f"{len(found)} operators have the scope {name!r}\n  at:  --op {name}\n"
                f"  fix: name one of {listed(found)}"
            )
        if not found:
            raise self._unknown(name, tensor=False)
        return self.node_of(found[0])

    def _unknown(self, name: str, *, tensor: bool) -> RequestError:
        nodes = (n for n in self.lowered.nodes if (n.kind is NodeKind.OPERATOR) != tensor)
        kinds = {self.plain(node.name) for node in nodes}
        if not tensor:
            kinds |= {op.scope for op in self.graph.ops if op.scope}
        close = get_close_matches(name, sorted(kinds), n=3, cutoff=0.5)
        hint = f"the closest are {listed(close)}" if close else "`planner show` lists them"
        noun, option = ("decision about a tensor", "--tensor") if tensor else ("operator", "--op")
        return RequestError(
            f"the plan has no {noun} {name!r}\n  at:  {option} {name}\n  fix: {hint}"
        )


def case_of(plan: Plan, cluster: Cluster | None = None, graph: OpGraph | None = None) -> Case:
    """The problem of a plan, on its own mesh, and its choice there.

    Args:
        plan: without pipeline stages; those have a case for each part (`stage_case`).
        cluster: in place of the plan's own machine, such as one with faster links.
        graph: in place of the plan's own, such as one with another batch.

    Raises:
        RequestError: this version prices the plan otherwise than its file says.
    """
    own = Cluster.from_dict(plan.cluster)
    liveness = analyse(graph or plan.graph, training=bool(plan.request.get("training")))
    setting = replace(setting_of(plan, cluster or own), recompute=liveness.derived)
    lowered = lower(liveness, setting)
    choice = planned_choice(plan, lowered)
    if cluster is None and graph is None:
        check_price(lowered.problem.cost_s(choice), plan.estimate.step_time_s)
    request = request_of(plan)
    holds = (
        *degree_holds(lowered, request),
        *ruling_holds(lowered, request, lowered.liveness.graph),
        *rest_holds(lowered, request),
    )
    return posed_case(lowered, choice, request.pins, holds, budget_of(request))


def budget_of(request: SearchRequest) -> Budget:
    """What the search of a plan may do; its own time limit stands in no plan."""
    return Budget(request.effort, LONGEST_S, request.seed, request.threads)


def check_price(found_s: float, said_s: float) -> None:
    """Raise `RequestError` if a plan does not cost what its file says."""
    if abs(found_s - said_s) > SAME_PRICE * said_s:
        raise RequestError(
            f"the plan says {said_s:.6g} s, and this version finds {found_s:.6g} s for it\n"
            "  at:  estimate.step_time_s\n  fix: plan again with `planner search`"
        )


def posed_case(
    lowered: Lowered,
    choice: Sequence[int],
    pins: Sequence[tuple[str, Cuts]] = (),
    holds: Sequence[Hold] = (),
    budget: Budget | None = None,
) -> Case:
    """The same from a problem at hand.

    Args:
        lowered: without pins.
        choice: the plan.
        pins: operators with the cuts that they are held to.
        holds: what else the plan is held to.
        budget: what the search had that found the plan; by default that of effort 1.
    """
    posed = Posed(
        lowered.problem,
        (*holds_of(lowered, pins), *holds),
        kept_halves(lowered),
        lambda own: float(Evidence(lowered, own).buffer_excess_bytes()) if own else 0.0,
        UNREACHABLE_S,
        budget=budget or Budget(),
    )
    return Case(lowered, posed, tuple(choice))


def kept_halves(lowered: Lowered) -> tuple[IndexArray, ...]:
    """Candidates of every node that compute nothing again."""
    sized = zip(lowered.nodes, lowered.problem.sizes, strict=True)
    return tuple(np.arange(size // 2 if node.recomputes else size) for node, size in sized)


def degree_holds(
    lowered: Lowered, request: SearchRequest, where: Mapping[str, int] | None = None
) -> tuple[Hold, ...]:
    """What each degree leaves to the nodes that it concerns.

    Args:
        lowered: the problem.
        request: what was asked.
        where: the dimension of tensors that is the batch, where the graph alone does not say.
    """
    parts = (("", request.degrees), *request.scoped_degrees)
    return tuple(
        Hold(each.text + (f" of {scope}" if scope else ""), each.allowed)
        for scope, degrees in parts
        for each in followed(lowered, degrees, scope, where)
    )


def ruling_holds(
    lowered: Lowered,
    request: SearchRequest,
    graph: OpGraph,
    plain: Callable[[str], str] = _as_it_is,
) -> tuple[Hold, ...]:
    """What `--sequence-parallel`, `--context-parallel` and the like leave to operators.

    Args:
        lowered: the problem.
        request: what was asked.
        graph: the plan's.
        plain: the name of a tensor there.
    """
    asked = ruled_out(request, graph)
    none = RuledOut(tokens=asked.tokens)
    parts = {
        f"--sequence-parallel {asked.sequence_parallel}": replace(
            none, sequence_parallel=asked.sequence_parallel
        ),
        "--fully-use-devices": replace(none, fully_use_devices=asked.fully_use_devices),
        f"--context-parallel {request.context_parallel}": replace(
            none, context_parts=asked.context_parts
        ),
        f"--solver {request.solver}": replace(none, as_generated=asked.as_generated),
    }
    found = ((text, left_by(lowered, own, plain)) for text, own in parts.items())
    return tuple(Hold(text, allowed) for text, allowed in found if allowed)


def rest_holds(lowered: Lowered, request: SearchRequest) -> tuple[Hold, ...]:
    """What is left to operators that are split by batch for want of a pin."""
    pins = rest_of(lowered.liveness.graph, request, lowered.setting.cluster.devices)
    return (_hold(lowered, BY_BATCH, pins),) if pins else ()


def holds_of(lowered: Lowered, pins: Sequence[tuple[str, Cuts]]) -> tuple[Hold, ...]:
    """What each pin leaves to the operators that it names."""
    graph = lowered.liveness.graph
    return tuple(_hold(lowered, pin_text(*pin), pins_of(graph, [pin])) for pin in pins)


def _hold(lowered: Lowered, text: str, pins: Sequence[Pin]) -> Hold:
    wanted = {pin.op.name: pin for pin in pins}
    allowed = {
        number: kept_candidates(wanted[node.name], node, lowered.setting.mesh)
        for number, node in enumerate(lowered.nodes)
        if node.kind is NodeKind.OPERATOR and node.name in wanted
    }
    return Hold(text, allowed)
