"""One walk of a batch through a graph, under one reading of what it passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ir.batch_moves import Place, Reading, Readings, readings
from ir.graph import Op, OpGraph, Role, Tensor, unused_name
from ir.graph_rules import rule_of
from ir.ops import OpView, Resizing, is_described, lookup
from ir.resizing import rewritten
from ir.rule import FactorMap, ShardingRule


class BatchError(ValueError):
    """The batch cannot be followed through an operator; the message names it."""


class ContradictionError(BatchError):
    """A reading of the batch under which sizes would not agree: it cannot be meant."""


@dataclass(slots=True)
class Follower:
    """Finds the batch in every tensor, from the inputs on."""

    graph: OpGraph
    old: int
    chosen: tuple[int, ...] = ()
    """Which reading to take at the operators that have several, in the order of their discovery."""
    widely: bool = False
    """Whether unlikely readings count."""
    where: dict[str, Place] = field(default_factory=dict)
    """What of each tensor is the batch."""
    trail: list[tuple[Op, int, int]] = field(default_factory=list)
    """Operators with several readings: which was taken, and of how many."""
    error: BatchError | None = None
    """Where the batch could not be followed further."""
    is_doubtful: bool = False
    """Whether something that depends on inputs but not on the batch was repeated for it."""
    makers: Mapping[str, Op] = field(default_factory=dict)
    readers: Mapping[str, Sequence[Op]] = field(default_factory=dict)
    stretched: dict[str, dict[str, int]] = field(default_factory=dict)
    """Operands that need an Expand in front of an operator: operator name to tensor to dimension.
    """
    _taken: dict[tuple[object, ...], int] = field(default_factory=dict)
    _scaled: OpGraph | None = None
    """The last one."""

    def dims(self) -> Mapping[str, int]:
        """Dimension that grows with the batch, by tensor."""
        return {name: place.dim for name, place in self.where.items()}

    def run(self) -> None:
        for name in self.graph.inputs:
            dims = self.graph.tensors[name].dims
            if dims and dims[0] == self.old:
                self.where[name] = Place(0, 1, self.old)
        self.makers = self.graph.producers()
        self.readers = self.graph.consumers()
        known = -1
        while known != len(self.where):
            known = len(self.where)
            for op in self.graph.ops:
                self._follow(op)

    def _follow(self, op: Op) -> None:
        held = {i: self.where[n] for i, n in enumerate(op.inputs) if n in self.where}
        if not held:
            return
        view = OpView(op, self.graph)
        found = readings(view, held)
        if found is None:
            self._by_rule(op, held)
            return
        reading = self._choice(op, view, held, found)
        for index, place in reading.needs.items():
            self._demand(op, op.inputs[index], place)
        for name, result in zip((n for n in op.outputs if n), reading.results, strict=True):
            self._enter(op, name, result)

    def _choice(self, op: Op, view: OpView, held: Mapping[int, Place], found: Readings) -> Reading:
        """The reading to take: the same for operators of the same sizes."""
        options = [*found.likely, *(found.unlikely if self.widely else ())]
        if not options:
            raise self._lost(op, found.reason)
        if len(options) == 1:
            return options[0]
        sizes = (*(t.dims if t else () for t in view.inputs), *(t.dims for t in view.outputs))
        key = (op.kind, tuple(sorted(held.items(), key=lambda each: each[0])), sizes)
        if key not in self._taken:
            step = len(self.trail)
            self._taken[key] = self.chosen[step] if step < len(self.chosen) else 0
            self.trail.append((op, self._taken[key], len(options)))
        return options[self._taken[key]]

    def _enter(self, op: Op, name: str, place: Place | None) -> None:
        """A result holds the batch there, unless a reader has shown that it is elsewhere."""
        if place is None:
            return
        if name in self.where and self.where[name].dim != place.dim:
            raise self._torn(op, possible=False)
        self.where[name] = place

    def _by_rule(self, op: Op, held: Mapping[int, Place]) -> None:
        rule = rule_of(op, self.graph)
        by_operand = {i: self._factor(op, rule, i, place) for i, place in held.items()}
        found = set(by_operand.values())
        if len({factor for factor, _ in found}) > 1:
            raise self._torn(op, possible=_agree(rule, {i: f for i, (f, _) in by_operand.items()}))
        factor, inside = min(found, key=lambda each: (each[0], each[1].outer))
        for index, name in enumerate(op.inputs):
            if name and index not in held:
                self._join(op, rule, index, (factor, inside))
        for name, mapping in zip((n for n in op.outputs if n), rule.results, strict=True):
            self._enter(op, name, _place(rule, mapping, factor, inside))

    def _factor(self, op: Op, rule: ShardingRule, index: int, place: Place) -> tuple[int, Place]:
        """The factor of the rule that holds the batch of an operand, and where in it."""
        mapping = rule.operands[index]
        factors = mapping[place.dim] if mapping is not None else ()
        found = place.inside([rule.sizes[f] for f in factors]) if factors else None
        if found is None or factors[found[0]] in rule.locked:
            raise self._lost(op)
        return factors[found[0]], Place(0, found[1].outer, found[1].count)

    def _torn(self, op: Op, *, possible: bool) -> BatchError:
        kind = BatchError if possible else ContradictionError
        return kind(
            f"the batch cannot be followed through {op.name} ({op.kind}): "
            "its operands have it in different places\n"
            f"  at:  {op.scope or 'the top of the model'}\n"
            "  fix: export the model with the batch wanted"
        )

    def _lost(self, op: Op, reason: str = "", *, possible: bool = True) -> BatchError:
        kind = BatchError if possible else ContradictionError
        rule = "" if is_described(op) else f"; or give {op.kind} a rule with --rule"
        why = f": {reason}" if reason else ""
        return kind(
            f"the batch is lost in {op.name} ({op.kind}){why}\n"
            f"  at:  {op.scope or 'the top of the model'}\n"
            "  fix: export the model with the batch wanted, or with a dynamic batch and --bind"
            f"{rule}"
        )

    def _join(self, op: Op, rule: ShardingRule, index: int, held: tuple[int, Place]) -> None:
        """An operand without the batch beside one with it: broadcast if it may, else it gets the
        batch too.
        """
        place = _place(rule, rule.operands[index], *held)
        name = op.inputs[index]
        if place is not None and not self._stretches(op, name, place.dim):
            self._demand(op, name, place)

    def _demand(self, op: Op, name: str, place: Place) -> None:
        """A tensor has to hold the batch: from its origin on, or by an Expand."""
        learnt: dict[str, Place] = {}
        if self._require(name, place, learnt):
            self.where.update(learnt)
        elif self.graph.tensors[name].dims[place.dim] == 1:
            self.stretched.setdefault(op.name, {})[name] = place.dim
        else:
            raise self._lost(op, possible=False)

    def _stretches(self, op: Op, name: str, dim: int) -> bool:
        return self.graph.tensors[name].dims[dim] == 1 and lookup(op.kind).broadcasts

    def _require(self, name: str, place: Place, learnt: dict[str, Place]) -> bool:
        """Whether a tensor that follows from constants can have the batch from its origin on.

        Args:
            name: the tensor.
            place: what of it has to be the batch.
            learnt: the tensors that get the batch then, and where.
        """
        if name in self.where or name in learnt:
            return (self.where.get(name) or learnt[name]).dim == place.dim
        learnt[name] = place
        tensor = self.graph.tensors[name]
        if tensor.role is Role.CONSTANT:
            return tensor.dims[place.dim] != 1 or len(self.readers[name]) == 1
        maker = self.makers.get(name)
        if maker is None:
            return False
        if lookup(maker.kind).resizing is Resizing.MULTIPLIED:
            return self._repeats(maker, place)
        rule = rule_of(maker, self.graph)
        mapping = rule.results[maker.outputs.index(name)]
        factors = mapping[place.dim] if mapping else ()
        found = place.inside([rule.sizes[f] for f in factors]) if factors else None
        if found is None or factors[found[0]] in rule.locked:
            return False
        for operand, operand_map in zip(maker.inputs, rule.operands, strict=True):
            inner = _place(rule, operand_map, factors[found[0]], found[1])
            if inner is None or self._stretches(maker, operand, inner.dim):
                continue
            if not self._require(operand, inner, learnt):
                return False
        return True

    def _repeats(self, op: Op, place: Place) -> bool:
        """Whether the batch may be how often an operand is repeated."""
        view = OpView(op, self.graph)
        times = view.result()[place.dim] // view.dims(0)[place.dim]
        if not place.outer or times % (place.outer * place.count):
            return False
        self.is_doubtful = self.is_doubtful or op.inputs[0] in self.makers
        return True

    def scaled(self, batch: int) -> OpGraph:
        """The graph with this reading of the batch.

        Raises:
            BatchError: a size does not divide, an element would be lost, or no output has it.
        """
        if self._scaled is None or self._scaled.batch != batch:
            self._scaled = self._made(batch)
        return self._scaled

    def _made(self, batch: int) -> OpGraph:
        tensors = dict(self.graph.tensors)
        for name, place in self.where.items():
            tensors[name] = self._resized(tensors[name], place, batch)
        ops = self._stretched_ops(tensors, batch)
        outputs = [self.graph.tensors[n] for n in self.graph.outputs]
        if all(t.name not in self.where and t.elements > 1 for t in outputs):
            raise ContradictionError(
                "no output depends on the batch\n  at:  the outputs of the model\n"
                "  fix: export the model with the batch wanted"
            )
        found = replace(self.graph, tensors=tensors, ops=tuple(ops), batch=batch)
        known = {op.name: op for op in self.graph.ops}
        rewritten_ops = (self._rewritten(op, known.get(op.name, op), found) for op in ops)
        return replace(found, ops=tuple(rewritten_ops))

    def _resized(self, tensor: Tensor, place: Place, batch: int) -> Tensor:
        dims = list(tensor.dims)
        for size in (dims[place.dim], place.count):
            if size * batch % self.old:
                raise BatchError(
                    f"dimension {place.dim} of {tensor.name!r} is {dims[place.dim]}, "
                    f"no multiple of the batch {self.old}"
                )
        dims[place.dim] = dims[place.dim] * batch // self.old
        return replace(tensor, dims=tuple(dims))

    def _rewritten(self, op: Op, known: Op, after: OpGraph) -> Op:
        """An operator with the attributes that fit its new sizes; known as it was."""
        if not any(n in self.where for n in (*op.inputs, *op.outputs)):
            return op
        if op.kind == "Reshape" and not op.parts:
            first, last = after.tensors[op.inputs[0]], after.tensors[op.outputs[0]]
            if math.prod(first.dims) != math.prod(last.dims):
                raise self._lost(op, possible=False)
        before = OpView(op, self.graph)
        attributes = rewritten(before, after, rule_of(known, self.graph).sizes)
        return op if attributes == op.attributes else replace(op, attributes=attributes)

    def _stretched_ops(self, tensors: dict[str, Tensor], batch: int) -> list[Op]:
        """The operators, with wide forms of the operands that had no batch of their own."""
        out: list[Op] = []
        for op in self.graph.ops:
            inputs = list(op.inputs)
            for name, dim in self.stretched.get(op.name, {}).items():
                wide = unused_name(f"{name}/batch/{op.name}", tensors)
                dims = list(tensors[name].dims)
                dims[dim] = batch // self.old
                tensors[wide] = replace(tensors[name], name=wide, dims=tuple(dims))
                if tensors[name].role is not Role.CONSTANT:
                    tensors[wide] = replace(tensors[wide], role=Role.ACTIVATION)
                    expand = f"{op.name}/expand/{name}"
                    out.append(Op(expand, "Expand", (name,), (wide,), {}, op.scope))
                inputs = [wide if n == name else n for n in inputs]
            same = tuple(inputs) == op.inputs
            out.append(op if same else replace(op, inputs=tuple(inputs)))
        return out


def _place(
    rule: ShardingRule, mapping: FactorMap | None, factor: int, inside: Place
) -> Place | None:
    """Where a tensor has what stands inside a factor."""
    for dim, factors in enumerate(mapping or ()):
        if factor in factors:
            before = math.prod(rule.sizes[f] for f in factors[: factors.index(factor)])
            return Place(dim, inside.outer * before, inside.count)
    return None


def _agree(rule: ShardingRule, factors: Mapping[int, int]) -> bool:
    """Whether several factors can grow, each held by its operand: no other operand has it as it is.

    Args:
        rule: of the operator.
        factors: by operand.
    """
    return not any(
        rule.has(rule.operands[index], factor)
        for own, factor in factors.items()
        for index, other in factors.items()
        if other != factor and index != own
    )
