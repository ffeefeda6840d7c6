"""How candidates split their operator, in terms that any mesh has: cuts of every tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ir.plan import NamedLayout, Plan
from planner.candidates import OpCandidates
from planner.request import Cuts


def splits_of(candidates: OpCandidates, sizes: Sequence[int]) -> list[Cuts]:
    """Cuts of operands, then of results, of every candidate; of a tensor without layout none."""
    columns = []
    for port in (*candidates.operands, *candidates.results):
        if port is None:
            columns.append([()] * len(candidates.assignments))
            continue
        cuts = [state.forward.shards(tuple(sizes)) for state in port.states]
        columns.append([cuts[state] for state in port.of])
    return list(zip(*columns, strict=True)) if columns else [()] * len(candidates.assignments)


def splits_in(plan: Plan) -> tuple[tuple[str, Cuts], ...]:
    """The same of every operator of a plan, by name."""
    sizes = {name: size for name, size, _ in plan.mesh}

    def cuts(layout: NamedLayout | None) -> tuple[int, ...]:
        if layout is None:
            return ()
        out = []
        for dim in layout.dims:
            pieces = 1
            for axis in dim:
                pieces *= sizes[axis]
            out.append(pieces)
        return tuple(out)

    return tuple(
        (op.name, tuple(cuts(each) for each in (*op.inputs, *op.outputs))) for op in plan.operators
    )
