"""Cuts of the primitives that a model file has, from what a plan does with its operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporters.mindspore.checks import reader_violations
from exporters.mindspore.file_operators import Group, Part, aligned, apart, groups, merged, turned
from ir.file_primitives import FilePrimitive
from ir.mindspore_forms.primitives import primitive_form
from ir.mindspore_forms.readers import NEVER_CUT, Reader
from ir.mindspore_forms.strategies import Cuts
from ir.plan import Plan, PlannedOperator
from ir.violations import Violation


@dataclass(frozen=True, slots=True)
class CutPrimitive:
    """A primitive of the file with its strategy."""

    primitive: FilePrimitive
    cuts: tuple[Cuts, ...]
    reader: Reader | None
    """The operator of the plan that it is; None where the plan has none."""
    is_refused: bool
    """Whether MindSpore would refuse the strategy, or place it elsewhere."""


def cut_primitives(plan: Plan) -> tuple[CutPrimitive, ...]:
    """Every primitive of the planned file that the plan has, in order; one whose operands the plan
    has otherwise than the file is left out.
    """
    work = PlannedPrimitives(plan, plan.graph.primitives)
    found = (work.cut(each) for each in plan.graph.primitives if each.name in work.groups)
    return tuple(each for each in found if len(each.cuts) == len(each.primitive.operands))


class PlannedPrimitives:
    """What a plan says of the primitives of a file."""

    def __init__(self, plan: Plan, primitives: Sequence[FilePrimitive]) -> None:
        self.plan = plan
        self.sizes = tuple(size for _, size, _ in plan.mesh)
        self.planned = {operator.name: operator for operator in plan.operators}
        self.groups = groups(plan.graph, primitives)
        self.made: dict[str, tuple[Sequence[int], Cuts]] = {}
        """Dims and cuts of the first result of every primitive, as the plan has it."""
        for name, group in self.groups.items():
            self._note(name, group)
        self.derived: list[str] = []
        self.displaced: list[str] = []
        self.violations: list[Violation] = []

    def inputs(self) -> Iterator[Cuts]:
        """How the inputs arrive."""
        layouts, sizes = self.plan.input_layouts, self.plan.axis_sizes
        for name in self.plan.graph.inputs:
            cuts = layouts[name].shards(sizes) if name in layouts else ()
            self.made[name] = (self.plan.graph.tensors[name].dims, cuts)
            yield cuts

    def _note(self, name: str, group: Group) -> None:
        reader = self._reader(group.main)
        result = group.main.rule.results[0]
        if result is not None:
            dims = self.plan.graph.tensors[group.main.view.op.outputs[0]].dims
            self.made[name] = (dims, tuple(reader.count(dim) for dim in result))

    def _reader(self, part: Part) -> Reader:
        operator: PlannedOperator = self.planned[part.whole]
        split = tuple(factor for _, factor in operator.split)
        return Reader(part.view.op, primitive_form(part.view, part.rule), (), split, self.sizes)

    def cut(self, primitive: FilePrimitive) -> CutPrimitive:
        """The strategy of one primitive, in the dims that the file has."""
        group = self.groups.get(primitive.name)
        if group is None:
            return CutPrimitive(primitive, self._as_read(primitive), None, is_refused=False)
        reader = self._reader(group.main)
        faults = () if reader.op.kind in NEVER_CUT else reader_violations(reader)
        self.violations += faults
        cuts = self._fitted(group, reader, primitive)
        return CutPrimitive(primitive, cuts, reader, is_refused=bool(faults))

    def _fitted(self, group: Group, reader: Reader, primitive: FilePrimitive) -> tuple[Cuts, ...]:
        places = aligned(group, len(reader.cuts), len(primitive.operands))
        if places is None:
            self._misfit(primitive, f"{len(reader.cuts)} operands", f"{len(primitive.operands)}")
            return ()
        own = [self._operand(group, reader, index) for index in places]
        out = []
        for (dims, cuts), target in zip(own, primitive.operands, strict=True):
            fitted = merged(dims, cuts, tuple(target))
            if fitted is None:
                self._misfit(primitive, f"an operand of {list(dims)}", f"{list(target)}")
            out.append(fitted or ())
        if self._is_displaced(group.main, reader, places, primitive):
            self.displaced.append(primitive.name)
        return tuple(out)

    def _is_displaced(
        self, main: Part, reader: Reader, places: Sequence[int], primitive: FilePrimitive
    ) -> bool:
        """Whether merged rows are cut otherwise than from the outside."""
        present = [
            (tensor.dims, mapping)
            for tensor, mapping in zip(main.view.inputs, main.rule.operands, strict=True)
            if tensor is not None
        ]
        if len(present) != len(reader.cuts):
            return False
        for index, target in zip(places, primitive.operands, strict=True):
            dims, mapping = present[index]
            if mapping is None or len(dims) <= len(target):
                continue
            cuts = tuple(reader.count(dim) for dim in mapping)
            together = merged(dims, cuts, target)
            if together is not None and apart(dims, target, together) != cuts:
                return True
        return False

    def _operand(self, group: Group, reader: Reader, index: int) -> tuple[Sequence[int], Cuts]:
        """Dims and cuts of an operand as the file has it, before what turns it."""
        dims, cuts = reader.form.dims[index], reader.cuts[index]
        present = [name for name in reader.op.inputs if name]
        between = group.between(present[index]) if index < len(present) else ()
        for part in between:
            before = turned(part, cuts)
            helper = self._reader(part)
            dims = helper.form.dims[0]
            cuts = helper.cuts[0] if before is None else before
        return dims, cuts

    def _as_read(self, primitive: FilePrimitive) -> tuple[Cuts, ...]:
        """Cuts of a primitive that the plan lacks: where it only moves its operand, those in which
        that is made, and else none.
        """
        self.derived.append(primitive.name)
        whole = tuple((1,) * len(dims) for dims in primitive.operands)
        made = self.made.get(primitive.makers[0]) if len(whole) == 1 else None
        fitted = merged(*made, tuple(primitive.operands[0])) if made is not None else None
        return whole if fitted is None else (fitted,)

    def _misfit(self, primitive: FilePrimitive, own: str, wanted: str) -> None:
        what = f"the plan has {own}, the model file {wanted}"
        fix = "plan it with --attention decomposed, or pass the .mindir that was planned"
        self.violations.append(
            Violation(what, f"operator {primitive.name!r} ({primitive.kind})", fix)
        )
