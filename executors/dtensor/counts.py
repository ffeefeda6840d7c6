"""The collectives of a plan on as many ranks as it has, none of which holds a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from executors.dtensor.grid import grid_of
from executors.dtensor.numbers import torch_dtype
from executors.dtensor.operators import Operators
from executors.dtensor.program import Program
from executors.dtensor.ranks import imagined
from executors.dtensor.traffic import Log, Recorder, Sent, exchanges
from executors.judgement import Traffic, summed
from executors.reference import given_tensors, mesh_of
from ir.graph import Op
from ir.plan import Plan

Tensor: TypeAlias = Any
Parted = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the first rank of a plan sends."""

    sent: tuple[Sent, ...]
    not_run: dict[str, str]
    parted: Parted
    """Operator and direction that run without DTensor's rules, and why."""
    other_ways: Counter[str]
    """Ways of DTensor's own between two layouts that differ from the plan's."""
    own_ways: int
    """How often the plan's way was DTensor's own."""
    in_turn: int
    """Collectives over several axes that DTensor sent one axis after the other."""

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """Messages of one kind and size of group together."""
        return summed(Traffic(s.kind, len(s.ranks), float(s.nbytes), 1) for s in self.sent)


def counted(plan: Plan, *, training: bool) -> Counts:
    """Run a plan on tensors without numbers, as the first rank of all that it has."""
    log = Log()
    mesh, table = mesh_of(plan), plan.graph.tensors
    with imagined(mesh.size):
        grid = grid_of(plan, mesh, 0)
        with FakeTensorMode(), exchanges():
            given = {
                n: torch.empty(table[n].dims, dtype=torch_dtype(table[n].dtype))
                for n in given_tensors(plan)
            }
            operators = Operators(grid, plan.graph, log, False, inner_constants(plan, given))
            program = Program(plan, grid, given, operators, training)
            with Recorder(log):
                results = program.run()
    mover = program.mover
    return Counts(
        tuple(log.items),
        dict(results.not_run),
        dict(operators.parted),
        mover.other_ways,
        mover.own_ways,
        mover.in_turn,
    )


def inner_constants(plan: Plan, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What parts of composites may read though no operand hands it over."""
    read = {n for op in plan.graph.ops for part in _parts(op) for n in part.inputs}
    return {n: tensor for n, tensor in given.items() if n in read}


def _parts(op: Op) -> Iterator[Op]:
    for part in op.parts:
        yield part
        yield from _parts(part)
