"""The backward pass of one stage of a plan on virtual devices.

Gradients travel the edges of the forward pass the other way. Where the target keeps terms of sums
between operators, a gradient has the layout that the plan says. Where the dialect shares gradients
it is a share of a sum over every axis that does not split its tensor, and the loss is divided among
all devices.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from executors.algorithms import ALGORITHMS
from executors.exchange import ExchangeError, exchanged
from executors.gradients import run_backward
from executors.placement import Spread, disagreement
from executors.reference import Forward, paths_of
from executors.splits import GRADIENT_TERMS
from executors.spmd import Around
from ir.dialects import dialect_named
from ir.differentiation import operand_gradients, read_back, tensors_with_gradient
from ir.dtypes import dtype_bytes
from ir.graph import Op
from ir.layout import Layout
from ir.ops import LOSS
from ir.plan import LEAVES
from ir.plan_enums import Cause
from ir.semantics.call import NotRunError
from topology.mesh import Mesh

BACKWARD = frozenset({Cause.ACTIVATION_GRADIENT, Cause.GRADIENT_SYNC})
GATHER = frozenset({Cause.PARAMETER_GATHER})


def gradient_name(parameter: str) -> str:
    """What the gradient of a parameter is called among the outputs."""
    return f"gradient of {parameter}"


class Backward:
    """A backward pass under way."""

    def __init__(self, forward: Forward) -> None:
        self.forward, self.plan, self.run = forward, forward.plan, forward.run
        self.mesh: Mesh = forward.mesh
        self.graph = self.plan.graph
        self.with_gradient = tensors_with_gradient(self.graph)
        self.shares = dialect_named(self.plan.space.dialect).shares_gradients
        self.around = Around(self.mesh, constants=forward.values, shares=self.shares)
        self.paths = paths_of(self.plan.collectives, BACKWARD)
        self.readers = self.graph.consumers()
        self.gathers = paths_of(self.plan.collectives, GATHER)
        self.arrived: dict[str, list[Spread]] = {}
        """Gradients of a tensor from its readers, each where the tensor is handed out."""
        self.gradients = {t.name: t.gradient for t in self.plan.tensors}

    def step(self, op: Op) -> None:
        """Gradients of what an operator reads, from those of what it makes."""
        wanted = [i for i, flag in enumerate(operand_gradients(op, self.with_gradient)) if flag]
        if not wanted or op.name not in self.forward.steps:
            return
        try:
            self._differentiate(op, wanted)
        except (NotRunError, ExchangeError) as error:
            self.run.not_run[op.name] = f"backward: {error}"

    def _differentiate(self, op: Op, wanted: list[int]) -> None:
        step = self.forward.steps[op.name]
        planned = self.forward.operators[op.name]
        assignment = tuple(factor for _, factor in planned.split)
        seeds = [
            self._of_result(op, name, result)
            for name, result in zip((n for n in op.outputs if n), step.results, strict=True)
        ]
        _, found, task = run_backward(
            op, self.graph, step.operands, assignment, seeds, wanted, ALGORITHMS, self.around
        )
        self.forward.inside_log[op.name] += list(task.backward_log.values())
        for index, gradient in zip(wanted, found, strict=True):
            self._send_back(op, index, gradient)

    def _of_result(self, op: Op, name: str, result: Spread) -> Spread | None:
        """The gradient of a result, as the operator that made it takes it."""
        if name not in self.with_gradient or not self.graph.tensors[name].is_float:
            return None
        if op.kind == LOSS:
            return self._seed(op, result)
        made = self.forward.layout_of_result(op, name)
        gradient = self._at_origin(name, self._taken(op, made))
        return self._completed_back(op, name, gradient, result.layout)

    def _taken(self, op: Op, made: Layout) -> Layout:
        """Layout in which an operator takes the gradient of a result."""
        if self.shares:
            return self._share(made)
        split = self.forward.operators[op.name].split
        terms = tuple(a for a, (_, f) in enumerate(split) if f == GRADIENT_TERMS)
        return Layout(made.dims, terms)

    def _share(self, layout: Layout) -> Layout:
        axes = range(len(self.mesh.sizes))
        return Layout(layout.dims, tuple(a for a in axes if a not in layout.split_axes))

    def _seed(self, op: Op, result: Spread) -> Spread:
        """1 for the loss; or a share of it on every device."""
        if not self.shares:
            split = self.forward.operators[op.name].split
            terms = [a for a, (_, f) in enumerate(split) if f == GRADIENT_TERMS]
            count = int(np.prod([self.mesh.sizes[a] for a in terms], dtype=np.int64))
            ones = [np.full_like(part, 1.0 / count) for part in result.shards]
            return replace(result, layout=Layout(result.layout.dims), shards=tuple(ones))
        one = Spread(
            result.dims,
            self._share(Layout(result.layout.dims)),
            self.mesh,
            tuple(np.full_like(part, 1.0 / self.mesh.size) for part in result.shards),
        )
        return self._completed_back(op, op.outputs[0], one, result.layout)

    def _completed_back(self, op: Op, name: str, gradient: Spread, made: Layout) -> Spread:
        """Where a sum was completed inside the operator its gradient's shares are summed."""
        wanted = self.forward.layout_of_result(op, name)
        extra = tuple(a for a in made.partial if a not in wanted.partial)
        if not extra or not self.shares:
            return gradient
        rest = tuple(a for a in gradient.layout.partial if a not in extra)
        nbytes = dtype_bytes(self.graph.tensors[name].dtype)
        summed, message = exchanged(gradient, replace(gradient.layout, partial=rest), nbytes)
        self.forward.inside_log[op.name] += [message] if message else []
        return replace(summed, layout=gradient.layout)

    def _send_back(self, op: Op, index: int, gradient: Spread) -> None:
        """From a reader to where the tensor is handed out."""
        name = op.inputs[index]
        needed = name in read_back(op, self.with_gradient)
        self.forward.repeat_gather(self.gathers, name, op.name, index, needed=needed)
        path = self.paths.get((name, op.name, index), ())
        self.arrived.setdefault(name, []).append(self.forward.along(gradient, path))

    def _at_origin(self, name: str, wanted: Layout) -> Spread:
        """The sum of what the readers sent, in the layout that the maker takes."""
        return self.forward.at(self.collected(name, wanted), wanted, name, "")

    def receive(self, name: str, gradient: Spread) -> None:
        """Take the gradient of a tensor that left for another stage."""
        path = self.paths.get((name, "", LEAVES), ())
        self.arrived.setdefault(name, []).append(self.forward.along(gradient, path))

    def handed_back(self, name: str, layout: Layout) -> Spread:
        """The gradient of a tensor that came from another stage, as it is sent there."""
        return self._at_origin(name, self._share(layout) if self.shares else layout)

    def collected(self, name: str, wanted: Layout) -> Spread:
        """The sum of what the readers sent, after all that the plan lists for it."""
        found = self.arrived.get(name, [])
        if not found:
            raise NotRunError(f"no gradient of {name} arrives")
        path = self.paths.get((name, "", -1), ())
        shared = self.forward.shared.get(name)
        if shared is not None:
            given = self.gradients.get(name)
            meeting = (
                self._share(self.forward.layout(shared.layout))
                if given is None
                else self.forward.layout(given)
            )
        elif path and path[0].before is not None:
            meeting = self.forward.layout(path[0].before)
        else:
            meeting = wanted
        total = self._sum([self.forward.at(g, meeting, name, "") for g in found])
        total = self.forward.along(total, path)
        self.run.disagreement = max(self.run.disagreement, disagreement(total))
        return total

    def _sum(self, found: list[Spread]) -> Spread:
        parts = zip(*(gradient.shards for gradient in found), strict=True)
        return replace(found[0], shards=tuple(sum(p[1:], p[0]) for p in parts))

    def gather_again(self, name: str) -> None:
        """Repeat the gather of a parameter for all its readers, if the backward pass wants it."""
        needed = any(name in read_back(op, self.with_gradient) for op in self.readers[name])
        self.forward.repeat_gather(self.gathers, name, "", -1, needed=needed)
