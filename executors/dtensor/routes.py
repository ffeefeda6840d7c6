"""What a plan says of the way of every tensor, with axes as the grid numbers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from executors.backward import BACKWARD, GATHER
from executors.dtensor.grid import Grid
from executors.dtensor.moves import Hop
from executors.dtensor.split import Split, split_of
from executors.reference import FORWARD, paths_of
from ir.differentiation import operand_gradients, tensors_with_gradient
from ir.dtypes import dtype_bytes
from ir.graph import Op
from ir.layout import Layout
from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedOperator, PlannedTensor
from ir.semantics.call import NotRunError

Key: TypeAlias = tuple[str, str, int]
"""A tensor, its reader and which operand of that it is; no reader where it is handed out."""


@dataclass(slots=True)
class Routes:
    """Layouts and ways of the tensors of a plan of one stage."""

    plan: Plan
    grid: Grid
    flowing: frozenset[str] = frozenset()
    """Tensors that have gradients; those of the graph unless others are given."""
    operators: dict[str, PlannedOperator] = field(init=False)
    resting: dict[str, PlannedTensor] = field(init=False)
    shared: dict[str, PlannedTensor] = field(init=False)
    """Tensors whose several readers have a layout in common."""
    gathers: Counter[Key] = field(init=False)
    """How many gathers of a parameter the plan lists, those of both passes together."""
    _paths: dict[str, dict[Key, list[PlannedCollective]]] = field(init=False)
    _splits: dict[str, Split] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.flowing = self.flowing or frozenset(tensors_with_gradient(plan.graph))
        self.operators = {o.name: o for o in plan.operators}
        self.resting = {t.name: t for t in plan.tensors if t.role != "shared"}
        self.shared = {t.name: t for t in plan.tensors if t.role == "shared"}
        causes = {"forward": FORWARD, "backward": BACKWARD, "gather": GATHER}
        self._paths = {k: paths_of(plan.collectives, c) for k, c in causes.items()}
        self.gathers = Counter(
            (c.tensor, c.operator, c.operand)
            for c in plan.collectives
            if c.cause in GATHER and c.group_size > 1
        )

    def axis(self, name: str) -> int:
        return next(i for i, axis in enumerate(self.grid.mesh.axes) if axis.name == name)

    def layout(self, named: NamedLayout) -> Layout:
        dims = tuple(tuple(self.axis(a) for a in dim) for dim in named.dims)
        return Layout(dims, tuple(sorted(self.axis(a) for a in named.partial)))

    def at_rest(self, name: str) -> Layout:
        """The layout of what no operator makes; whole where the plan has none."""
        planned = self.resting.get(name)
        rank = len(self.plan.graph.tensors[name].dims)
        return self.layout(planned.layout) if planned else Layout(((),) * rank)

    def split(self, op: Op) -> Split:
        if op.name not in self._splits:
            assignment = tuple(factor for _, factor in self.operators[op.name].split)
            sizes = self.grid.mesh.sizes
            self._splits[op.name] = split_of(op, self.plan.graph, assignment, sizes)
        return self._splits[op.name]

    def wanted(self, op: Op) -> list[int]:
        """Operands whose gradients the backward pass makes."""
        graph = self.plan.graph
        flags = operand_gradients(op, self.flowing)
        return [i for i, f in enumerate(flags) if f and graph.tensors[op.inputs[i]].is_float]

    def hops(self, direction: str, key: Key) -> list[Hop]:
        return list(self.hops_of(self._paths[direction].get(key, ())))

    def gathers_again(self, name: str) -> bool:
        """Whether the plan gathers a parameter in the backward pass too, for any of its readers."""
        own = (key for key in self.gathers if key[0] == name)
        return any(self.gathers[key] > len(self.hops("gather", key)) for key in own)

    def hops_of(self, path: Sequence[PlannedCollective]) -> Iterator[Hop]:
        """A path of the plan."""
        for item in path:
            if item.before is None or item.after is None:
                raise NotRunError("the plan does not say through which layouts its tensors go")
            axes = tuple(self.axis(a) for a in item.axes)
            before, after = self.layout(item.before), self.layout(item.after)
            one = dtype_bytes(self.plan.graph.tensors[item.tensor].dtype)
            yield Hop(item.kind, axes, before, after, round(item.nbytes / one))

    def meeting(self, name: str) -> Layout | None:
        """The layout in which the gradients of all readers are added."""
        shared = self.shared.get(name)
        if shared is not None and shared.gradient is not None:
            return self.layout(shared.gradient)
        own = self.hops("backward", (name, "", -1))
        return own[0].before if own else self.origin_gradient(name)

    def origin_gradient(self, name: str) -> Layout | None:
        """The layout in which whatever makes a tensor takes its gradient."""
        resting = self.resting.get(name)
        if resting is not None and (resting.role == "parameter" or resting.gradient):
            return self.layout(resting.gradient or resting.layout)
        maker = self.plan.graph.producers().get(name)
        if maker is None:
            return None
        place = [n for n in maker.outputs if n].index(name)
        return self.split(maker).result_gradients[place]
