"""The collectives of a plan by the place at which they run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costmodel.simulation.buckets import Fusion, Message, buckets
from costmodel.simulation.effects import Effects
from ir.plan import LEAVES, Plan, PlannedCollective
from ir.plan_enums import Cause

BESIDE = frozenset((Cause.PARAMETER_GATHER, Cause.GRADIENT_SYNC, Cause.UPDATED_PARAMETERS))
"""Messages of parameters, which travel beside computation."""
Items = Sequence[PlannedCollective]
ALL = -3
"""Operand of what concerns an operator or a tensor as a whole."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The collectives of one parameter, one after the other."""

    tensor: str
    operator: int
    """Position of the operator that needs it first, or makes it last, in the order of the step."""
    items: tuple[PlannedCollective, ...]
    position: int
    """Of the parameter among all parameters."""

    @property
    def signature(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """What units must have in common to be fused."""
        return tuple((i.kind, i.axes, i.tier) for i in self.items)


class PlanIndex:
    """Looks up the collectives of a plan.

    The step has a place for each operator forward and, if the backward pass is derived, for each
    one backward, in reverse order.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.derived = bool(plan.request.get("training")) and not plan.graph.is_training_step
        self.position = {op.name: i for i, op in enumerate(plan.operators)}
        self._ops = {op.name: op for op in plan.graph.ops}
        self._readers: dict[str, list[int]] = defaultdict(list)
        for number, op in enumerate(plan.graph.ops):
            for name in op.inputs:
                self._readers[name].append(number)
        self._messages: dict[tuple[str, str, int], list[PlannedCollective]] = defaultdict(list)
        self._parameter: dict[tuple[str, str, bool, str], list[PlannedCollective]] = defaultdict(
            list
        )
        for item in plan.collectives:
            self._file(item)
        self._again: dict[int, float] = defaultdict(float)
        for tensor in plan.tensors:
            if tensor.recompute_s and self._readers[tensor.name]:
                self._again[max(self._readers[tensor.name])] += tensor.recompute_s

    def _file(self, item: PlannedCollective) -> None:
        if item.cause in BESIDE:
            key = (item.tensor, item.operator, bool(item.backward), item.cause)
            self._parameter[key].append(item)
            if item.cause == Cause.UPDATED_PARAMETERS:
                self._messages[item.cause, item.tensor, ALL].append(item)
            return
        edge = item.cause in {Cause.FORWARD, Cause.ACTIVATION_GRADIENT}
        operand = item.operand if edge and (item.operator or item.operand == LEAVES) else ALL
        name = item.operator or item.tensor
        self._messages[item.cause, name, operand].append(item)

    def tensors_of(self, operator: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Operands and results of an operator."""
        op = self._ops[operator]
        return op.inputs, op.outputs

    def messages(self, cause: Cause, name: str, operand: int = ALL) -> Items:
        """Communication of a cause, in the order in which it runs.

        Args:
            cause: of no parameter that is gathered or reduced.
            name: of an operator, or of a tensor: what brings it into the layout that all of its
                readers have in common, or behind its update.
            operand: number of the operator's operand; `LEAVES` of a tensor for the next stage.
        """
        return self._messages.get((cause, name, operand), ())

    def recompute_before(self, operator: str) -> float:
        """Seconds to compute again tensors that several operators read, of which this one needs
        them first.
        """
        return self._again.get(self.position[operator], 0.0)

    def place(self, position: int, *, backward: bool) -> int:
        """Place of an operator in the step."""
        return 2 * len(self.plan.operators) - 1 - position if backward else position

    def gathers(self, *, updated: bool) -> list[Unit]:
        """Parameters that are gathered, in the order in which they are needed.

        Args:
            updated: whether those that the step before has updated in parts are gathered for the
                first forward pass, and not behind the update.
        """
        causes = (*((Cause.UPDATED_PARAMETERS,) if updated else ()), Cause.PARAMETER_GATHER)
        found = [unit for cause in causes for unit in self._units(cause, first=True)]
        return sorted(found, key=lambda unit: unit.operator)

    def syncs(self) -> list[Unit]:
        """Gradients that are reduced, in the order in which they are made."""
        return self._units(Cause.GRADIENT_SYNC, first=False)

    def _units(self, cause: str, *, first: bool) -> list[Unit]:
        number = {t.name: i for i, t in enumerate(self.plan.parameters)}
        out: list[Unit] = []
        for (tensor, operator, backward, own), items in self._parameter.items():
            if own == cause:
                alone = operator and cause != Cause.UPDATED_PARAMETERS
                positions = [self.position[operator]] if alone else self._readers[tensor]
                places = [self.place(p, backward=backward) for p in positions]
                place = (min if first else max)(places)
                out.append(Unit(tensor, place, tuple(items), number.get(tensor, 0)))
        return sorted(out, key=lambda unit: unit.operator)


def bucketed(units: Iterable[Unit], effects: Effects) -> list[tuple[Unit, ...]]:
    """Units that are sent together, ordered by the last member of each bucket.

    Only units with equal kinds and groups are fused.
    """
    alike: dict[object, list[Unit]] = defaultdict(list)
    for unit in units:
        alike[unit.signature].append(unit)
    out: list[tuple[Unit, ...]] = []
    for own in alike.values():
        fusion = effects.fusion.get(own[0].items[0].kind, Fusion())
        messages = [Message(i, u.items[0].nbytes, u.position) for i, u in enumerate(own)]
        out += [tuple(own[i] for i in sorted(group)) for group in buckets(messages, fusion)]
    return sorted(out, key=lambda bucket: (bucket[-1].operator, bucket[0].operator))
