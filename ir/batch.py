"""Another batch for a graph that was exported with a fixed one.

The batch is followed from dimension 0 of the inputs through the sharding rules: it is the
outermost factor of one dimension of each tensor that depends on an input. Those dimensions are
scaled; nothing else changes, since operators keep no shape operands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ir.graph import Op, OpGraph, Role, Tensor, unused_name
from ir.ops import OpView, is_described, lookup
from ir.rule import FactorMap, ShardingRule


class BatchError(ValueError):
    """The batch cannot be followed through an operator; the message names it."""


def find_batch(graph: OpGraph) -> int:
    """The batch as exported: the size that dimension 0 has in most inputs, the first of them if
    several tie; 0 without inputs.
    """
    sizes = [graph.tensors[n].dims[0] for n in graph.inputs if graph.tensors[n].dims]
    return Counter(sizes).most_common(1)[0][0] if sizes else 0


def with_batch(graph: OpGraph, batch: int) -> OpGraph:
    """The graph with another batch.

    Args:
        graph: as imported, before normalisation.
        batch: the new size of dimension 0 of the inputs.

    Raises:
        BatchError: an operator loses the batch, or has none to follow; the message names it.
    """
    if batch < 1:
        raise BatchError(f"the batch is {batch}; it must be positive")
    old = find_batch(graph)
    if old == 0:
        raise BatchError("the model has no input with a dimension 0 to take the batch from")
    if old == batch:
        return replace(graph, batch=batch)
    if graph.is_training_step:
        raise BatchError(
            "a traced training step has its batch in its constants; "
            "trace it again with the batch wanted"
        )
    follower = _Follower(graph, old)
    follower.run()
    return follower.scaled(batch)


def _place(mapping: FactorMap | None, factor: int) -> int | None:
    """Dimension of a tensor that a factor is part of."""
    return next((d for d, fs in enumerate(mapping or ()) if factor in fs), None)


@dataclass(slots=True)
class _Follower:
    graph: OpGraph
    old: int
    where: dict[str, int] = field(default_factory=dict)
    """Dimension that holds the batch, by tensor."""
    rules: dict[str, ShardingRule] = field(default_factory=dict)
    makers: Mapping[str, Op] = field(default_factory=dict)
    readers: Mapping[str, Sequence[Op]] = field(default_factory=dict)
    stretched: dict[str, dict[str, int]] = field(default_factory=dict)
    """Operands that need an Expand in front of an operator: operator name to tensor to dimension.
    """

    def run(self) -> None:
        for name in self.graph.inputs:
            dims = self.graph.tensors[name].dims
            if dims and dims[0] == self.old:
                self.where[name] = 0
        self.makers = self.graph.producers()
        self.readers = self.graph.consumers()
        known = -1
        while known != len(self.where):
            known = len(self.where)
            for op in self.graph.ops:
                self._follow(op)

    def _rule(self, op: Op) -> ShardingRule:
        if op.name not in self.rules:
            self.rules[op.name] = lookup(op.kind).rule(OpView(op, self.graph))
        return self.rules[op.name]

    def _follow(self, op: Op) -> None:
        batched = [i for i, n in enumerate(op.inputs) if n in self.where]
        if not batched:
            return
        rule = self._rule(op)
        factors = {self._factor(op, rule, i) for i in batched}
        if len(factors) > 1:
            raise BatchError(
                f"the batch cannot be followed through {op.name} ({op.kind}): "
                "its operands have it in different places\n"
                f"  at:  {op.scope or 'the top of the model'}\n"
                "  fix: export the model with the batch wanted"
            )
        factor = factors.pop()
        for index, name in enumerate(op.inputs):
            if name and index not in batched:
                self._join(op, rule, index, factor)
        for name, mapping in zip(op.outputs, rule.results, strict=True):
            found = [d for d, fs in enumerate(mapping or ()) if factor in fs]
            if found and (mapping or ())[found[0]][0] != factor:
                raise self._lost(op)
            if found:
                self.where[name] = found[0]

    def _factor(self, op: Op, rule: ShardingRule, index: int) -> int:
        mapping = rule.operands[index]
        dim = self.where[op.inputs[index]]
        if mapping is None or not mapping[dim] or mapping[dim][0] in rule.locked:
            raise self._lost(op)
        return mapping[dim][0]

    def _lost(self, op: Op) -> BatchError:
        rule = "" if is_described(op) else f"; or give {op.kind} a rule with --rule"
        return BatchError(
            f"the batch is lost in {op.name} ({op.kind})\n"
            f"  at:  {op.scope or 'the top of the model'}\n"
            "  fix: export the model with the batch wanted, or with a dynamic batch and --bind"
            f"{rule}"
        )

    def _join(self, op: Op, rule: ShardingRule, index: int, factor: int) -> None:
        """An operand without the batch beside one with it: broadcast if it may, else it gets the
        batch too.
        """
        name = op.inputs[index]
        dim = _place(rule.operands[index], factor)
        if dim is None or self._stretches(op, name, dim):
            return
        learnt: dict[str, int] = {}
        if self._require(name, dim, learnt):
            self.where.update(learnt)
        elif self.graph.tensors[name].dims[dim] == 1:
            self.stretched.setdefault(op.name, {})[name] = dim
        else:
            raise self._lost(op)

    def _stretches(self, op: Op, name: str, dim: int) -> bool:
        return self.graph.tensors[name].dims[dim] == 1 and lookup(op.kind).broadcasts

    def _require(self, name: str, dim: int, learnt: dict[str, int]) -> bool:
        """Whether a tensor that follows from constants can have the batch from its origin on.

        Args:
            name: the tensor.
            dim: its dimension that has to hold the batch.
            learnt: the tensors that get the batch then, and where.
        """
        if name in self.where or name in learnt:
            return self.where.get(name, learnt.get(name)) == dim
        learnt[name] = dim
        tensor = self.graph.tensors[name]
        if tensor.role is Role.CONSTANT:
            return tensor.dims[dim] != 1 or len(self.readers[name]) == 1
        maker = self.makers.get(name)
        if maker is None:
            return False
        rule = self._rule(maker)
        mapping = rule.results[maker.outputs.index(name)]
        if not mapping or not mapping[dim] or mapping[dim][0] in rule.locked:
            return False
        factor = mapping[dim][0]
        for operand, operand_map in zip(maker.inputs, rule.operands, strict=True):
            place = _place(operand_map, factor)
            if place is None or self._stretches(maker, operand, place):
                continue
            if not self._require(operand, place, learnt):
                return False
        return True

    def scaled(self, batch: int) -> OpGraph:
        tensors = dict(self.graph.tensors)
        for name, dim in self.where.items():
            tensor = tensors[name]
            dims = list(tensor.dims)
            if dims[dim] * batch % self.old:
                raise BatchError(
                    f"dimension {dim} of {name!r} is {dims[dim]}, "
                    f"no multiple of the batch {self.old}"
                )
            dims[dim] = dims[dim] * batch // self.old
            tensors[name] = replace(tensor, dims=tuple(dims))
        ops = list(self._stretched_ops(tensors, batch))
        if not any(n in self.where for n in self.graph.outputs):
            raise BatchError(
                "no output depends on the batch\n  at:  the outputs of the model\n"
                "  fix: export the model with the batch wanted"
            )
        return replace(self.graph, tensors=tensors, ops=tuple(ops), batch=batch)

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
            out.append(replace(op, inputs=tuple(inputs)))
        return out


def batch_dims(graph: OpGraph) -> Mapping[str, int]:
    """Dimension that holds the batch, for every tensor that depends on an input.

    Raises:
        BatchError: an operator loses the batch; the message names it.
    """
    old = find_batch(graph)
    if old == 0:
        raise BatchError("the model has no input with a dimension 0 to take the batch from")
    follower = _Follower(graph, old)
    follower.run()
    return follower.where
