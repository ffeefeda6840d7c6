"""What a request prefers beside pins: degrees, soft pins, and few changes of an older plan.

Degrees narrow the candidates. A soft pin costs its weight in seconds of a step for every operator
that does not keep it, whatever stage that is in. At most K changes are a limit of the problem,
beside the memory: an operator of the older plan changes if it is split otherwise inside its stage,
or if another part of the machine has it; what no shape that is asked for can have as before counts
for nothing. Costs that stand in a plan are those of the problem itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ir.graph import Op, OpGraph
from ir.plan import Plan
from ir.texts import listed
from planner.candidates.operators import splits_in, splits_of
from planner.constraints.degrees import degrees_text, followed, following, meshes_with
from planner.constraints.pinning import kept_candidates
from planner.constraints.pins import Pin, pin_text, pins_of
from planner.lowering.lowered import Lowered, NodeKind, narrowed
from planner.problem import ChoiceLimit, FloatArray, Problem, with_more
from planner.reduction.restriction import IndexArray
from planner.request import Cuts, RequestError, SearchRequest
from planner.solvers import Solution
from topology.mesh import Mesh


@dataclass(frozen=True, slots=True)
class SoftPin:
    """Operators that would rather be cut so."""

    pins: tuple[Pin, ...]
    weight_s: float
    """Seconds of a step that it may cost to keep one of them."""


@dataclass(frozen=True, slots=True)
class SoftConstraints:
    """What a request prefers of one mesh, or of the stages of a pipeline."""

    request: SearchRequest
    soft: tuple[SoftPin, ...] = ()
    old: Mapping[str, Cuts] = field(default_factory=dict)
    """How the older plan splits the operators that count."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The part of the machine that each of them had."""
    can_stay: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By number of stages those that can be as before."""
    in_small_network: bool = False
    """Whether all ways to have them are looked at."""

    @classmethod
    def of(cls, graph: OpGraph, request: SearchRequest) -> SoftConstraints:
        """Those of a request for one mesh.

        Raises:
            RequestError: a soft pin names no operator, or does not fit its inputs.
        """
        found = (
            SoftPin(pins_of(graph, [(name, cuts)]), weight)
            for name, cuts, weight in request.soft_pins
        )
        return cls(request, tuple(found), dict(request.close_to))

    @classmethod
    def of_stages(
        cls,
        graph: OpGraph,
        request: SearchRequest,
        can_stay: Mapping[int, frozenset[str]],
        *,
        small: bool,
    ) -> SoftConstraints:
        """Those of a request for the stages of a pipeline.

        Args:
            graph: the network of one micro-batch.
            request: has them.
            can_stay: by number of stages the operators that can be split as before.
            small: whether all ways to have the wishes are looked at.

        Raises:
            RequestError: a soft pin names no operator, or does not fit its inputs.
        """
        found, parts = cls.of(graph, request), dict(request.close_parts)
        here = {
            stages: frozenset(name for name in names if parts.get(name, 0) < stages)
            for stages, names in can_stay.items()
        }
        counting = frozenset[str]().union(*here.values())
        old = {name: own for name, own in found.old.items() if name in counting}
        return cls(request, found.soft, old, parts, here, small)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is paid for, and any number may change."""
        return not self.soft and self.most is None

    @property
    def most(self) -> int | None:
        """Operators that may change."""
        return self.request.max_changes

    def meshes(self, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
        """Those on which the degrees can be had; that of the older plan alone if it is one.

        Raises:
            RequestError: there is none.
        """
        found = tuple(meshes)
        for degrees in (self.request.degrees, *(own for _, own in self.request.scoped_degrees)):
            found = meshes_with(degrees, found) if degrees else found
        same = tuple(mesh for mesh in found if mesh.rows == self.request.close_mesh)
        return same or found

    def narrowed(self, lowered: Lowered) -> Lowered:
        """The problem with the candidates that follow the degrees, and no change if none may be."""
        for scope, degrees in (("", self.request.degrees), *self.request.scoped_degrees):
            lowered = following(lowered, degrees, scope)
        lowered = narrowed(lowered, self._resting(lowered))
        return self.unchanged(lowered)

    def unchanged(self, lowered: Lowered) -> Lowered:
        """The problem with the candidates that change nothing, if no change may be."""
        if self.most != 0:
            return lowered
        changes = self.split_anew(lowered)
        return narrowed(lowered, {node: np.flatnonzero(own == 0) for node, own in changes.items()})

    def _resting(self, lowered: Lowered) -> dict[int, IndexArray]:
        """Candidates of parameters whose layout at rest is given."""
        wanted, sizes = dict(self.request.rests), lowered.setting.mesh.sizes
        out: dict[int, IndexArray] = {}
        for number, node in enumerate(lowered.nodes):
            table = node.layouts
            if node.kind is not NodeKind.PARAMETER or node.name not in wanted or table is None:
                continue
            cuts = [state.forward.shards(sizes) for state in table.states]
            fine = np.array([each == wanted[node.name] for each in cuts], dtype=np.bool_)
            same = node.columns.having(fine[table.of])
            if not len(same):
                some = listed([str(each) for each in dict.fromkeys(cuts)])
                raise RequestError(
                    f"parameter {node.name} cannot rest cut {wanted[node.name]}\n"
                    f"  at:  the placements of {node.name}\n  fix: choose one of {some}"
                )
            out[number] = same
        return out

    def restricted(self, lowered: Lowered, problem: Problem) -> Problem:
        """The problem as it is solved: with the price of soft pins and the limit on changes."""
        priced = with_charges(problem, self.charges(lowered))
        if not self.most:
            return priced
        limit = ChoiceLimit(self.split_anew(lowered), self.most)
        return replace(priced, limits=(*priced.limits, limit))

    def charges(self, lowered: Lowered) -> dict[int, FloatArray]:
        """Seconds of a step that soft pins cost every candidate of the nodes they name."""
        out: dict[int, FloatArray] = {}
        mesh = lowered.setting.mesh
        for each in self.soft:
            wanted = {pin.op.name: pin for pin in each.pins}
            for number, node in enumerate(lowered.nodes):
                pin = wanted.get(node.origin.name)
                if node.kind is not NodeKind.OPERATOR or pin is None:
                    continue
                charge = np.full(lowered.problem.sizes[number], each.weight_s)
                charge[kept_candidates(pin, node, mesh, strict=False)] = 0.0
                out[number] = out.get(number, 0.0) + charge
        return out

    def paid_s(self, plan: Plan) -> float:
        """What a plan is charged for soft pins that it does not keep, in seconds of a step."""
        if not self.soft:
            return 0.0
        cuts = dict(splits_in(plan))
        return math.fsum(
            each.weight_s
            for each in self.soft
            for pin in each.pins
            if any(
                wanted is not None and wanted != (own or (1,) * len(wanted))
                for wanted, own in zip(pin.cuts, cuts[pin.op.name], strict=False)
            )
        )

    def keeps_changes(self, plan: Plan) -> bool:
        """Whether a plan on one mesh splits no more operators otherwise than may be."""
        changed = sum(self.old.get(name, cuts) != cuts for name, cuts in splits_in(plan))
        return self.most is None or changed <= self.most

    def split_anew(self, lowered: Lowered) -> dict[int, FloatArray]:
        """For every operator that counts 1 for candidates that split it otherwise, else 0; without
        those that can be no other way.
        """
        found = {} if self.most is None else split_changes(self.old, lowered)
        return {number: own for number, own in found.items() if not own.all()}

    def changes(self, lowered: Lowered, stages: int) -> dict[int, FloatArray]:
        """For every node that counts 1 for candidates that change it, else 0.

        Args:
            lowered: pieces of a pipeline.
            stages: parts of the machine, which have the pieces in turns.
        """
        if self.most is None:
            return {}
        found = split_changes(self.old, lowered)
        for number, own in found.items():
            stage, name = lowered.nodes[number].origin
            if self.parts.get(name, 0) != stage % stages:
                found[number] = np.ones_like(own)
        return found

    def moved(
        self, graph: OpGraph, positions: Sequence[int], stages: int, chunks: int
    ) -> tuple[FloatArray, ...]:
        """For every piece the operators of each interval of segments that change there for certain,
        shape (L, L + 1) each; nothing where any number may change.

        Args:
            graph: the network.
            positions: ends of its segments, the first 0.
            stages: parts of the machine.
            chunks: pieces on each of them.
        """
        if self.most is None:
            return ()
        tables = [self._moved_to(part, graph.ops, positions, stages) for part in range(stages)]
        return tuple(tables) * chunks

    def _moved_to(
        self, part: int, ops: Sequence[Op], positions: Sequence[int], stages: int
    ) -> FloatArray:
        stays = self.can_stay.get(stages, frozenset())
        moves = (
            op.name in self.old and (op.name not in stays or self.parts.get(op.name, 0) != part)
            for op in ops
        )
        before = np.concatenate([[0.0], np.cumsum(np.fromiter(moves, dtype=np.float64))])
        ends = before[list(positions)]
        behind = np.triu(np.ones((len(ends) - 1, len(ends)), dtype=bool), 1)
        return np.where(behind, ends[None, :] - ends[:-1, None], np.inf)

    @property
    def allow_baselines(self) -> bool:
        """Whether a baseline may be the answer: it knows nothing of soft pins and older plans."""
        return not self.soft and self.request.max_changes is None

    def check(self, found: Solution) -> None:
        """Raise `RequestError` if it is the changes that nothing was found for."""
        if math.isinf(found.peak_bytes) and self.most is not None:
            raise too_many_changes(self.request)

    def noted(self, plan: Plan, lowered: Lowered, choice: Sequence[int], bound_s: float) -> Plan:
        """The plan with what became of the wishes, and the bound less what soft pins are charged.

        Args:
            plan: the answer.
            lowered: its problem, without the prices of wishes.
            choice: the answer there.
            bound_s: of the problem with these prices.
        """
        charges = self.charges(lowered)
        paid_s = math.fsum(float(own[choice[node]]) for node, own in charges.items())
        names = {lowered.nodes[node].name for node, own in charges.items() if own[choice[node]]}
        changed = sum(int(own[choice[node]]) for node, own in self.split_anew(lowered).items())
        step_s, bound = plan.estimate.step_time_s, plan.bound
        if self.soft:
            least_s = min(step_s, bound_s - paid_s)
            gap = step_s / least_s - 1 if least_s > 0 else 0.0
            bound = replace(bound, bound_s=least_s, gap=gap)
        said = (*self._held_notes(lowered), *self.notes(names, paid_s, changed))
        return replace(plan, bound=bound, notes=(*said, *plan.notes))

    def _held_notes(self, lowered: Lowered) -> Iterator[str]:
        if self.request.degrees:
            free = [n for each in followed(lowered, self.request.degrees) for n in each.free]
            text = f"held to {degrees_text(self.request.degrees)}"
            yield text + (f"; {len(free)} that cannot follow are free" if free else "")
        if self.request.scoped_degrees:
            yield f"{len(self.request.scoped_degrees)} layers are held to their own degrees"
        if self.request.rests:
            yield f"{len(self.request.rests)} parameters keep their given layouts at rest"

    def notes(
        self, broken: Collection[str], paid_s: float, changed: int, elsewhere: str = ""
    ) -> Iterator[str]:
        """What became of soft pins and of changes, for the reader of the plan.

        Args:
            broken: operators that do not keep their soft pins.
            paid_s: charged for that.
            changed: operators.
            elsewhere: what else is a change than another split.
        """
        if self.soft:
            given = zip(self.request.soft_pins, self.soft, strict=True)
            texts = [
                soft_pin_text(*asked)
                for asked, own in given
                if any(pin.op.name in broken for pin in own.pins)
            ]
            kept = f"{len(self.soft) - len(texts)} of {len(self.soft)} soft pins are kept"
            yield f"{kept}, the others charged {paid_s:.6g} s: {', '.join(texts) or 'none'}"
        if self.most is not None:
            yield (
                f"{changed} operators are split otherwise than in the older plan{elsewhere}, "
                f"{self.most} may be"
            )


def split_changes(old: Mapping[str, Cuts], lowered: Lowered) -> dict[int, FloatArray]:
    """For every operator of an older plan 1 for candidates that split it otherwise, else 0.

    Args:
        old: cuts of operands and results by operator.
        lowered: the problem.
    """
    out: dict[int, FloatArray] = {}
    known: dict[tuple[int, object], FloatArray] = {}
    for number, node in enumerate(lowered.nodes):
        name = node.origin.name
        if node.candidates is None or name not in old:
            continue
        key = (id(node.candidates), old[name])
        if key not in known:
            cuts = splits_of(node.candidates, lowered.setting.mesh.sizes)
            known[key] = np.array([float(own != old[name]) for own in cuts])
        out[number] = known[key][node.columns.assignment]
    return out


def too_many_changes(request: SearchRequest) -> RequestError:
    """The error where no plan changes so little."""
    return RequestError(
        f"no plan with at most {request.max_changes} changes was found that fits\n"
        f"  at:  --max-changes {request.max_changes}\n"
        "  fix: allow more changes, or more memory with --memory"
    )


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
            tables.append(with_more(old, charge))
        of[node] = known[key]
    return replace(problem, node_tables=tuple(tables), node_table_of=tuple(of))
