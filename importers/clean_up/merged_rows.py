"""Products on merged rows become products on the rows as they are.

Tracers write `x: (batch, rows, k)` times a matrix as a reshape to `(batch rows, k)`, a product of
matrices, and a reshape back; products of heads likewise with batch and heads merged. A split of the
rows below the batch would not pass such a merge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from importers.clean_up.moves import live
from ir.graph import Op, OpGraph, Tensor, unused_name
from ir.ops import lookup
from ir.ops.elementwise import pointwise_rule


def with_whole_products(graph: OpGraph) -> OpGraph:
    """The graph with every merge of leading dimensions moved behind the products, and what is
    element-wise after them.
    """
    work = _Work(graph, dict(graph.tensors))
    for op in graph.ops:
        work.visit(op)
    return live(replace(graph, tensors=work.tensors), work.ops)


@dataclass(slots=True)
class _Work:
    graph: OpGraph
    tensors: dict[str, Tensor]
    whole: dict[str, str] = field(default_factory=dict)
    """By a tensor with merged leading dimensions, the one that has them apart."""
    narrow: dict[str, str] = field(default_factory=dict)
    """By a tensor that was stretched along new leading dimensions, the one before."""
    behind: set[str] = field(default_factory=set)
    """Merged tensors that a product makes, or what is element-wise after it."""
    ops: list[Op] = field(default_factory=list)

    def visit(self, op: Op) -> None:
        match op.kind:
            case "Reshape":
                self._reshape(op)
            case "Expand":
                self._expand(op)
            case "MatMul":
                self._product(self._without_stretch(op))
            case _ if lookup(op.kind).rule is pointwise_rule:
                self._pointwise(op)
            case _:
                self.ops.append(op)

    def _reshape(self, op: Op) -> None:
        source, result = op.inputs[0], op.outputs[0]
        before, after = self.tensors[source].dims, self.tensors[result].dims
        if source in self.whole:
            self.ops.append(replace(op, inputs=(self.whole[source],)))
            return
        kept = len(after) - 1
        lead = _merged_lead(before, after)
        if lead and kept == 1:
            source = self._joined(op, (*before[:lead], after[1]))
            self.ops.append(replace(op, inputs=(source,)))
            self.whole[result] = source
            return
        self.ops.append(op)
        if kept > 0 and len(before) > len(after) and before[-kept:] == after[1:]:
            self.whole[result] = source

    def _joined(self, op: Op, dims: tuple[int, ...]) -> str:
        """The operand of a reshape with its trailing dimensions joined alone."""
        source = op.inputs[0]
        name = unused_name(f"{op.outputs[0]}/joined", self.tensors)
        self.tensors[name] = replace(self.tensors[op.outputs[0]], name=name, dims=dims)
        self.ops.append(Op(f"{op.name}/joined", "Reshape", (source,), (name,), {}, op.scope))
        return name

    def _expand(self, op: Op) -> None:
        self.ops.append(op)
        before, after = self.tensors[op.inputs[0]].dims, self.tensors[op.outputs[0]].dims
        if len(before) == 2 and after[-2:] == before:
            self.narrow[op.outputs[0]] = op.inputs[0]

    def _without_stretch(self, op: Op) -> Op:
        """A matrix for all batches need not be repeated for each."""
        left, right = op.inputs
        batch = self.tensors[op.outputs[0]].dims[:-2]
        if right in self.narrow and self.tensors[left].dims[:-2] == batch:
            return replace(op, inputs=(left, self.narrow[right]))
        return op

    def _product(self, op: Op) -> None:
        left, right = op.inputs
        both = [self.whole.get(n, n) for n in (left, right)]
        lead = self._lead(left)
        rank = len(self.tensors[left].dims)
        flipped = op.attributes.get("trans_a") or op.attributes.get("trans_b")
        rows = rank == 2 and len(self.tensors[right].dims) == 2
        heads = rank == 3 and self._lead(right) == lead and len(self.tensors[right].dims) == 3
        if not lead or flipped or not (rows or heads):
            self.ops.append(op)
            return
        self._moved(op, (both[0], right if rows else both[1]), lead)

    def _lead(self, name: str) -> tuple[int, ...]:
        """Leading dimensions that are merged in a tensor; none where they are not."""
        if name not in self.whole:
            return ()
        dims = self.tensors[self.whole[name]].dims
        return dims[: len(dims) - len(self.tensors[name].dims) + 1]

    def _pointwise(self, op: Op) -> None:
        leads = {self._lead(n) for n in op.inputs if n in self.whole}
        result = self.tensors[op.outputs[0]].dims
        fits = all(
            n in self.whole or len(self.tensors[n].dims) < len(result) for n in op.inputs if n
        )
        follows = not self.behind.isdisjoint(op.inputs)
        if follows and len(leads) == 1 and fits and math.prod(next(iter(leads))) == result[0]:
            inputs = tuple(self.whole.get(n, n) for n in op.inputs)
            self._moved(op, inputs, next(iter(leads)))
        else:
            self.ops.append(op)

    def _moved(self, op: Op, inputs: tuple[str, ...], lead: tuple[int, ...]) -> None:
        """The operator on whole operands, and the merge behind it."""
        merged = op.outputs[0]
        tensor = self.tensors[merged]
        name = unused_name(f"{merged}/whole", self.tensors)
        self.tensors[name] = replace(tensor, name=name, dims=(*lead, *tensor.dims[1:]))
        self.whole[merged] = name
        self.behind.add(merged)
        self.ops.append(replace(op, inputs=inputs, outputs=(name,)))
        self.ops.append(Op(f"{op.name}/merged", "Reshape", (name,), (merged,), {}, op.scope))


def _merged_lead(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    """How many leading dimensions become the first of a matrix whose second joins several others,
    as heads and their widths; 0 if they do not.
    """
    if len(after) != 2:
        return 0
    fitting = [i for i in range(2, len(before) - 1) if math.prod(before[:i]) == after[0]]
    return max(fitting, default=0)
