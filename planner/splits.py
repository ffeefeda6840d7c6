"""How candidates split their operator, in terms that any mesh has: cuts of every tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ir.plan import NamedLayout, Plan
from ir.plan_stages import axis_sizes
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

    def cuts(layout: NamedLayout | None, sizes: Mapping[str, int]) -> tuple[int, ...]:
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
        (op.name, tuple(cuts(each, sizes) for each in (*op.inputs, *op.outputs)))
        for op in plan.operators
        for sizes in (axis_sizes(plan, op.stage),)
    )
