"""Decomposed attention becomes one `Attention` operator that keeps its parts.

Pattern: MatMul, then scaling and masking, Softmax, an optional guard against rows that are masked
altogether, MatMul. The transpose of the keys, and the repetition of key heads for grouped queries,
are part of the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ir.graph import Op, OpGraph, Role
from ir.ops import lookup
from ir.ops.contraction import matmul_rule
from ir.ops.elementwise import ARITHMETIC, COPIES, TESTS
from ir.ops.shape import CARRIERS, transpose_rule

_SCORE_KINDS = {*ARITHMETIC, "Where", "Max"}


@dataclass(slots=True)
class _Match:
    parts: list[Op] = field(default_factory=list)
    query: str = ""
    keys: str = ""
    values: str = ""
    mask: str = ""
    result: str = ""


class _Matcher:
    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.makers = graph.producers()
        self.readers = graph.consumers()

    def match(self, softmax: Op) -> _Match | None:
        dims = self.graph.tensors[softmax.outputs[0]].dims
        if len(dims) != 4 or softmax.attributes.get("axis") != 3:
            return None
        found = _Match(parts=[softmax])
        product = self._down(softmax.outputs[0], found)
        scores = self._up(softmax.inputs[0], dims, found)
        if product is None or scores is None:
            return None
        found.result, found.query = product.outputs[0], scores.inputs[0]
        found.parts += [product, scores]
        keys = self._keys(scores.inputs[1], dims)
        values = self.repeated(product.inputs[1], dims)
        return self._joined(found, keys, values)

    def _sole_reader(self, name: str) -> Op | None:
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.graph.outputs else None

    def _down(self, name: str, found: _Match) -> Op | None:
        """From the probabilities to the product with the values."""
        for _ in range(6):
            readers = self.readers.get(name, [])
            guard = next((r for r in readers if r.kind == "Where" and r.inputs[2] == name), None)
            if (
                guard is not None
                and {r.kind for r in readers} <= {*TESTS, "Where"}
                and name not in self.graph.outputs
            ):
                found.parts += readers
                name = guard.outputs[0]
                continue
            reader = self._sole_reader(name)
            if reader is None:
                return None
            if (
                _is_product(reader)
                and reader.inputs[0] == name
                and not reader.attributes.get("trans_b")
            ):
                return reader
            if reader.kind not in {*COPIES, "Dropout"}:
                return None
            found.parts.append(reader)
            name = reader.outputs[0]
        return None

    def _up(self, name: str, dims: tuple[int, ...], found: _Match) -> Op | None:
        """From the masked scores to the product of queries and keys."""
        for _ in range(8):
            maker = self.makers.get(name)
            if maker is None or self._sole_reader(name) is None:
                return None
            if _is_product(maker):
                return None if maker.attributes.get("trans_a") else maker
            name = self._score_operand(maker, dims, found)
            if not name:
                return None
            found.parts.append(maker)
        return None

    def _score_operand(self, op: Op, dims: tuple[int, ...], found: _Match) -> str:
        if op.kind in COPIES:
            return op.inputs[0]
        if op.kind not in _SCORE_KINDS:
            return ""
        scores = [n for n in op.inputs if self.graph.tensors[n].dims == dims and n in self.makers]
        if len(scores) > 1:  # a bias as large as the scores, as at batch 1
            scores = [n for n in scores if self._is_product(n)]
        if len(scores) != 1:
            return ""
        for other in op.inputs:
            if other != scores[0] and self.graph.tensors[other].elements > 1:
                if found.mask:
                    return ""
                found.mask = other
        return scores[0]

    def _is_product(self, name: str) -> bool:
        """Whether a tensor is a product of two computed ones, but for scales, masks and casts."""
        maker = self.makers.get(name)
        while maker is not None and self._sole_reader(name) is not None:
            if _is_product(maker):
                return all(operand in self.makers for operand in maker.inputs)
            if maker.kind not in {*COPIES, *_SCORE_KINDS}:
                return False
            name = maker.inputs[0]
            maker = self.makers.get(name)
        return False

    def _keys(self, name: str, dims: tuple[int, ...]) -> dict[int, tuple[str, list[Op]]]:
        """Tensors that hold the keys as batch, heads, rows, width: by number of heads, with the
        operators on the way.
        """
        found: dict[int, tuple[str, list[Op]]] = {}
        passed: list[Op] = []
        swapped = False
        while (maker := self.makers.get(name)) is not None and self._sole_reader(name) is not None:
            if _swaps_last_two(maker) and not swapped:
                swapped = True
            elif maker.kind in {"Mul", "Div"}:
                if self._scaled_operand(maker) is None:
                    break
            elif maker.kind not in CARRIERS:
                break
            passed.append(maker)
            name = self._scaled_operand(maker) or maker.inputs[0]
            self._record(name, dims, passed if swapped else [], found)
        return found

    def repeated(self, name: str, dims: tuple[int, ...]) -> dict[int, tuple[str, list[Op]]]:
        """Tensors that hold rows of keys or values before their heads were repeated, by number of
        heads.
        """
        found: dict[int, tuple[str, list[Op]]] = {}
        passed: list[Op] = []
        own = self.graph.tensors[name].dims
        if len(own) == 4 and own[0] == dims[0] and own[1] == dims[1] and own[2] == dims[3]:
            found[own[1]] = (name, [])
        while (maker := self.makers.get(name)) is not None and self._sole_reader(name) is not None:
            if maker.kind not in {"Reshape", "Unsqueeze", "Expand", "Identity"}:
                break
            passed.append(maker)
            name = maker.inputs[0]
            self._record(name, dims, passed, found)
        return found

    def _record(
        self,
        name: str,
        dims: tuple[int, ...],
        passed: list[Op],
        found: dict[int, tuple[str, list[Op]]],
    ) -> None:
        own = self.graph.tensors[name].dims
        if (
            passed
            and len(own) == 4
            and own[0] == dims[0]
            and own[2] == dims[3]
            and dims[1] % own[1] == 0
        ):
            found[own[1]] = (name, list(passed))

    def _scaled_operand(self, op: Op) -> str | None:
        """Operand of a multiplication by one number."""
        if op.kind not in {"Mul", "Div"}:
            return None
        rest = [
            n
            for n in op.inputs
            if not (
                self.graph.tensors[n].role is Role.CONSTANT and self.graph.tensors[n].elements == 1
            )
        ]
        return rest[0] if len(rest) == 1 else None

    def _joined(
        self,
        found: _Match,
        keys: dict[int, tuple[str, list[Op]]],
        values: dict[int, tuple[str, list[Op]]],
    ) -> _Match | None:
        heads = sorted(set(keys) & set(values))
        query = self.graph.tensors[found.query].dims
        if not heads or len(query) != 4:
            return None
        found.keys, key_ops = keys[heads[0]]
        found.values, value_ops = values[heads[0]]
        if self.graph.tensors[found.keys].dims[3] != query[3]:
            return None
        found.parts += [*key_ops, *value_ops]
        return found


def _is_product(op: Op) -> bool:
    return lookup(op.kind).rule is matmul_rule


def _swaps_last_two(op: Op) -> bool:
    perm = op.attributes.get("perm")
    if lookup(op.kind).rule is not transpose_rule or not isinstance(perm, tuple):
        return False
    rank = len(perm)
    return perm == (*range(rank - 2), rank - 1, rank - 2)


def _absorb_repeated_heads(
    op: Op, matcher: _Matcher, position: dict[str, int], replaced: dict[str, Op], gone: set[str]
) -> None:
    """Let an attention operator read the key heads themselves where they were repeated for grouped
    queries.
    """
    query, key = (matcher.graph.tensors[n].dims for n in op.inputs[:2])
    if len(query) != 4 or len(key) != 4:
        return
    scores = (query[0], query[1], query[2], key[2])
    keys, values = matcher.repeated(op.inputs[1], scores), matcher.repeated(op.inputs[2], scores)
    heads = min(set(keys) & set(values), default=query[1])
    if heads == query[1]:
        return
    views = [*keys[heads][1], *values[heads][1]]
    parts = tuple(sorted([*views, op], key=lambda p: position[p.name]))
    inputs = (op.inputs[0], keys[heads][0], values[heads][0], *op.inputs[3:])
    replaced[op.name] = Op(op.name, op.kind, inputs, op.outputs, op.attributes, op.scope, parts)
    gone.update(v.name for v in views)


def recognise_attention(graph: OpGraph) -> OpGraph:
    """The graph with every decomposed attention as one operator."""
    matcher = _Matcher(graph)
    position = {op.name: i for i, op in enumerate(graph.ops)}
    replaced: dict[str, Op] = {}
    gone: set[str] = set()
    for op in graph.ops:
        if op.kind == "Attention":
            _absorb_repeated_heads(op, matcher, position, replaced, gone)
        match = matcher.match(op) if op.kind == "Softmax" else None
        if match is None:
            continue
        parts = tuple(
            sorted({p.name: p for p in match.parts}.values(), key=lambda p: position[p.name])
        )
        inputs = (match.query, match.keys, match.values, *([match.mask] if match.mask else []))
        last = next(p for p in parts if match.result in p.outputs)
        attention = Op(
            f"{op.name}/attention",
            "Attention",
            inputs,
            (match.result,),
            {},
            op.scope or last.scope,
            parts,
        )
        replaced[last.name] = attention
        gone.update(p.name for p in parts)
    ops = [
        replaced.get(op.name, op) for op in graph.ops if op.name in replaced or op.name not in gone
    ]
    return graph.with_ops(ops)
