"""What a network of MindSpore's hybrid_parallel mode must do itself.

Parameters with `layerwise_parallel` are slices whose gradients are not reduced, and the framework
puts no communication between operators: the network holds the collectives of the plan. Source:
MindSpore's tutorial on distributed training (HybridParallelNet); `Parameter.layerwise_parallel`.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporters.python_tables import table
from ir.mindspore_forms.primitives import as_stored
from ir.mindspore_forms.readers import file_name
from ir.plan import Plan, PlannedCollective, PlannedTensor
from ir.plan_enums import Cause
from ir.plan_stages import axis_groups

__all__ = ["OwnCollective", "hybrid_module", "own_collectives", "slices"]

_OPERATORS = {
    "all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter",
    "all_to_all": "AlltoAll",
}  # fmt: skip

_FORWARD = frozenset({Cause.FORWARD, Cause.INSIDE})
"""Causes of what the network sends itself."""

_MODULE = '''

SLICES = {slices}
"""Parameters of which every rank keeps a slice, with the slice's sizes: make them so large, with
`layerwise_parallel`. Their gradients are not reduced.
"""

COLLECTIVES = {collectives}
"""What the network itself sends in the forward pass, in the order of the operators: the operator
and its operand (-1: its result), the primitive, the ranks of every group, and each rank's bytes.
"""


def mark_slices(network):
    """Mark the slices; returns a line for each that the network lacks or has whole."""
    found = {{parameter.name: parameter for parameter in network.get_parameters()}}
    faults = []
    for name, sizes in SLICES.items():
        if name not in found:
            faults.append(f"{{name}}: the network has no such parameter")
        elif tuple(found[name].shape) != sizes:
            faults.append(f"{{name}}: {{found[name].shape}} in the network, {{sizes}} in the plan")
        else:
            found[name].layerwise_parallel = True
    return faults
'''


@dataclass(frozen=True, slots=True)
class OwnCollective:
    """One communication that the network holds."""

    operator: str
    operand: int
    primitive: str
    groups: tuple[tuple[int, ...], ...]
    nbytes: float

    def __str__(self) -> str:
        place = "behind" if self.operand < 0 else f"before operand {self.operand} of"
        size = len(self.groups[0])
        return (
            f"{self.primitive} over {size} ranks {place} {self.operator!r}: {self.nbytes:g} bytes"
        )


def own_collectives(plan: Plan) -> tuple[OwnCollective, ...]:
    """The communication of the forward pass; gradients of whole parameters are MindSpore's."""
    order = {op.name: i for i, op in enumerate(plan.graph.ops)}
    forward = [each for each in plan.collectives if _is_forward(each)]
    forward.sort(key=lambda each: order.get(each.operator, len(order)))
    return tuple(
        OwnCollective(
            each.operator,
            each.operand,
            _OPERATORS.get(each.kind, each.kind),
            axis_groups(plan, each.axes),
            each.nbytes,
        )
        for each in forward
    )


def slices(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Sizes of the slices of the parameters that operators use split, in the order of the file."""
    known = plan.graph.tensors
    return {
        file_name(known[each.name]): as_stored(own, known[each.name])
        for each, own in ((each, _slice(each, plan.axis_sizes)) for each in plan.parameters)
        if own != each.dims
    }


def hybrid_module(plan: Plan) -> tuple[str, tuple[str, ...]]:
    """The part of the script for a network that communicates itself, and a note for each."""
    found = own_collectives(plan)
    rows = "".join(
        f"    {(c.operator, c.operand, c.primitive, c.groups, round(c.nbytes))!a},\n" for c in found
    )
    text = _MODULE.format(slices=table(slices(plan)), collectives=f"(\n{rows})" if rows else "()")
    return text, tuple(f"the network itself holds {each}" for each in found)


def _is_forward(item: PlannedCollective) -> bool:
    """Whether it is sent in the forward pass, between or inside operators.

    Parameters rest as they are used: the optimizer shares none in this mode.
    """
    return item.group_size > 1 and item.cause in _FORWARD and item.count > item.backward


def _slice(tensor: PlannedTensor, sizes: dict[str, int]) -> tuple[int, ...]:
    """Sizes of what a rank keeps of a parameter."""
    pieces = (tensor.used or tensor.layout).shards(sizes)
    return tuple(size // count for size, count in zip(tensor.dims, pieces, strict=True))
