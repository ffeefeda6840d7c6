"""A plan on the part of one rank, forward, with a way back through which autograd follows it.

Every edge of the graph is a change of layout in both directions: a tensor goes forward along the
collectives of the plan, its gradient goes back along those that the plan lists for the gradient.
What operators compute between their edges is torch on the part of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.distributed import _functional_collectives as collectives
from torch.fx.traceback import annotate

from executors.dtensor.composites import run_parts
from executors.dtensor.grid import Grid
from executors.dtensor.moves import Hop, Mover
from executors.dtensor.part import Part
from executors.dtensor.routes import Routes
from executors.dtensor.traffic import Log
from ir.graph import Op, OpGraph
from ir.layout import Layout
from ir.normalise.ends import ENDS
from ir.plan import LEAVES, NamedLayout, Plan
from ir.semantics.call import NotRunError

Way: TypeAlias = Callable[[Any], Any]


class _Moved(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """A part of a tensor that goes one way, and whose gradient comes back another."""

    @staticmethod
    def forward(ctx: Any, local: Any, there: Way, back: Way) -> Any:
        ctx.back = back
        moved = there(local)
        return moved.view_as(moved) if moved is local else moved

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return ctx.back(gradient), None, None


@dataclass(slots=True)
class LocalStep:
    """What one rank computes of a plan with one stage."""

    plan: Plan
    grid: Grid
    trains: bool
    """Whether gradients are asked for."""
    flowing: frozenset[str] = frozenset()
    """Tensors that have gradients, where the graph is a part of one and does not tell."""
    leaving: Mapping[str, NamedLayout] = field(default_factory=dict)
    """Tensors that the next stage receives, as they leave."""
    routes: Routes = field(init=False)
    mover: Mover = field(init=False)
    _flowing: frozenset[str] = field(init=False)
    """Tensors that have gradients."""

    def __post_init__(self) -> None:
        self.routes = Routes(self.plan, self.grid, self.flowing)
        self.mover = Mover(self.grid, Log())
        self._flowing = self.routes.flowing if self.trains else frozenset()

    @property
    def graph(self) -> OpGraph:
        return self.plan.graph

    def run(
        self, given: Mapping[str, Any], constants: Mapping[str, Any], *, losses: bool
    ) -> dict[str, Any]:
        """Results of the plan on this rank, by the tensor that an end reads or a loss makes.

        Args:
            given: this rank's part of everything that no operator makes, in its layout at rest.
            constants: whole tensors that parts of composites read and no operator hands over.
            losses: run the plan's own losses instead of handing out what they read; each device has
                its term of them.

        Raises:
            NotRunError: torch cannot run an operator as the plan splits it.
        """
        held = {n: self._handed_out(n, t, self.routes.at_rest(n)) for n, t in given.items()}
        out: dict[str, Any] = {}
        for op in self.graph.ops:
            operands = self._operands(op, held)
            if op.kind in ENDS and not (losses and op.outputs):
                out[op.inputs[0]] = self._delivered_out(op, operands[0])
                continue
            results = self._computed(op, operands, constants)
            split = self.routes.split(op)
            names = [n for n in op.outputs if n]
            for name, local, layout in zip(names, results, split.results, strict=True):
                if op.kind in ENDS:
                    terms = self.grid.size(split.result_gradients[0].partial)
                    out[name] = _shared_out(local, terms) if terms > 1 else local
                else:
                    held[name] = self._handed_out(name, local, layout)
        return out | {n: self._left(n, held[n], layout) for n, layout in self.leaving.items()}

    def end_layouts(self) -> dict[str, Layout]:
        """For every tensor that an end reads, its layout there."""
        ends = (op for op in self.graph.ops if op.kind in ENDS)
        return {op.inputs[0]: self._planned(op, 0) for op in ends}

    def _planned(self, op: Op, index: int) -> Layout:
        named: NamedLayout | None = self.routes.operators[op.name].inputs[index]
        if named is None:
            return Layout(((),) * len(self.graph.tensors[op.inputs[index]].dims))
        return self.routes.layout(named)

    def _operands(self, op: Op, held: Mapping[str, Any]) -> list[Any]:
        wanted = self.routes.wanted(op) if self.trains and op.outputs else ()
        missing = [n for n in op.inputs if n and n not in held]
        if missing:
            raise NotRunError(f"operator {op.name!r} reads {missing[0]!r}, which nothing makes")
        return [
            self._delivered(op, i, held[n], flows=i in wanted) if n else None
            for i, n in enumerate(op.inputs)
        ]

    def _computed(self, op: Op, operands: Sequence[Any], constants: Mapping[str, Any]) -> list[Any]:
        split = self.routes.split(op)
        if split.reaches_over:
            raise NotRunError(f"operator {op.name!r}: torch exchanges no edges of images")
        part = Part(op, self.graph, self.grid, split, operands, False, constants)
        try:
            with annotate({"operator": op.name}):
                return run_parts(part)
        except NotImplementedError as error:
            raise NotRunError(f"operator {op.name!r} ({op.kind}): {error}") from error

    def _handed_out(self, name: str, local: Any, made: Layout) -> Any:
        """From where a tensor is made to the layout that its readers share."""
        hops, end = self.routes.hops("forward", (name, "", -1)), self._at_hand(name)
        if not hops and end == made and not self._back_hops(name, "", -1):
            return local
        there = self._way(name, made, hops, end)
        meeting, taken = self.routes.meeting(name), self.routes.origin_gradient(name)
        if name not in self._flowing or meeting is None or taken is None:
            return there(local)
        back = self._way(name, meeting, self._back_hops(name, "", -1), taken)
        return _Moved.apply(local, there, back)

    def _delivered(self, op: Op, index: int, local: Any, *, flows: bool) -> Any:
        """From where a tensor is handed out to one of its readers."""
        name = op.inputs[index]
        planned = self.routes.operators[op.name].inputs[index]
        hops = self.routes.hops("forward", (name, op.name, index))
        start = self._at_hand(name)
        there = self._way(
            name, start, hops, start if planned is None else self.routes.layout(planned)
        )
        gradient = self.routes.split(op).operand_gradients[index] if flows else None
        meeting = self.routes.meeting(name) if flows else None
        if gradient is None or meeting is None:
            return there(local)
        back = self._way(name, gradient, self._back_hops(name, op.name, index), meeting)
        return _Moved.apply(local, there, back)

    def _left(self, name: str, local: Any, layout: NamedLayout) -> Any:
        """From where a tensor is handed out to the layout in which the next stage receives it."""
        key, end = (name, "", LEAVES), self.routes.layout(layout)
        there = self._way(name, self._at_hand(name), self.routes.hops("forward", key), end)
        meeting = self.routes.meeting(name)
        if name not in self._flowing or meeting is None:
            return there(local)
        return _Moved.apply(local, there, self._way(name, end, self._back_hops(*key), meeting))

    def moved(self, name: str, local: Any, start: Layout, end: Layout) -> Any:
        """A tensor in another layout, and its gradient back in the first."""
        there, back = self._way(name, start, (), end), self._way(name, end, (), start)
        return _Moved.apply(local, there, back)

    def _at_hand(self, name: str) -> Layout:
        """The layout in which readers find a tensor."""
        if name in self.routes.shared:
            return self.routes.layout(self.routes.shared[name].layout)
        hops = self.routes.hops("forward", (name, "", -1))
        if hops:
            return hops[-1].after
        maker = self.graph.producers().get(name)
        if maker is None:
            return self.routes.at_rest(name)
        place = [n for n in maker.outputs if n].index(name)
        return self.routes.split(maker).results[place]

    def _back_hops(self, name: str, reader: str, index: int) -> list[Hop]:
        return self.routes.hops("backward", (name, reader, index))

    def _way(self, name: str, start: Layout, hops: Sequence[Hop], end: Layout) -> Way:
        dims = self.graph.tensors[name].dims

        def go(local: Any) -> Any:
            if start == end and not hops:
                return local
            tensor = self.grid.wrapped(local.contiguous(), dims, start)
            return self.mover.along(tensor, hops, end)._local_tensor  # noqa: SLF001

        return go

    def _delivered_out(self, op: Op, local: Any) -> Any:
        """What an end reads; its gradient comes whole where the plan has terms of a sum."""
        wanted = self.routes.wanted(op) if self.trains and op.outputs else ()
        gradient = self.routes.split(op).operand_gradients[0] if wanted else None
        if gradient is None or not gradient.partial:
            return local
        return _shared_out(local, self.grid.size(gradient.partial))

    def completed(self, loss: str, local: Any) -> Any:
        """A loss of which every device has a term."""
        maker = self.graph.producers()[loss]
        (layout,) = self.routes.split(maker).results
        if not layout.partial:
            return local
        found = collectives.all_reduce(
            local, "sum", (self.grid.groups[frozenset(layout.partial)], 0)
        )
        wait = getattr(found, "wait", None)
        return found if wait is None else wait()


def _as_it_is(gradient: Any) -> Any:
    return gradient


def _shared_out(local: Any, count: int) -> Any:
    """The same tensor; each of so many devices passes on its share of the gradient."""
    return _Moved.apply(local, _as_it_is, lambda gradient: gradient / count)
