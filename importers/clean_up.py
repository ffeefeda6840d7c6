"""What tracers leave behind and ONNX's exporters take away: shared by ways in.

Constants are folded, and what nobody reads is gone, before a graph gets here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ir.graph import Op, OpGraph, Tensor, unused_name
from ir.ops import is_known, lookup
from ir.ops.contraction import matmul_rule
from ir.ops.elementwise import pointwise_rule
from ir.ops.random import DRAWN
from ir.ops.reduction import EXTREMES, SOFTMAXES, SUMS
from ir.ops.registry import RuleFunction
from ir.ops.shape import expand_rule, reshape_rule, transpose_rule


def cleaned(graph: OpGraph) -> OpGraph:
    """The graph without what is computed twice or only moved to and fro.

    Products on merged rows are products on the rows as they are; a traced training step keeps its
    own, for the gradients of weights are sums over merged rows.
    """
    graph = without_duplicates(_with_single_moves(graph))
    if graph.is_training_step:
        return graph
    return _with_plain_guards(_with_single_moves(_with_whole_products(graph)))


def _with_whole_products(graph: OpGraph) -> OpGraph:
    """The graph with every merge of leading dimensions moved behind the products, and what is
    element-wise after them.

    Tracers write `x: (batch, rows, k)` times a matrix as a reshape to `(batch rows, k)`, a product
    of matrices, and a reshape back; products of heads likewise with batch and heads merged. A split
    of the rows below the batch would not pass such a merge.
    """
    work = _WholeProducts(graph, dict(graph.tensors))
    for op in graph.ops:
        work.visit(op)
    return replace(graph, tensors=work.tensors).with_live_ops(work.ops)


@dataclass(slots=True)
class _WholeProducts:
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
        rule = lookup(op.kind).rule
        if rule is reshape_rule:
            self._reshape(op)
        elif rule is expand_rule:
            self._expand(op)
        elif rule is matmul_rule:
            self._product(self._without_stretch(op))
        elif rule is pointwise_rule:
            self._pointwise(op)
        else:
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
        name = unused_name(f"{op.outputs[0]}/joined", self.tensors)
        self.tensors[name] = replace(self.tensors[op.outputs[0]], name=name, dims=dims)
        self.ops.append(replace(op, name=f"{op.name}/joined", outputs=(name,)))
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


def without_duplicates(graph: OpGraph) -> OpGraph:
    """The graph with equal operators merged.

    What joins a fused kernel stays apart: each kernel computes it again at less cost than one
    writes it for all.
    """
    first: dict[tuple[object, ...], Op] = {}
    alias: dict[str, str] = {}
    kept: list[Op] = []
    for original in graph.ops:
        op = replace(original, inputs=tuple(alias.get(n, n) for n in original.inputs))
        twin = first.setdefault(_signature(op, graph), op) if _may_merge(op, graph) else op
        if twin is op:
            kept.append(op)
        else:
            alias.update(zip(op.outputs, twin.outputs, strict=True))
    return graph.with_ops(kept)


def _may_merge(op: Op, graph: OpGraph) -> bool:
    if not is_known(op.kind) or op.kind in DRAWN or op.parts:
        return False
    return not lookup(op.kind).fusible and not any(n in graph.outputs for n in op.outputs)


def _signature(op: Op, graph: OpGraph) -> tuple[object, ...]:
    results = tuple((graph.tensors[n].dims, graph.tensors[n].dtype) for n in op.outputs if n)
    return op.kind, op.inputs, tuple(sorted(op.attributes.items())), results


_ASKING = frozenset({"Cast", "Equal", "Greater", "Not", *EXTREMES, *SUMS})


def _with_plain_guards(graph: OpGraph) -> OpGraph:
    """The graph with guards of softmax against rows that are masked altogether in the form that
    exporters write.

    PyTorch asks the scores whether a row has any number that is not minus infinity; exporters of
    ONNX ask the probabilities whether they are no numbers. Both are true for the same rows.
    """
    makers = graph.producers()
    tensors = dict(graph.tensors)
    ops: list[Op] = []
    for op in graph.ops:
        softmax = _guarded(op, makers)
        if softmax is None:
            ops.append(op)
            continue
        chance = softmax.outputs[0]
        asked = unused_name(f"{chance}/nan", tensors)
        tensors[asked] = Tensor(asked, tensors[chance].dims, "bool")
        ops.append(Op(f"{op.name}/nan", "IsNaN", (chance,), (asked,), {}, op.scope))
        ops.append(replace(op, inputs=(asked, *op.inputs[1:])))
    return replace(graph, tensors=tensors).with_live_ops(ops)


def _guarded(op: Op, makers: Mapping[str, Op]) -> Op | None:
    """The softmax that an operator guards: its condition follows from the scores alone."""
    softmax = makers.get(op.inputs[2]) if op.kind == "Where" else None
    if softmax is None or softmax.kind not in SOFTMAXES:
        return None
    name = op.inputs[0]
    for _ in range(8):
        maker = makers.get(name)
        if maker is None or maker.kind not in _ASKING:
            return None
        if softmax.inputs[0] in maker.inputs and maker.kind == "Equal":
            return softmax
        name = maker.inputs[0]
    return None


def _with_single_moves(graph: OpGraph) -> OpGraph:
    """The graph with transposes of transposes and reshapes of reshapes joined, and without those
    that change nothing.
    """
    makers: dict[str, Op] = {}
    alias: dict[str, str] = {}
    kept: list[Op] = []
    for original in graph.ops:
        op = replace(original, inputs=tuple(alias.get(n, n) for n in original.inputs))
        join = _JOIN.get(lookup(op.kind).rule)
        if len(op.outputs) == 1 and join is not None:
            before = makers.get(op.inputs[0])
            if before is not None and before.kind == op.kind:
                op = join(before, op)
            if _changes_nothing(op, graph) and op.outputs[0] not in graph.outputs:
                alias[op.outputs[0]] = op.inputs[0]
                continue
        makers.update(dict.fromkeys(op.outputs, op))
        kept.append(op)
    return graph.with_live_ops(kept)


def _reshaped(before: Op, op: Op) -> Op:
    return replace(op, inputs=before.inputs[:1])


def _transposed(before: Op, op: Op) -> Op:
    """One transpose; a matrix turned for a product stays a turn of its own, which products and
    attention are recognised by.
    """
    first, second = before.attributes.get("perm"), op.attributes.get("perm")
    if not isinstance(first, tuple) or not isinstance(second, tuple):
        return op
    perm = tuple(int(first[int(p)]) for p in second)
    rank = len(perm)
    turned = second == (*range(rank - 2), rank - 1, rank - 2)
    if turned and perm != tuple(range(rank)):
        return op
    return replace(op, inputs=before.inputs, attributes={**op.attributes, "perm": perm})


_JOIN: Mapping[RuleFunction, Callable[[Op, Op], Op]] = MappingProxyType(
    {reshape_rule: _reshaped, transpose_rule: _transposed}
)


def _changes_nothing(op: Op, graph: OpGraph) -> bool:
    source, result = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    perm = op.attributes.get("perm")
    if lookup(op.kind).rule is transpose_rule:
        return isinstance(perm, tuple) and perm == tuple(range(len(perm)))
    return source.dims == result.dims
