"""Products on rows that MindSpore merged while it compiled.

`nn.Dense` merges the leading dimensions of what it is given, multiplies, and takes them apart.
Where a reshape stands in front, MindSpore makes one of both: `(8, 128, 8, 64)` becomes
`(1024, 512)` at once, and only the reshape behind the product tells that the rows were 8 times 128.
The product is put on rows as they are told there, as the clean-up does where the merge shows.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

from ir.graph import Op, OpGraph, Tensor, unused_name
from ir.ops import lookup
from ir.ops.contraction import matmul_rule
from ir.ops.elementwise import pointwise_rule
from ir.ops.shape import RESHAPES


def _is_product(op: Op) -> bool:
    return lookup(op.kind).rule is matmul_rule


def with_told_rows(graph: OpGraph) -> OpGraph:
    """The graph with products on rows as they are taken apart behind."""
    work = _Work(graph, dict(graph.tensors))
    for op in graph.ops:
        if op.kind in RESHAPES:
            work.visit(op)
    if not work.replaced:
        return graph
    ops = [new for op in graph.ops for new in work.replaced.get(op.name, (op,))]
    return replace(graph, tensors=work.tensors).with_live_ops(ops)


@dataclass(slots=True)
class _Work:
    graph: OpGraph
    tensors: dict[str, Tensor]
    replaced: dict[str, tuple[Op, ...]] = field(default_factory=dict)
    """By the name of an operator, what stands in its place."""
    makers: dict[str, Op] = field(init=False)
    readers: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.makers = {name: op for op in self.graph.ops for name in op.outputs}
        self.readers = Counter(name for op in self.graph.ops for name in op.inputs)
        self.readers.update(self.graph.outputs)

    def visit(self, behind: Op) -> None:
        """Find the product in front of a reshape that takes rows apart."""
        result = self.tensors[behind.outputs[0]].dims
        merged = self.tensors[behind.inputs[0]].dims
        lead = result[:-1]
        if len(merged) != 2 or len(lead) < 2 or result[-1:] != merged[-1:]:
            return
        if math.prod(lead) != merged[0]:
            return
        chain = self._chain(behind.inputs[0])
        if chain:
            self._rewrite(behind, chain, lead)

    def _chain(self, name: str) -> list[Op]:
        """From the merge over the product to what makes a tensor; nothing if it is no such."""
        chain: list[Op] = []
        while (op := self.makers.get(name)) is not None:
            if op.name in self.replaced:
                return []
            chain.insert(0, op)
            if op.kind in RESHAPES:
                products = [_is_product(each) for each in chain]
                return chain if products[1] and sum(products) == 1 else []
            if self.readers[name] != 1 or len(op.outputs) != 1:
                return []
            name = self._rows(op)
        return []

    def _rows(self, op: Op) -> str:
        """The operand that has the rows, none if others have them too."""
        if _is_product(op):
            fits = not op.attributes.get("trans_a") and len(self.tensors[op.inputs[1]].dims) == 2
            return op.inputs[0] if fits else ""
        if lookup(op.kind).rule is not pointwise_rule:
            return ""
        wide = [n for n in op.inputs if n and len(self.tensors[n].dims) > 1]
        return wide[0] if len(wide) == 1 else ""

    def _rewrite(self, behind: Op, chain: list[Op], lead: tuple[int, ...]) -> None:
        merge, *rest = chain
        source = merge.inputs[0]
        width = self.tensors[merge.outputs[0]].dims[-1]
        if self.tensors[source].dims[-1] == width:
            return  # the clean-up sees these itself
        apart = self._apart(merge.outputs[0], lead)
        first = replace(merge, name=f"{merge.name}/{rest[0].name}", outputs=(apart,))
        old, new = merge.outputs[0], apart
        for index, op in enumerate(rest):
            last = index == len(rest) - 1
            result = behind.outputs[0] if last else self._apart(op.outputs[0], lead)
            inputs = tuple(new if n == old else n for n in op.inputs)
            changed = replace(op, inputs=inputs, outputs=(result,))
            self.replaced[op.name] = (first, changed) if index == 0 else (changed,)
            old, new = op.outputs[0], result
        self.replaced[behind.name] = ()

    def _apart(self, name: str, lead: tuple[int, ...]) -> str:
        tensor = self.tensors[name]
        fresh = unused_name(f"{name}/apart", self.tensors)
        self.tensors[fresh] = replace(tensor, name=fresh, dims=(*lead, tensor.dims[-1]))
        return fresh
