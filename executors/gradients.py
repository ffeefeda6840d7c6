"""The backward pass of one operator on all devices: what it runs is differentiated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import autograd.numpy as np
from autograd import make_vjp
from autograd.builtins import list as traced_list

from executors.evaluation import Differentiable
from executors.placement import Array, Spread
from executors.splits import GRADIENT_TERMS, Assignment, fitted, result_layouts
from executors.spmd import Algorithm, Around, OperatorRun
from ir.graph import Op, OpGraph
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.rule import FactorMap
from ir.semantics.call import NotRunError


def run_backward(
    op: Op,
    graph: OpGraph,
    operands: Sequence[Spread | None],
    assignment: Assignment,
    gradients: Sequence[Spread | None],
    wanted: Sequence[int],
    algorithms: Mapping[str, Algorithm],
    around: Around | None = None,
) -> tuple[list[Spread], list[Spread], OperatorRun]:
    """Gradients of some operands of an operator.

    Args:
        op: the operator, no composite.
        graph: for the dims and types of its tensors.
        operands: as for the forward pass.
        assignment: what each mesh axis splits.
        gradients: of each result, split as the result is and whole where it is a term of a sum;
            None for a result without one.
        wanted: the operands whose gradients are asked for.
        algorithms: by kind.
        around: what the operator stands in.

    Returns:
        The results, the gradients of the wanted operands, and the task. A gradient is a term of a
        sum over the axes of factors that its operand lacks, and over those that the assignment
        marks with `GRADIENT_TERMS`.

    Raises:
        NotRunError: the operator cannot be differentiated.
    """
    around = around or Around()
    rule = lookup(op.kind).rule(OpView(op, graph))
    ready = [fitted(rule, i, o, assignment) for i, o in enumerate(operands)]
    mesh = next(o.mesh for o in ready if o is not None)
    layouts = result_layouts(rule, assignment, mesh.sizes)
    kept: list[OperatorRun] = []

    def forward(parts: list[list[Array]]) -> list[Array]:
        given = list(ready)
        for index, shards in zip(wanted, parts, strict=True):
            old = given[index]
            assert old is not None
            given[index] = Spread(old.dims, old.layout, old.mesh, tuple(shards))
        task = OperatorRun(
            op, graph, mesh, given, layouts, Differentiable(), around.constants, around.shares
        )
        kept.append(task)
        shards_of = algorithms.get(op.kind, OperatorRun.local)(task)
        return traced_list([a for shards in shards_of for a in shards])

    start = [list(_present(ready[index]).shards) for index in wanted]
    back, found = make_vjp(forward)(start)
    count = len(layouts)
    seeds = [
        np.zeros_like(found[rank * count + i])
        if gradients[i] is None
        else _present(gradients[i]).shards[rank]
        for rank in range(mesh.size)
        for i in range(count)
    ]
    given = back(seeds)
    out = []
    for place, index in enumerate(wanted):
        operand, mapping = _present(ready[index]), rule.operands[index]
        layout = _terms(operand, mapping, assignment, shares=around.shares)
        out.append(Spread(operand.dims, layout, mesh, tuple(given[place])))
    results = [
        Spread(
            graph.tensors[n].dims,
            layouts[i],
            mesh,
            tuple(found[r * count + i] for r in range(mesh.size)),
        )
        for i, n in enumerate(n for n in op.outputs if n)
    ]
    return results, out, kept[-1]


def _terms(
    operand: Spread, mapping: FactorMap | None, assignment: Assignment, *, shares: bool
) -> Layout:
    """Layout of an operand's gradient, partial over the axes along which it is a term."""
    own = {f for dim in mapping or () for f in dim}
    if shares:
        kept = set(operand.layout.split_axes)
        partial = tuple(a for a in range(len(assignment)) if a not in kept)
    else:
        partial = tuple(
            a for a, f in enumerate(assignment) if f == GRADIENT_TERMS or (f >= 0 and f not in own)
        )
    return Layout(operand.layout.dims, partial)


def _present(operand: Spread | None) -> Spread:
    if operand is None:
        raise NotRunError("an operand or a gradient is missing")
    return operand
