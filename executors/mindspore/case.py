"""A plan as a case for MindSpore: its operators with cut counts, for code in another environment.

A composite becomes its parts; what is cut of them follows from the composite's factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ir.graph import Op, Role, Tensor
from ir.mindspore_forms.readers import NEVER_CUT, every_part, forward_ops
from ir.ops import Form, OpView, lookup
from ir.plan import NamedLayout, Plan, PlannedOperator

Case: TypeAlias = dict[str, Any]
"""Plain values that JSON holds."""
Cuts: TypeAlias = list[int]


def case_of(plan: Plan, name: str, *, pinned: bool) -> Case:
    """The case of a plan.

    Args:
        plan: a plan in the dialect `mindspore`.
        name: of the case, a Python identifier.
        pinned: see `Pins`.
    """
    sizes = plan.axis_sizes
    pins = Pins(plan, pinned=pinned)
    ops = [pin for name in plan.graph.inputs for pin in pins.shared(name)]
    for op in forward_ops(plan.graph):
        ops += _operators(op, plan, sizes, pins)
        ops += [pin for name in op.outputs for pin in pins.shared(name)]
    shares = optimizer_shares(plan)
    used = {n for op in ops for n in (*op["inputs"], *op["outputs"]) if n}
    return {
        "name": name,
        "devices": plan.devices,
        "training": plan.derives_gradients,
        "all_to_all": plan.request.get("all_to_all") is not False,
        "inputs": [
            {"name": name, "cuts": list(layout.shards(sizes))}
            for name, layout in plan.input_layouts.items()
        ],
        "shared": sorted(name for name, size in shares.items() if size > 1),
        "level": optimizer_level(plan),
        "numbers": {},
        "tensors": {n: _tensor(plan.graph.tensors[pins.made.get(n, n)]) for n in sorted(used)},
        "ops": ops,
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {"dims": list(tensor.dims), "dtype": tensor.dtype, "role": tensor.role.value}


def constants_of(plan: Plan) -> list[str]:
    """Constants that the operators of a plan read."""
    every = [each for op in plan.graph.ops for each in (op, *op.parts)]
    read = dict.fromkeys(n for op in every for n in op.inputs if n)
    return [n for n in read if plan.graph.tensors[n].role is Role.CONSTANT]


def optimizer_shares(plan: Plan) -> dict[str, int]:
    """Among how many devices the optimizer shares each parameter; 1 is not at all."""
    out: dict[str, int] = {}
    for each in plan.parameters:
        ends = (each.states or each.layout, each.used or each.layout)
        pieces = [math.prod(layout.shards(plan.axis_sizes)) for layout in ends]
        out[each.name] = pieces[0] // pieces[-1]
    return out


def optimizer_level(plan: Plan) -> str:
    """MindSpore's word for how far the optimizer shares weights: at level 3 they are gathered again
    for the backward pass, at level 1 once in a step.
    """
    again = any(each.layout != (each.used or each.layout) for each in plan.parameters)
    return "level3" if again else "level1"


def _operators(
    op: Op, plan: Plan, sizes: Mapping[str, int], pins: Pins
) -> Iterator[dict[str, Any]]:
    planned = next(each for each in plan.operators if each.name == op.name)
    names = dict(pins.names)
    if op.parts or op.kind in NEVER_CUT:
        for name, layout in zip(op.inputs, planned.inputs, strict=True):
            if name and plan.graph.tensors[name].role in {Role.ACTIVATION, Role.INPUT}:
                yield from pins.at(name, layout, names)
    if op.parts:
        yield from (
            _renamed(part, names) for part in _parts(OpView(op, plan.graph), planned, sizes)
        )
        return
    given = zip(op.inputs, planned.inputs, strict=True)
    cuts = [list(layout.shards(sizes)) if name and layout else None for name, layout in given]
    yield _renamed(_record(op, cuts), names)
    if op.kind in NEVER_CUT:
        yield from pins.at(op.outputs[0], planned.outputs[0], pins.names)


def _renamed(record: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {**record, "inputs": [names.get(name, name) for name in record["inputs"]]}


def _record(op: Op, cuts: list[Cuts | None]) -> dict[str, Any]:
    return {
        "name": op.name,
        "kind": op.kind,
        "primitive": lookup(op.kind).primitive,
        "plain": _is_plain(op),
        "inputs": list(op.inputs),
        "outputs": list(op.outputs),
        "attributes": {k: list(v) if isinstance(v, tuple) else v for k, v in op.attributes.items()},
        "cuts": cuts,
    }


def _is_plain(op: Op) -> bool:
    """Whether an operator is one function of its operands."""
    entry = lookup(op.kind)
    most = entry.function.operands if entry.function is not None else 0
    if entry.spelling is not None and entry.spelling.form is Form.ONE:
        most = 1
    return len(op.inputs) <= most


def _parts(
    view: OpView, planned: PlannedOperator, sizes: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """The parts of a composite; a dimension of theirs is cut as its factors are."""
    count: dict[int, int] = {}
    for axis, factor in planned.split:
        count[factor] = count.get(factor, 1) * sizes[axis]
    for part, rule in every_part(view):
        cuts = [
            None
            if mapping is None
            else [math.prod(count.get(f, 1) for f in dim) for dim in mapping]
            for mapping in rule.operands
        ]
        yield _record(part.op, cuts)


class Pins:
    """Pins of a plan, at tensors with several readers, at both ends of a reshape, and where a
    composite reads something.

    MindSpore redistributes straight from the operator that makes a tensor to each primitive that
    reads it.
    """

    def __init__(self, plan: Plan, *, pinned: bool) -> None:
        self.pinned = pinned
        self.axes = [(name, size) for name, size, _ in plan.mesh if size > 1]
        self.layouts = {t.name: t.layout for t in plan.tensors if t.role == "shared"}
        self.names: dict[str, str] = {}
        """What is read in place of a tensor from here on."""
        self.made: dict[str, str] = {}
        """For each new tensor the one that it is."""

    def shared(self, tensor: str) -> Iterator[dict[str, Any]]:
        """A pin at a tensor with several readers."""
        yield from self.at(tensor, self.layouts.get(tensor), self.names)

    def at(
        self, tensor: str, layout: NamedLayout | None, names: dict[str, str]
    ) -> Iterator[dict[str, Any]]:
        """A pin behind a tensor, which `names` then has in its place."""
        if layout is None or not self.pinned:
            return
        name = f"{tensor}/pin{len(self.made)}"
        self.made[name] = tensor
        matrix, tensor_map = self._placed(layout)
        yield {
            "name": name,
            "kind": "Pin",
            "primitive": "",
            "plain": False,
            "inputs": [names.get(tensor, tensor)],
            "outputs": [name],
            "attributes": {},
            "cuts": [None],
            "matrix": matrix,
            "map": tensor_map,
        }
        names[tensor] = name

    def _placed(self, layout: NamedLayout) -> tuple[list[int], list[list[int]]]:
        """A device matrix, and for each dimension the places in it of the axes that cut it.

        Neighbours that stand together are one axis, as in the matrix that cut counts give.
        """
        where = {name: (d, i) for d, dim in enumerate(layout.dims) for i, name in enumerate(dim)}
        matrix: list[int] = []
        place: dict[str, int] = {}
        before: tuple[int, int] | None = None
        for index, (name, size) in enumerate(self.axes):
            own = where.get(name)
            follows = own == (before and (before[0], before[1] + 1))
            if index and follows:
                matrix[-1] *= size
            else:
                place[name] = len(matrix)
                matrix.append(size)
            before = own
        dims = [[place[name] for name in dim if name in place] for dim in layout.dims]
        assert math.prod(matrix) == math.prod(size for _, size in self.axes)
        return matrix, dims
