"""Shardings and plans whose layouts are drawn at random."""

from __future__ import annotations

import random
from dataclasses import replace

from ir.plan import NamedLayout, Plan, PlannedTensor
from tests.plans import tiny_plan


def drawn_layout(draw: random.Random, plan: Plan, rank: int, *, partial: bool) -> NamedLayout:
    """Any layout of so many dimensions over the mesh of a plan."""
    dims: list[list[str]] = [[] for _ in range(rank)]
    left = []
    axes = [name for name, _, _ in plan.mesh]
    for axis in draw.sample(axes, len(axes)):
        place = draw.randrange(-2, rank)
        if place >= 0:
            dims[place].append(axis)
        elif place == -2 and partial:
            left.append(axis)
    return NamedLayout(tuple(map(tuple, dims)), tuple(a for a in axes if a in left))


def drawn_plan(seed: int) -> Plan:
    """The plan made by hand with other layouts and other storage of its parameters."""
    draw, plan = random.Random(seed), tiny_plan()
    tensors = dict(plan.graph.tensors)
    for planned in plan.parameters:
        order = (1, 0) if draw.random() < 0.5 else ()
        source = draw.choice(["", f"file.{planned.name}"])
        tensors[planned.name] = replace(
            tensors[planned.name], source=source, stored_permutation=order
        )
    x = plan.graph.tensors["ids"]
    nodes = [
        PlannedTensor("ids", role, x.dims, x.dtype, drawn_layout(draw, plan, 2, partial=False))
        for role in ("input", "shared")
    ]
    parameters = [
        replace(
            planned,
            layout=drawn_layout(draw, plan, 2, partial=False),
            used=draw.choice([None, drawn_layout(draw, plan, 2, partial=False)]),
        )
        for planned in plan.parameters
    ]
    operators = [
        replace(
            planned,
            inputs=tuple(
                None if x is None else drawn_layout(draw, plan, len(x.dims), partial=True)
                for x in planned.inputs
            ),
            outputs=(drawn_layout(draw, plan, 3, partial=True),),
        )
        for planned in plan.operators
    ]
    return replace(
        plan,
        graph=replace(plan.graph, tensors=tensors),
        tensors=(*parameters, *nodes),
        operators=tuple(operators),
    )
