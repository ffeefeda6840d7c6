"""What one rank does: the forward pass of a plan, and in training the backward pass.

The plan is followed as it is written: operands are brought to their layouts, the operator runs, its
results are held against the layouts that the plan gives them, gradients travel the same edges back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from executors.backward import gradient_name
from executors.dtensor.grid import Grid
from executors.dtensor.moves import Mover
from executors.dtensor.operators import Operators, Ran, local_of
from executors.dtensor.routes import Routes
from ir.differentiation import tensors_with_gradient
from ir.graph import Op, Role
from ir.layout import Layout
from ir.ops import LOSS
from ir.plan import NamedLayout, Plan
from ir.semantics.call import NotRunError

_MISHAPS = (NotRunError, NotImplementedError, RuntimeError, ValueError, AssertionError, LookupError)


@dataclass(slots=True)
class Results:
    """What came out, as DTensors."""

    outputs: dict[str, Any] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Program:
    """A plan under way on one rank."""

    plan: Plan
    grid: Grid
    given: Mapping[str, Any]
    """Whole tensors of everything that no operator makes."""
    operators: Operators
    training: bool
    results: Results = field(default_factory=Results)
    held: dict[str, Any] = field(default_factory=dict)
    ran: dict[str, Ran] = field(default_factory=dict)
    arrived: dict[str, list[Any]] = field(default_factory=dict)
    """Gradients of a tensor from its readers."""
    mover: Mover = field(init=False)
    routes: Routes = field(init=False)

    def __post_init__(self) -> None:
        self.mover = Mover(self.grid, self.operators.log)
        self.routes = Routes(self.plan, self.grid)

    def run(self) -> Results:
        """Both passes, or the forward pass alone."""
        for op in self.plan.graph.ops:
            self._guarded(op.name, "", lambda op=op: self._step(op))
        if self.training:
            for op in reversed(self.plan.graph.ops):
                self._guarded(op.name, "backward: ", lambda op=op: self._back(op))
            for tensor in self.plan.graph.parameters:
                name = tensor.name
                self._guarded(name, "gradient: ", lambda name=name: self._rest(name))
        return self.results

    def _guarded(self, name: str, where: str, act: Any) -> None:
        try:
            act()
        except _MISHAPS as error:
            text = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.results.not_run.setdefault(name, f"{where}{text}")

    def _step(self, op: Op) -> None:
        planned = self.routes.operators[op.name]
        operands = [
            self._delivered(n, op, i, layout) if n else None
            for i, (n, layout) in enumerate(zip(op.inputs, planned.inputs, strict=True))
        ]
        if not op.outputs:
            self.results.outputs |= {
                n: t for n, t in zip(op.inputs, operands, strict=True) if t is not None
            }
            return
        split = self.routes.split(op)
        for name, given, needed in zip(op.inputs, planned.inputs, split.operands, strict=True):
            if given is not None and self.routes.layout(given) != needed:
                texts = self.grid.text(self.routes.layout(given)), self.grid.text(needed)
                raise NotRunError(f"it reads {name} as {texts[0]}, its split needs {texts[1]}")
        wanted = self.routes.wanted(op) if self.training else []
        ran = self.operators.forward(split, operands, wanted)
        self.ran[op.name] = ran
        made = zip(
            (n for n in op.outputs if n),
            self.operators.handed_out(ran),
            planned.outputs,
            strict=True,
        )
        for name, result, layout in made:
            self._hold(op, name, result, layout)

    def _hold(self, op: Op, name: str, result: Any, planned: NamedLayout | None) -> None:
        """Keep a result that is in the layout of the plan."""
        if planned is None:
            raise NotRunError(f"the plan has no layout of {name}")
        layout, found = self.routes.layout(planned), self.grid.layout_of(result)
        if found != layout:
            text = self.grid.text(found)
            raise NotRunError(f"{name} comes out as {text}, the plan says {self.grid.text(layout)}")
        if op.kind == LOSS:
            self.results.outputs[name] = result
        self._keep(name, result)

    def _source(self, name: str) -> Any:
        if name not in self.held:
            if name not in self.given:
                raise NotRunError(f"{name}, which it reads, was not made")
            self._keep(name, self._at_rest(name))
        return self.held[name]

    def _at_rest(self, name: str) -> Any:
        return self._cut(name, self.routes.at_rest(name))

    def _cut(self, name: str, layout: Layout) -> Any:
        """This rank's part of what no operator makes; a sum lies with the first of its axes."""
        tensor = self.given[name]
        return self.grid.wrapped(self.grid.part_of(tensor, layout).clone(), tensor.shape, layout)

    def _keep(self, name: str, tensor: Any) -> None:
        """Hold a tensor; one with several readers first goes to the layout that they share."""
        if name in self.given:
            layout = self.grid.layout_of(tensor)
            assert layout is not None
            tensor = self._cut(name, layout)
        shared = self.routes.shared.get(name)
        hops = self.routes.hops("forward", (name, "", -1))
        end = self.routes.layout(shared.layout) if shared is not None else None
        self.held[name] = self.mover.along(tensor, hops, end)

    def _delivered(self, name: str, op: Op, operand: int, layout: NamedLayout | None) -> Any:
        tensor = self._source(name)
        if layout is None:
            return tensor
        hops = self.routes.hops("forward", (name, op.name, operand))
        return self.mover.along(tensor, hops, self.routes.layout(layout))

    def _back(self, op: Op) -> None:
        """Gradients of what an operator reads, from those of what it makes."""
        if not op.outputs or op.name not in self.ran:
            return
        wanted = self.routes.wanted(op)
        if not wanted:
            return
        ran = self.ran[op.name]
        names = [n for n in op.outputs if n]
        seeds = [
            self._of_result(op, n, r, g)
            for n, r, g in zip(names, ran.results, ran.split.result_gradients, strict=True)
        ]
        for index in wanted:
            self._gather_again(op.inputs[index], op.name, index)
        found = self.operators.backward(ran, seeds, wanted)
        for index, gradient in zip(wanted, found, strict=True):
            self._send_back(op, index, gradient)

    def _of_result(self, op: Op, name: str, result: Any, taken: Layout) -> Any:
        graph = self.plan.graph
        if name not in tensors_with_gradient(graph) or not graph.tensors[name].is_float:
            return None
        if op.kind == LOSS:
            local = result.to_local() if hasattr(result, "to_local") else result
            one = torch.ones_like(local) / self.grid.size(taken.partial)
            return self.grid.wrapped(one, graph.tensors[name].dims, taken)
        return self._at_origin(name, taken)

    def _gather_again(self, name: str, operator: str, operand: int) -> None:
        """A parameter that was gathered for use is gathered again for the backward pass."""
        key = name, operator, operand
        hops = self.routes.hops("gather", key)
        if len(hops) < self.routes.gathers[key]:
            source = self._at_rest(name)
            shared = self.routes.shared.get(name)
            if operator and shared is not None:
                source = self._cut(name, self.routes.layout(shared.layout))
            self.mover.along(source, hops, None)

    def _send_back(self, op: Op, index: int, gradient: Any) -> None:
        """From a reader to where the tensor is handed out."""
        name = op.inputs[index]
        hops = self.routes.hops("backward", (name, op.name, index))
        meeting = self.routes.meeting(name)
        self.arrived.setdefault(name, []).append(self.mover.along(gradient, hops, meeting))

    def _at_origin(self, name: str, wanted: Layout) -> Any:
        """The sum of what the readers sent, in the layout that the maker takes."""
        found = self.arrived.get(name, [])
        if not found:
            raise NotRunError(f"no gradient of {name} arrives")
        total = found[0]
        for other in found[1:]:
            total = self._added(total, other)
        return self.mover.along(total, self.routes.hops("backward", (name, "", -1)), wanted)

    def _added(self, one: Any, other: Any) -> Any:
        """By DTensor, which loses sight of a dimension split in another order than the mesh's."""
        layout = self.grid.layout_of(one)
        if layout is None or layout != self.grid.layout_of(other) or self.grid.in_order(layout):
            return one + other
        return self.grid.wrapped(local_of(one) + local_of(other), one.shape, layout)

    def _rest(self, name: str) -> None:
        """The gradient of a parameter, as it rests."""
        tensor = self.plan.graph.tensors[name]
        if tensor.role is not Role.PARAMETER or name not in self.arrived:
            return
        planned = self.routes.resting[name]
        self._gather_again(name, "", -1)
        goal = self.routes.layout(planned.gradient or planned.layout)
        if goal != self.routes.layout(planned.layout):
            texts = self.grid.text(goal), self.grid.text(self.routes.layout(planned.layout))
            raise NotRunError(f"its gradient ends as {texts[0]}, it rests as {texts[1]}")
        self.results.outputs[gradient_name(name)] = self._at_origin(name, goal)
