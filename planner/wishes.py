"""What a request wishes beside pins: degrees, soft pins, and few changes of an older plan.

Degrees narrow the candidates. A soft pin costs its weight in seconds for every operator that does
not keep it. At most K changes are a limit: they are posed as one more time point at which every
operator that is split anew holds a share 1/K of the memory limit, so that every solver of memory
limits keeps it, and bounds it. Costs that stand in a plan are those of the problem itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ir.graph import OpGraph
from ir.plan import Plan
from planner.degrees import degrees_text, followed, meshes_with
from planner.fewer import narrowed
from planner.lowered import Lowered, NodeKind
from planner.pinning import kept_candidates
from planner.pins import Pin, listed, pin_text, pins_of
from planner.problem import FloatArray, NodeTable, Problem
from planner.request import Cuts, RequestError, SearchRequest
from planner.restriction import IndexArray
from planner.solvers import Solution
from planner.splits import splits_in, splits_of
from topology.mesh import Mesh


@dataclass(frozen=True, slots=True)
class SoftPin:
    """Operators that would rather be cut so."""

    pins: tuple[Pin, ...]
    weight_s: float
    """Seconds of a step that it may cost to keep one of them."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The wishes of one request."""

    request: SearchRequest
    soft: tuple[SoftPin, ...]

    @classmethod
    def of(cls, graph: OpGraph, request: SearchRequest) -> Wishes:
        """Those of a request.

        Raises:
            RequestError: a soft pin names no operator, or does not fit its inputs.
        """
        found = (
            SoftPin(pins_of(graph, [(name, cuts)]), weight)
            for name, cuts, weight in request.soft_pins
        )
        return cls(request, tuple(found))

    @property
    def is_empty(self) -> bool:
        held = self.request.degrees or self.request.scoped_degrees or self.request.rests
        return not (self.soft or held or self.request.max_changes is not None)

    def meshes(self, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
        """Those on which the degrees can be had; that of the older plan alone if it is one.

        Raises:
            RequestError: there is none.
        """
        found = tuple(meshes)
        for degrees in (self.request.degrees, *(own for _, own in self.request.scoped_degrees)):
            found = meshes_with(degrees, found) if degrees else found
        same = tuple(mesh for mesh in found if mesh_axes(mesh) == self.request.close_mesh)
        return same or found

    def narrowed(self, lowered: Lowered) -> Lowered:
        """The problem with the candidates that follow the degrees, and no change if none may be."""
        for scope, degrees in (("", self.request.degrees), *self.request.scoped_degrees):
            allowed: dict[int, IndexArray] = {}
            for each in followed(lowered, degrees, scope):
                for node, own in each.allowed.items():
                    both = np.intersect1d(allowed.get(node, own), own)
                    # One candidate may not have all degrees at once; then the first one holds.
                    allowed[node] = both if len(both) else allowed[node]
            lowered = narrowed(lowered, allowed)
        lowered = narrowed(lowered, self._resting(lowered))
        if self.request.max_changes == 0:
            lowered = narrowed(lowered, unchanged(self._changes(lowered)))
        return lowered

    def _resting(self, lowered: Lowered) -> dict[int, IndexArray]:
        """Candidates of parameters whose layout at rest is given."""
        wanted, sizes = dict(self.request.rests), lowered.setting.mesh.sizes
        out: dict[int, IndexArray] = {}
        for number, node in enumerate(lowered.nodes):
            if node.kind is not NodeKind.PARAMETER or node.name not in wanted or node.port is None:
                continue
            cuts = [state.forward.shards(sizes) for state in node.port.states]
            same = [i for i, of in enumerate(node.port.of) if cuts[of] == wanted[node.name]]
            if not same:
                some = listed([str(each) for each in dict.fromkeys(cuts)])
                raise RequestError(
                    f"parameter {node.name} cannot rest cut {wanted[node.name]}\n"
                    f"  at:  the placements of {node.name}\n  fix: choose one of {some}"
                )
            out[number] = np.array(same, dtype=np.intp)
        return out

    def posed(self, lowered: Lowered, problem: Problem) -> Problem:
        """The problem as it is solved: with the price of soft pins and the limit on changes."""
        priced = with_charges(problem, self.charges(lowered))
        most = self.request.max_changes
        return with_budget(priced, self._changes(lowered), most) if most else priced

    def charges(self, lowered: Lowered) -> dict[int, FloatArray]:
        """What soft pins cost every candidate of the operators that they name."""
        return soft_charges(self.soft, lowered)

    def broken(self, lowered: Lowered, choice: Sequence[int]) -> tuple[float, list[str]]:
        """Seconds charged for soft pins that a choice does not keep, and these pins."""
        charges = {node: float(own[choice[node]]) for node, own in self.charges(lowered).items()}
        names = {lowered.nodes[node].name for node, paid in charges.items() if paid}
        return math.fsum(charges.values()), broken_pins(self.request, self.soft, names)

    def changed(self, lowered: Lowered, choice: Sequence[int]) -> list[str]:
        """Operators that a choice splits otherwise than the older plan."""
        changes = self._changes(lowered)
        return [lowered.nodes[node].name for node, own in changes.items() if own[choice[node]]]

    @property
    def allow_baselines(self) -> bool:
        """Whether a baseline may be the answer: it knows nothing of soft pins and older plans."""
        return not self.soft and self.request.max_changes is None

    def judged(self, lowered: Lowered, found: Solution) -> Solution:
        """A solution with its own memory; one with too many changes fits nowhere."""
        if found.choice is None or self.request.max_changes is None:
            return found
        few = len(self.changed(lowered, found.choice)) <= self.request.max_changes
        peak = lowered.problem.peak_bytes(found.choice) if few else math.inf
        return replace(found, peak_bytes=peak)

    def check(self, found: Solution) -> None:
        """Raise `RequestError` if it is the changes that nothing was found for."""
        if math.isinf(found.peak_bytes) and self.request.max_changes is not None:
            raise too_many_changes(self.request)

    def noted(self, plan: Plan, lowered: Lowered, choice: Sequence[int], bound_s: float) -> Plan:
        """The plan with what became of the wishes, and the bound less what soft pins are charged.

        Args:
            plan: the answer.
            lowered: its problem, without the prices of wishes.
            choice: the answer there.
            bound_s: of the problem with these prices.
        """
        if self.is_empty:
            return plan
        step_s, bound = plan.estimate.step_time_s, plan.bound
        if self.soft:
            least_s = min(step_s, bound_s - self.broken(lowered, choice)[0])
            gap = step_s / least_s - 1 if least_s > 0 else 0.0
            bound = replace(bound, bound_s=least_s, gap=gap)
        return replace(plan, bound=bound, notes=(*self.notes(lowered, choice), *plan.notes))

    def notes(self, lowered: Lowered, choice: Sequence[int]) -> tuple[str, ...]:
        """What became of the wishes, for the reader of the plan."""
        out: list[str] = []
        if self.request.degrees:
            free = [n for each in followed(lowered, self.request.degrees) for n in each.free]
            text = f"held to {degrees_text(self.request.degrees)}"
            out.append(text + (f"; {len(free)} that cannot follow are free" if free else ""))
        if self.request.scoped_degrees:
            out.append(f"{len(self.request.scoped_degrees)} layers are held to their own degrees")
        if self.request.rests:
            out.append(f"{len(self.request.rests)} parameters rest as given")
        if self.soft:
            out.append(soft_pin_note(self.request, *self.broken(lowered, choice)))
        if self.request.max_changes is not None:
            count = len(self.changed(lowered, choice))
            out.append(
                f"{count} operators are split otherwise than in the older plan, "
                f"{self.request.max_changes} may be"
            )
        return tuple(out)

    def _changes(self, lowered: Lowered) -> Mapping[int, FloatArray]:
        """For every operator of the older plan 1 for candidates that split it otherwise."""
        found = split_changes(dict(self.request.close_to), lowered)
        # What cannot be split as before must change: that counts for nothing.
        return {number: own for number, own in found.items() if not own.all()}


def soft_charges(
    soft: Sequence[SoftPin], lowered: Lowered, plain: Callable[[str], str] = str
) -> dict[int, FloatArray]:
    """What soft pins cost every candidate of the nodes that they name, in seconds of a step.

    Args:
        soft: the pins.
        lowered: the problem.
        plain: the name of an operator in the network by that in the problem.
    """
    out: dict[int, FloatArray] = {}
    mesh = lowered.setting.mesh
    for each in soft:
        wanted = {pin.op.name: pin for pin in each.pins}
        for number, node in enumerate(lowered.nodes):
            if node.kind is not NodeKind.OPERATOR or plain(node.name) not in wanted:
                continue
            charge = np.full(lowered.problem.sizes[number], each.weight_s)
            charge[kept_candidates(wanted[plain(node.name)], node, mesh, strict=False)] = 0.0
            out[number] = out.get(number, 0.0) + charge
    return out


def split_changes(
    old: Mapping[str, Cuts], lowered: Lowered, plain: Callable[[str], str] = str
) -> dict[int, FloatArray]:
    """For every operator of an older plan 1 for candidates that split it otherwise, else 0.

    Args:
        old: cuts of operands and results by operator.
        lowered: the problem.
        plain: the name of an operator in the network by that in the problem.
    """
    out: dict[int, FloatArray] = {}
    known: dict[tuple[int, object], FloatArray] = {}
    for number, node in enumerate(lowered.nodes):
        name = plain(node.name)
        if node.candidates is None or name not in old:
            continue
        key = (id(node.candidates), old[name])
        if key not in known:
            cuts = splits_of(node.candidates, lowered.setting.mesh.sizes)
            known[key] = np.array([float(own != old[name]) for own in cuts])
        out[number] = np.tile(known[key], 2 if node.recomputes else 1)
    return out


def unchanged(changes: Mapping[int, FloatArray]) -> dict[int, IndexArray]:
    """Candidates that change nothing."""
    return {node: np.flatnonzero(own == 0) for node, own in changes.items()}


def paid_s(plan: Plan, soft: Sequence[SoftPin]) -> float:
    """What a plan is charged for soft pins that it does not keep, in seconds of a step."""
    cuts = dict(splits_in(plan))
    return math.fsum(
        each.weight_s
        for each in soft
        for pin in each.pins
        if any(
            wanted is not None and wanted != (own or (1,) * len(wanted))
            for wanted, own in zip(pin.cuts, cuts[pin.op.name], strict=False)
        )
    )


def changed_in(plan: Plan, old: Mapping[str, Cuts]) -> int:
    """Operators that a plan splits otherwise than an older one."""
    return sum(old.get(name, cuts) != cuts for name, cuts in splits_in(plan))


def broken_pins(
    request: SearchRequest, soft: Sequence[SoftPin], names: Collection[str]
) -> list[str]:
    """Soft pins that name one of some operators, as options."""
    return [
        soft_pin_text(*given)
        for given, own in zip(request.soft_pins, soft, strict=True)
        if any(pin.op.name in names for pin in own.pins)
    ]


def soft_pin_note(request: SearchRequest, paid_s: float, broken: Sequence[str]) -> str:
    """What became of soft pins, for the reader of a plan.

    Args:
        request: has them.
        paid_s: charged for those that are not kept.
        broken: these, as options.
    """
    count = len(request.soft_pins)
    return (
        f"{count - len(broken)} of {count} soft pins are kept, the others charged {paid_s:.6g} s: "
        f"{', '.join(broken) or 'none'}"
    )


def too_many_changes(request: SearchRequest) -> RequestError:
    """The error where no plan changes so little."""
    return RequestError(
        f"no plan with at most {request.max_changes} changes was found that fits\n"
        f"  at:  --max-changes {request.max_changes}\n"
        "  fix: allow more changes, or more memory with --memory"
    )


def mesh_axes(mesh: Mesh) -> tuple[tuple[str, int, int], ...]:
    """A mesh as plans have it: name, size and tier of every axis."""
    return tuple((axis.name, axis.size, axis.tier) for axis in mesh.axes)


def soft_pin_text(name: str, cuts: tuple[tuple[int, ...], ...], weight_s: float) -> str:
    """The option as it is written.

    >>> soft_pin_text("fc", ((2, 4), (4, 1)), 0.01)
    "--pin 'fc=((2,4),(4,1))@0.01'"
    """
    return f"{pin_text(name, cuts)[:-1]}@{weight_s:g}'"


def with_charges(problem: Problem, charges: Mapping[int, FloatArray]) -> Problem:
    """The problem in which candidates of some nodes cost more; equal nodes stay equal."""
    tables, of = list(problem.node_tables), list(problem.node_table_of)
    known: dict[tuple[int, bytes], int] = {}
    for node, charge in charges.items():
        key = (of[node], charge.tobytes())
        if known.setdefault(key, len(tables)) == len(tables):
            old = tables[of[node]]
            tables.append(NodeTable(old.time_s + charge, old.memory_bytes, old.axes))
        of[node] = known[key]
    return replace(problem, node_tables=tuple(tables), node_table_of=tuple(of))


def with_budget(problem: Problem, amounts: Mapping[int, FloatArray], most: float) -> Problem:
    """The problem with one more time point, which only these amounts fill.

    Args:
        problem: as it comes.
        amounts: by node what each candidate takes of the budget, none below 0.
        most: of all amounts together.
    """
    limit = problem.memory_limit_bytes
    if math.isinf(limit):
        limit = 2.0 * _all_bytes(problem) + 1.0
    point, unit = problem.time_points, limit / most if most else math.inf
    tables, of = list(problem.node_tables), list(problem.node_table_of)
    known: dict[tuple[int, bytes], int] = {}
    intervals = list(problem.node_intervals)
    for node, own in amounts.items():
        key = (of[node], own.tobytes())
        if known.setdefault(key, len(tables)) == len(tables):
            old = tables[of[node]]
            # Where there is no budget nothing may take of it.
            filled = own * unit if most else np.where(own > 0, 2.0 * limit, 0.0)
            tables.append(NodeTable(old.time_s, (*old.memory_bytes, filled), old.axes))
        of[node] = known[key]
        intervals[node] = (*intervals[node], (point, point + 1))
    return replace(
        problem,
        node_tables=tuple(tables),
        node_table_of=tuple(of),
        node_intervals=tuple(intervals),
        time_points=point + 1,
        memory_limit_bytes=limit,
    )


def _all_bytes(problem: Problem) -> float:
    """More than any choice can hold."""
    most = [sum(float(v.max()) for v in t.memory_bytes) for t in problem.node_tables]
    pairs = [sum(float(m.max()) for m in t.memory_bytes) for t in problem.edge_tables]
    nodes = math.fsum(most[table] for table in problem.node_table_of)
    return nodes + math.fsum(pairs[table] for table in problem.edge_table_of)
