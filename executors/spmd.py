"""One operator on all devices: each runs its part, and sends what the operator needs inside.

A kind whose parts are not just the operator on smaller operands has an algorithm of its own in
`executors.algorithms`; every other one runs as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol, TypeAlias

import autograd.numpy as np
from autograd.extend import defvjp, primitive
from autograd.tracer import getval

from executors.device import Backward
from executors.exchange import Communication
from executors.placement import Array, Spread, coordinates, region_of
from executors.splits import Assignment, fitted, in_pieces, result_layouts
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph, Tensor
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.semantics.call import NotRunError
from topology.mesh import Mesh

STATISTIC_BYTES = 4
"""Bytes of a number that devices exchange inside an operator: they are kept in float32."""
Int: TypeAlias = int
"""`int` where a method of that name hides it."""
Shards: TypeAlias = list[list[Array]]
"""Results of every rank."""


class Runner(Protocol):
    """Runs one operator on the parts of one device."""

    def run(
        self,
        op: Op,
        operands: Sequence[Array | None],
        results: Sequence[Tensor],
        result_dims: Sequence[tuple[int, ...]],
    ) -> list[Array]:
        """The results, or `NotRunError`."""
        ...


@primitive  # type: ignore[misc, unused-ignore]
def noticed(array: Array, _: Callable[[], None]) -> Array:
    """The array; the function is called when its gradient comes back."""
    return array


def _notice(_: Array, __: Array, notice: Callable[[], None]) -> Callable[[Array], Array]:
    def gradient(back: Array) -> Array:
        notice()
        return back

    return gradient


defvjp(noticed, _notice, argnums=(0,))


@primitive  # type: ignore[misc, unused-ignore]
def nothing(array: Array) -> Array:
    """Zeros through which a gradient passes."""
    return np.zeros_like(array)


defvjp(nothing, lambda _, __: lambda back: back)


@dataclass(slots=True)
class OperatorRun:
    """One operator with its operands on all devices, and the layouts that its results have."""

    op: Op
    graph: OpGraph
    mesh: Mesh
    operands: Sequence[Spread | None]
    layouts: Sequence[Layout]
    """Of the results, with the axes over which they are terms of a sum."""
    runner: Runner
    constants: Mapping[str, Array] = field(default_factory=dict)
    """Numbers of constants that parts of the operator read and it does not."""
    shares: bool = False
    """Gradients are shares of a sum on all devices, so that every message is repeated backward."""
    log: list[Communication] = field(default_factory=list)
    """What was sent inside the operator."""
    backward_log: dict[Int, Communication] = field(default_factory=dict)
    """What its gradient sent, by the place of the message in `log`; a negative number is a message
    that only the gradient takes.
    """
    late: Iterator[Int] = field(default_factory=lambda: itertools.count(-1, -1))
    """Numbers of such messages."""

    @property
    def results(self) -> list[Tensor]:
        return [self.graph.tensors[n] for n in self.op.outputs if n]

    @property
    def ranks(self) -> range:
        return range(self.mesh.size)

    def operand(self, index: Int) -> Spread:
        found = self.operands[index]
        if found is None:
            raise NotRunError(f"operand {index} is missing")
        return found

    def has(self, index: Int) -> bool:
        return index < len(self.operands) and self.operands[index] is not None

    def int(self, key: str, default: Int = 0) -> Int:
        return OpView(self.op, self.graph).int(key, default)

    def axes_of(self, index: Int, dims: Sequence[Int]) -> tuple[Int, ...]:
        """Mesh axes that split some dimensions of an operand."""
        layout = self.operand(index).layout
        return tuple(sorted(axis for dim in dims for axis in layout.dims[dim] if axis >= 0))

    def local_dims(self, result: Int, rank: Int) -> tuple[Int, ...]:
        """Dims of a result on one device."""
        place = coordinates(self.mesh)[rank]
        dims = self.results[result].dims
        region = region_of(dims, self.layouts[result], self.mesh.sizes, place)
        return tuple(len(each) for each in region)

    def parts(self, rank: Int) -> list[Array | None]:
        """What one device has of every operand."""
        return [None if o is None else o.shards[rank] for o in self.operands]

    def local(self) -> Shards:
        """Every device runs the operator on its parts: results by rank."""
        return [self.on(rank, self.op, self.parts(rank)) for rank in self.ranks]

    def on(self, rank: Int, op: Op, operands: Sequence[Array | None]) -> list[Array]:
        """One device runs an operator whose results are those of this one."""
        dims = [self.local_dims(i, rank) for i in range(len(self.results))]
        return self.runner.run(op, operands, self.results, dims)

    def all_reduce(
        self,
        arrays: Sequence[Array],
        axes: tuple[Int, ...],
        combine: Callable[[Array, Array], Array],
        backward: Backward = Backward.NOTHING,
    ) -> list[Array]:
        """Combine what the devices of each group hold; the message is counted and logged.

        Args:
            arrays: one for each rank.
            axes: the group; nothing is sent if there are none.
            combine: a sum, a maximum.
            backward: what the gradient of the result takes.
        """
        if not axes:
            return list(arrays)
        if self.shares:
            backward = Backward.SUM
        nbytes = max(a.size for a in arrays) * STATISTIC_BYTES
        self.log.append(Communication("all_reduce", axes, nbytes))
        out: list[Array] = list(arrays)
        for members in self._groups(axes):
            held = [arrays[rank] for rank in members]
            plain = [getval(a) for a in held]
            total = noticed(reduce(combine, held), self._sent_back(len(self.log) - 1))
            for place, rank in enumerate(members):
                if backward is Backward.SUM:
                    out[rank] = total
                elif backward is Backward.OWN:
                    out[rank] = reduce(combine, [*plain[:place], held[place], *plain[place + 1 :]])
                else:
                    out[rank] = reduce(combine, plain)
        return out

    def exchange_edges(
        self, arrays: Sequence[Array], dim: Int, axes: tuple[Int, ...], edges: tuple[Int, Int]
    ) -> list[tuple[Array, Int, Int]]:
        """Every device gets the edges of its neighbours; gradients of edges go back to their owner.

        Args:
            arrays: one for each rank.
            dim: dimension along which the devices are neighbours.
            axes: mesh axes that split it, outermost first.
            edges: positions that a device needs of the one before it and of the one behind it.

        Returns:
            By rank the wider array, and how many positions came before it and behind it.
        """
        before, after = edges
        place = len(self.log)
        out: list[tuple[Array, Int, Int]] = [(a, 0, 0) for a in arrays]
        most = 0
        for members in self._neighbours(axes):
            for here, rank in enumerate(members):
                front = members[here - 1 : here] if here and before else []
                behind = members[here + 1 : here + 2] if after else []
                own = arrays[rank]
                parts = [self._edge(arrays[r], dim, -before, place) for r in front]
                parts.append(own)
                parts += [self._edge(arrays[r], dim, after, place) for r in behind]
                wider = np.concatenate(parts, axis=dim) if len(parts) > 1 else own
                out[rank] = (wider, before * len(front), after * len(behind))
                most = max(most, own.size // max(own.shape[dim], 1) * (before + after))
        if most:
            nbytes = int(most * dtype_bytes(self._item_type(0)))
            self.log.append(Communication("point_to_point", tuple(sorted(axes)), nbytes))
        return out

    def _edge(self, array: Array, dim: Int, count: Int, message: Int) -> Array:
        """The last positions of an array, or the first ones, as sent in a message."""
        window = slice(count, None) if count < 0 else slice(0, count)
        index = (slice(None),) * dim + (window,)
        return noticed(array[index], self._sent_back(message))

    def _item_type(self, index: Int) -> str:
        return self.graph.tensors[self.op.inputs[index]].dtype

    def _neighbours(self, axes: tuple[Int, ...]) -> list[list[Int]]:
        """The ranks of each group in the order of the pieces that they hold."""
        places = coordinates(self.mesh)
        return [
            sorted(members, key=lambda rank: tuple(places[rank][a] for a in axes))
            for members in self._groups(axes)
        ]

    def sum_late(
        self,
        arrays: Sequence[Array],
        axes: tuple[Int, ...],
        use: Callable[[Int, Array], Array],
    ) -> list[Array]:
        """Sum numbers that only the gradient needs: the message is sent when it comes back.

        Args:
            arrays: one for each rank, without gradient.
            axes: the group.
            use: what a rank makes of the sum.
        """
        note, out = self._noted_late(arrays, axes), list(arrays)
        for members in self._groups(axes):
            total = reduce(np.add, [arrays[rank] for rank in members])
            for rank in members:
                out[rank] = noticed(use(rank, total), note)
        return out

    def sum_gradients(self, arrays: Sequence[Array], axes: tuple[Int, ...]) -> list[Array]:
        """The arrays, equal in each group; what follows differs, so their gradients are summed."""
        note, out = self._noted_late(arrays, axes), list(arrays)
        for members in self._groups(axes):
            total = noticed(reduce(np.add, [nothing(arrays[rank]) for rank in members]), note)
            for rank in members:
                out[rank] = getval(arrays[rank]) + total
        return out

    def _noted_late(self, arrays: Sequence[Array], axes: tuple[Int, ...]) -> Callable[[], None]:
        """What notes a sum that only the gradient needs."""
        nbytes = max(a.size for a in arrays) * STATISTIC_BYTES
        message, place = Communication("all_reduce", axes, nbytes), next(self.late)
        return lambda: self.backward_log.update({place: message})

    def _sent_back(self, number: Int) -> Callable[[], None]:
        return lambda: self.backward_log.update({number: self.log[number]})

    def _groups(self, axes: tuple[Int, ...]) -> list[list[Int]]:
        groups: dict[tuple[Int, ...], list[Int]] = {}
        for rank, place in enumerate(coordinates(self.mesh)):
            key = tuple(c for a, c in enumerate(place) if a not in axes)
            groups.setdefault(key, []).append(rank)
        return list(groups.values())


@dataclass(frozen=True, slots=True)
class Around:
    """What an operator stands in.

    Attributes:
        mesh: for an operator that has no operand.
        outer: the composite that the operator is a part of, which then knows what was sent.
        constants: numbers of constants that parts of a composite read.
        shares: gradients are shares of a sum over every axis that does not split their tensor.
    """

    mesh: Mesh | None = None
    outer: OperatorRun | None = None
    constants: Mapping[str, Array] = field(default_factory=dict)
    shares: bool = False


Algorithm: TypeAlias = Callable[[OperatorRun], Shards]


def run_operator(
    op: Op,
    graph: OpGraph,
    operands: Sequence[Spread | None],
    assignment: Assignment,
    runner: Runner,
    algorithms: Mapping[str, Algorithm],
    around: Around | None = None,
) -> tuple[list[Spread], OperatorRun]:
    """Run one operator.

    Args:
        op: the operator.
        graph: for the dims and types of its tensors.
        operands: each in any layout from which the one that the rule wants can be cut.
        assignment: what each mesh axis splits.
        runner: runs parts.
        algorithms: by kind.
        around: what the operator stands in.

    Returns:
        The results, sums left as terms, and the task, which knows what was sent inside.

    Raises:
        NotRunError: it cannot be run, or its parts do not have the shapes of their layouts.
    """
    around = around or Around()
    mesh = next((o.mesh for o in operands if o is not None), around.mesh)
    if mesh is None:
        raise NotRunError("it has no operand")
    rule = lookup(op.kind).rule(OpView(op, graph))
    ready = [fitted(rule, i, o, assignment) for i, o in enumerate(operands)]
    layouts = in_pieces(rule, ready, result_layouts(rule, assignment, mesh.sizes))
    task = OperatorRun(op, graph, mesh, ready, layouts, runner, around.constants)
    if around.outer is not None:
        outer = around.outer
        task.log, task.backward_log, task.late = outer.log, outer.backward_log, outer.late
        task.shares, task.constants = outer.shares, outer.constants
    shards = algorithms.get(op.kind, OperatorRun.local)(task)
    return _checked(task, shards), task


def _checked(task: OperatorRun, shards: Sequence[Sequence[Array]]) -> list[Spread]:
    out = []
    for index, (tensor, layout) in enumerate(zip(task.results, task.layouts, strict=True)):
        parts = tuple(shards[rank][index] for rank in task.ranks)
        for rank, part in enumerate(parts):
            wanted = task.local_dims(index, rank)
            if part.shape != wanted:
                raise NotRunError(
                    f"rank {rank} makes {tensor.name} of {list(part.shape)}, "
                    f"its layout has {list(wanted)}"
                )
        out.append(Spread(tensor.dims, layout, task.mesh, parts))
    return out


def alone(arrays: Sequence[Array]) -> Shards:
    """One result on every rank."""
    return [[a] for a in arrays]
