"""A plan as one JAX function: operators on whole arrays, layouts as sharding constraints.

Both ends of every edge are pinned, also where the plan leaves a sum partial: XLA completes a sum
where it arises, and its later passes move that behind what is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding

from executors.backward import BACKWARD, GATHER, gradient_name
from executors.placement import Array
from executors.reference import FORWARD, paths_of
from executors.xla.operators import element_type, run_operator
from executors.xla.pins import Meeting, Pins, handed_out, layouts_along, terms_of
from ir.differentiation import operand_gradients, tensors_with_gradient
from ir.graph import Op, OpGraph, Role
from ir.normalise.ends import ENDS
from ir.ops import LOSS
from ir.plan import NamedLayout, Plan, PlannedCollective, PlannedTensor

Key = tuple[str, str, int]
"""A tensor, its reader and which operand; no reader for the way that all readers share."""
_MOVES = frozenset(
    {"sharding_constraint", "transpose", "reshape", "squeeze", "broadcast_in_dim"}
    | {"convert_element_type", "custom_vjp_call", "jit", "pjit"}
)
"""What JAX calls that which computes nothing."""


@dataclass(frozen=True)
class Program:
    """A function of the parameters and of all else that is not known beforehand."""

    plan: Plan
    pins: Pins | None
    """None runs the model unsplit."""
    training: bool
    known: Mapping[str, Array]
    """Numbers that are part of the program: constants."""
    double: bool = False
    """Compute in double precision."""
    paths: Mapping[Key, Sequence[PlannedCollective]] = field(init=False)
    back: Mapping[Key, Sequence[PlannedCollective]] = field(init=False)
    again: frozenset[Key] = field(init=False)
    """Ways of parameters that are taken once more for the backward pass."""
    with_gradient: frozenset[str] = field(init=False)
    readers: Mapping[str, Sequence[tuple[Op, int]]] = field(init=False)
    """Who has a gradient for a tensor: operators and their operands, in order."""
    tensors: Mapping[tuple[str, bool], PlannedTensor] = field(init=False)
    """By name, and whether it is the layout that several readers share."""

    def __post_init__(self) -> None:
        items = self.plan.collectives
        gradient = tensors_with_gradient(self.plan.graph) if self.training else frozenset()
        for name, value in (
            ("paths", paths_of(items, FORWARD)),
            ("back", paths_of(items, BACKWARD)),
            ("again", _taken_twice(items)),
            ("with_gradient", gradient),
            ("readers", _readers(self.plan.graph, gradient)),
            ("tensors", {(t.name, t.role == "shared"): t for t in self.plan.tensors}),
        ):
            object.__setattr__(self, name, value)

    def given(
        self, values: Mapping[str, Array], *, shapes_only: bool = False
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Numbers of the trained parameters, and those of all else that is no constant.

        Args:
            values: numbers of everything that no operator makes.
            shapes_only: give no numbers, what is enough to compile.
        """
        tensors, free = self.plan.graph.tensors, [n for n in values if n not in self.known]
        types = {n: element_type(tensors[n], double=self.double) for n in free}
        typed: dict[str, Any] = {
            n: jax.ShapeDtypeStruct(values[n].shape, types[n])
            if shapes_only
            else values[n].astype(types[n])
            for n in free
        }
        trained = {n: a for n, a in typed.items() if self._is_trained(n)}
        return trained, {n: a for n, a in typed.items() if n not in trained}

    def _is_trained(self, name: str) -> bool:
        tensor = self.plan.graph.tensors[name]
        return tensor.role is Role.PARAMETER and name in self.with_gradient

    def shardings(self, values: Mapping[str, Any]) -> dict[str, NamedSharding]:
        """How the arguments lie at rest."""
        pins = self._pins
        out = {}
        for name, array in values.items():
            planned = self.tensors.get((name, False))
            out[name] = pins.sharding(planned.layout) if planned else pins.whole(array.ndim)
        return out

    @cached_property
    def kept(self) -> frozenset[str]:
        """Activations that the backward pass finds, where the plan computes others again."""
        again = frozenset(self.plan.recomputed)
        made = (n for op in self.plan.graph.ops for n in op.outputs if n)
        return frozenset(n for n in made if n not in again) if again else frozenset()

    @property
    def _pins(self) -> Pins:
        if self.pins is None:
            raise ValueError("the program is not split")
        return self.pins

    def run(self, trained: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs, and in training the gradients of the sum of all losses."""
        if not self.training:
            return _Pass(self, {**trained, **other}).run()[1]

        def total(parameters: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            return _Pass(self, {**parameters, **other}).run()

        (_, outputs), found = jax.value_and_grad(total, has_aux=True)(dict(trained))
        for name, gradient in found.items():
            planned = self.tensors.get((name, False))
            rest = [] if self.pins is None or planned is None else [planned.layout]
            resting = self.pins.along(gradient, rest, []) if self.pins else gradient
            outputs[gradient_name(name)] = resting
        return outputs


def _taken_twice(items: Sequence[PlannedCollective]) -> frozenset[Key]:
    """Ways of parameters that the plan lists twice: gathered for use, and again."""
    found: dict[Key, list[PlannedCollective]] = {}
    for item in items:
        if item.cause in GATHER and item.group_size > 1:
            key = (item.tensor, item.operator, item.operand)
            found.setdefault(key, []).append(replace(item, backward=0, hidden_s=0.0))
    halves = ((key, path, len(path) // 2) for key, path in found.items())
    return frozenset(key for key, path, half in halves if path[:half] == path[half:])


def _readers(graph: OpGraph, gradient: frozenset[str]) -> dict[str, list[tuple[Op, int]]]:
    found: dict[str, list[tuple[Op, int]]] = {}
    for op in graph.ops:
        for index, wanted in enumerate(operand_gradients(op, gradient)):
            if wanted:
                found.setdefault(op.inputs[index], []).append((op, index))
    return found


def made_whole(layout: NamedLayout) -> NamedLayout:
    """A layout with its sums completed: so its maker takes the gradient."""
    return NamedLayout(layout.dims)


class _Pass:
    """One forward pass while it is traced."""

    def __init__(self, program: Program, given: Mapping[str, Any]) -> None:
        self.program, self.given = program, given
        self.plan, self.graph = program.plan, program.plan.graph
        self.planned = {op.name: op for op in self.plan.operators}
        self.held: dict[str, Any] = {}
        self.origin: dict[str, NamedLayout | None] = {}
        """Layout in which each held tensor was made."""
        self.copies: dict[str, Iterator[Any]] = {}
        """Of a tensor with several gradients: one for each reader, in order."""
        self.late: dict[str, list[NamedLayout]] = {}
        """Ends of the way that several readers share, but each takes for itself: a weight that is
        gathered again for the backward pass.
        """
        self.outputs: dict[str, Any] = {}

    def run(self) -> tuple[Any, dict[str, Any]]:
        """The sum of all losses, and everything that comes out."""
        losses = []
        for op in self.graph.ops:
            if not op.outputs:
                self._deliver(op)
                continue
            for name, found in zip((n for n in op.outputs if n), self._results(op), strict=True):
                self._hold(name, found, self._made(op, name))
            if op.kind == LOSS:
                self.outputs[op.outputs[0]] = self.held[op.outputs[0]]
                losses.append(self.held[op.outputs[0]])
        return sum(losses), self.outputs

    def results(self) -> dict[str, Any]:
        """What the model hands out: whatever its ends read; losses of the plan are not run."""
        for op in self.graph.ops:
            if op.kind in ENDS:
                self.outputs[op.inputs[0]] = self._to_reader(
                    op, 0, op.inputs[0], self._copy(op, 0, op.inputs[0])
                )
                continue
            for name, found in zip((n for n in op.outputs if n), self._results(op), strict=True):
                self._hold(name, found, self._made(op, name))
        return self.outputs

    def _named(self, name: str, array: Any) -> Any:
        """What the backward pass finds goes by its name, where it computes other tensors again."""
        return checkpoint_name(array, name) if name in self.program.kept else array

    def _deliver(self, op: Op) -> None:
        for index, name in enumerate(op.inputs):
            if name:
                self.outputs[name] = self._to_reader(op, index, name, self._source(name))

    def _made(self, op: Op, name: str) -> NamedLayout | None:
        names = [n for n in op.outputs if n]
        return self.planned[op.name].outputs[names.index(name)]

    def _results(self, op: Op) -> list[Any]:
        """What an operator makes; where a weight is gathered again, backward starts from it."""
        known, names = self.program.known, [n for n in op.outputs if n]
        if all(n in known for n in names):
            return [known[n] for n in names]
        sources = [self._copy(op, i, n) if n else None for i, n in enumerate(op.inputs)]
        again = [i for i, n in enumerate(op.inputs) if self._is_gathered_again(n, op, i)]

        def compute(*gathered: Any) -> list[Any]:
            given = list(sources)
            for index, array in zip(again, gathered, strict=True):
                given[index] = array
            operands = [
                self._to_reader(op, i, n, given[i]) if n else None for i, n in enumerate(op.inputs)
            ]
            return run_operator(op, self.graph, operands, known, double=self.program.double)

        if again and self.program.training:
            compute = jax.checkpoint(compute, policy=_is_kept)
        return compute(*(sources[i] for i in again))

    def _is_gathered_again(self, name: str, op: Op, index: int) -> bool:
        return (name, op.name, index) in self.program.again or name in self.late

    def _copy(self, op: Op, index: int, name: str) -> Any:
        """A tensor for one reader."""
        held = self._source(name)
        mine = (op, index) in self.program.readers.get(name, ())
        return next(self.copies[name]) if mine and name in self.copies else held

    def _source(self, name: str) -> Any:
        """A tensor as all its readers find it."""
        if name not in self.held:
            array = self.given[name] if name in self.given else self.program.known[name]
            planned = self.program.tensors.get((name, False))
            self._hold(name, array, planned.layout if planned else None)
        return self.held[name]

    def _hold(self, name: str, array: Any, made: NamedLayout | None) -> None:
        """Keep a tensor; one with several readers goes to the layout that they share."""
        self.origin[name] = made
        if name in self.program.known:
            self.held[name] = self.program.known[name]
            return
        shared = self._shared(name)
        ends = [x for x in (made, shared) if x is not None]
        meeting = self._meeting(name, made)
        if meeting is not None and (name, "", -1) in self.program.again:
            self.late[name], ends = ends, ends[:1]
            self.held[name] = self._moved(array, (name, "at rest", -1), ends, back=False)
        else:
            self.held[name] = self._moved(array, (name, "", -1), ends, back=meeting is None)
        if meeting is not None:
            self.copies[name] = iter(handed_out(meeting, self.held[name]))
            self.held[name] = jax.lax.stop_gradient(self.held[name])

    def _meeting(self, name: str, made: NamedLayout | None) -> Meeting | None:
        """How the gradients of several readers come together; None for one."""
        program = self.program
        readers = program.readers.get(name, ())
        if program.pins is None or made is None or len(readers) < 2:
            return None
        way = layouts_along(program.back.get((name, "", -1), ()))
        planned = program.tensors.get((name, True))
        start = [planned.gradient or planned.layout] if planned else []
        terms = tuple(self._terms_on_arrival(op, index, name) for op, index in readers)
        return Meeting(program.pins, (*start, *way, made_whole(made)), terms)

    def _terms_on_arrival(self, op: Op, index: int, name: str) -> frozenset[str]:
        way = layouts_along(self.program.back.get((name, op.name, index), ()))
        if way:
            return frozenset(way[-1].partial)
        return terms_of(op, index, self.planned[op.name], self.graph)

    def _shared(self, name: str) -> NamedLayout | None:
        planned = self.program.tensors.get((name, True))
        return planned.layout if planned else None

    def _to_reader(self, op: Op, index: int, name: str, array: Any) -> Any:
        if name in self.late:
            array = self._moved(array, (name, "", -1), self.late[name], back=False)
        wanted = self.planned[op.name].inputs[index]
        if isinstance(array, np.ndarray) or wanted is None:
            return array
        start = self._handed_out(name)
        ends = [x for x in (start, wanted) if x is not None]
        return self._moved(array, (name, op.name, index), ends)

    def _handed_out(self, name: str) -> NamedLayout | None:
        """The layout in which readers find a tensor."""
        way = layouts_along(self.program.paths.get((name, "", -1), ()))
        return self._shared(name) or (way[-1] if way else self.origin[name])

    def _moved(
        self, array: Any, key: Key, ends: Sequence[NamedLayout], *, back: bool = True
    ) -> Any:
        """From the first of the ends to the last along the way of the plan, and back."""
        pins = self.program.pins
        if pins is None or not ends:
            return array
        there = [ends[0], *layouts_along(self.program.paths.get(key, ())), *ends[1:]]
        if key[0] not in self.program.with_gradient or not back:
            return self._named(key[0], pins.along(array, there, []))
        way = layouts_along(self.program.back.get(key, ()))
        moved = pins.along(array, there, [there[-1], *way, ends[0]])
        return self._named(key[0], moved)


def losses(program: Program, given: Mapping[str, Any]) -> Any:
    """The sum of all losses of a plan."""
    return _Pass(program, given).run()[0]


def results(program: Program, given: Mapping[str, Any]) -> list[Any]:
    """What a model hands out, in order."""
    found = _Pass(program, given).results()
    return [found[n] for n in program.plan.graph.outputs if n in found] or list(found.values())


def _is_kept(primitive: Any, *_: Any, **__: Any) -> bool:
    """What is kept for the backward pass: not the gathered copies, however they are turned."""
    return str(primitive.name) not in _MOVES


def known_numbers(graph: OpGraph, values: Mapping[str, Array], *, double: bool) -> dict[str, Array]:
    """Numbers that are part of the program: constants, whole numbers that are stored, and results
    that are given.
    """
    return {
        n: values[n].astype(element_type(graph.tensors[n], double=double))
        for n in _known(graph, values)
    }


def _known(graph: OpGraph, values: Mapping[str, Array]) -> Iterator[str]:
    for name in values:
        tensor = graph.tensors[name]
        stored = tensor.role in {Role.PARAMETER, Role.BUFFER}
        if tensor.role in {Role.CONSTANT, Role.ACTIVATION} or (stored and not tensor.is_float):
            yield name
