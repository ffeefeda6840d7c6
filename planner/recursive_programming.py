"""What MindSpore's search `recursive_programming` chooses, as pins: to compare with, or to repeat.

It halves the machine again and again. In each round every product, producers before consumers, is
cut in two along its rows, its columns or what is summed, whichever costs least: the elements of
what the cut does not divide, and 16 times those of a tensor that its neighbour has just cut
otherwise. Everything else takes the cuts of its neighbours; what is left is split by batch.

MindSpore counts elements: no bandwidth, no memory, no gradients but by a weight on rows.
Source: MindSpore 2.7.0, `auto_parallel/rec_core` (`rec_cost.cc`, `rec_partition.cc`,
`rec_generate_strategy.cc`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporters.mindspore_import import batch_pins
from ir.graph import Op, OpGraph
from ir.ops import Engine, OpView, lookup
from ir.rule import FactorMap, ShardingRule
from planner.request import Cuts, RequestError, SearchRequest

NAME = "recursive_programming"
ROWS_WEIGHT = 0.1
"""MindSpore's `rp_matmul_mem_coef`: cut rows mean a gradient that is reduced."""
REDISTRIBUTED = 16.0
"""For each element of a tensor that two products cut otherwise in one round."""
ROWS_SHARE = 1 / 16
"""Factor of the cost of rows: between 1 / 25.6 and 1 / 12.8 by what MindSpore 2.10.0 chooses for a
product of (8, 320, 4096) on 8 devices, while 2.7.0 has 1.
"""
ROWS, COLUMNS, SUMMED = "rows", "columns", "summed"
_PRODUCT = 2
"""Dims of the operands that are looked at; more rows count as one."""


def with_recursive_pins(request: SearchRequest, graph: OpGraph, devices: int) -> SearchRequest:
    """A request that asks for this search, with what it chooses as pins; any other as it is.

    Raises:
        RequestError: the devices are no power of two, or the target is not MindSpore.
    """
    if request.solver != NAME:
        return request
    if request.target != "mindspore":
        raise RequestError(
            f"{NAME} is a search of MindSpore's\n"
            f"  at:  --solver {NAME}\n  fix: leave it out, or use --target mindspore"
        )
    found = recursive_pins(graph, devices, dict(request.pins))
    return replace(request, solver="portfolio", pins=tuple(found.items()))


def recursive_pins(
    graph: OpGraph,
    devices: int,
    given: Mapping[str, Cuts] | None = None,
    rows_weight: float = ROWS_WEIGHT,
) -> dict[str, Cuts]:
    """Cuts of every operator that takes a strategy.

    Args:
        graph: as it is planned.
        devices: a power of two.
        given: strategies of the user, which MindSpore passes over unless MS_INTERFERED_SAPP is set.
        rows_weight: `rp_matmul_mem_coef`.

    Raises:
        RequestError: the devices are no power of two.
    """
    if devices & (devices - 1):
        raise RequestError(
            f"recursive programming halves the devices, and there are {devices}\n"
            f"  at:  --solver {NAME}\n  fix: take a power of two, or leave --solver out"
        )
    found: dict[str, Cuts] = dict(given or {})
    products = _products(graph)
    for product in products.values():
        product.take(found.get(product.op.name), devices)
    for number in range(devices.bit_length() - 1):
        for product in products.values():
            product.halve(number, products, rows_weight)
    found |= {n: p.cuts for n, p in products.items() if n not in found}
    _Following(graph, found).run(devices)
    found |= {n: c for n, c in _lookups(graph, devices) if n not in found}
    return {**batch_pins(graph, devices, found), **found}


@dataclass(slots=True)
class _Product:
    """One product of matrices and what of it is cut so far."""

    op: Op
    view: OpView
    sizes: dict[str, int]
    """What is left of each dimension."""
    maker: str = ""
    """The product that makes the first operand, with its dims."""
    halved: list[str] = field(default_factory=list)
    """What each round halved; empty if nothing."""
    is_given: bool = False

    def take(self, cuts: Cuts | None, devices: int) -> None:
        """Follow the user's strategy, one halving a round."""
        if cuts is None:
            return
        self.is_given = True
        first, second = cuts[0], cuts[1]
        columns = second[0] if self.view.int("trans_b") else second[-1]
        counts = {ROWS: math.prod(first[:-1]), COLUMNS: columns, SUMMED: first[-1]}
        for part, count in counts.items():
            self.halved += [part] * (count.bit_length() - 1)
        self.halved += [""] * (devices.bit_length() - 1 - len(self.halved))

    def halve(self, number: int, products: Mapping[str, _Product], weight: float) -> None:
        """Choose what one round halves."""
        if self.is_given:
            return
        rows, columns, summed = (self.sizes[part] for part in (ROWS, COLUMNS, SUMMED))
        cost = {
            ROWS: columns * summed / 2 * weight * ROWS_SHARE,
            COLUMNS: rows * summed / 2,
            SUMMED: rows * columns / 2,
        }
        maker = products.get(self.maker)
        made = maker.halved[number] if maker is not None else None
        for part in cost:
            wanted = {ROWS: ROWS, COLUMNS: "", SUMMED: COLUMNS}[part]
            has = made if made in {ROWS, COLUMNS} else ""
            if made is not None and has != wanted:
                cost[part] += REDISTRIBUTED * rows * summed
        barred = {COLUMNS: SUMMED, SUMMED: COLUMNS}
        open_parts = [
            part
            for part in cost
            if self.sizes[part] % 2 == 0 and barred.get(part) not in self.halved
        ]
        best = min(open_parts, key=lambda part: cost[part], default="")
        self.halved.append(best)
        if best:
            self.sizes[best] //= 2

    @property
    def cuts(self) -> Cuts:
        """The strategy of both operands."""
        rows, columns, summed = (2 ** self.halved.count(part) for part in (ROWS, COLUMNS, SUMMED))
        *leading, _ = self.view.dims(0)
        first = []
        for size in leading:
            first.append(math.gcd(size, rows))
            rows //= first[-1]
        second = (columns, summed) if self.view.int("trans_b") else (summed, columns)
        return ((*first, summed), second)


def _products(graph: OpGraph) -> dict[str, _Product]:
    out: dict[str, _Product] = {}
    makers = {name: op for op in graph.ops for name in op.outputs}
    for op in graph.ops:
        view = OpView(op, graph)
        if op.kind != "MatMul" or len(view.dims(1)) != _PRODUCT or view.int("trans_a"):
            continue
        *rows, summed = view.dims(0)
        columns = view.dims(1)[0 if view.int("trans_b") else 1]
        sizes = {ROWS: math.prod(rows), COLUMNS: columns, SUMMED: summed}
        out[op.name] = _Product(op, view, sizes, _maker(graph, op.inputs[0], makers))
    return out


def _maker(graph: OpGraph, name: str, makers: Mapping[str, Op]) -> str:
    """The product behind a tensor, through operators that keep its dims."""
    dims = graph.tensors[name].dims
    while name in makers:
        op = makers[name]
        if op.kind == "MatMul":
            return op.name
        if not op.inputs or not op.inputs[0] or graph.tensors[op.inputs[0]].dims != dims:
            return ""
        name = op.inputs[0]
    return ""


class _Following:
    """Operators take the cuts of those that make their operands, or else of those that read their
    result; at first only cuts over all devices, then over half of them.
    """

    def __init__(self, graph: OpGraph, found: dict[str, Cuts]) -> None:
        self.found = found
        self.views = {op.name: OpView(op, graph) for op in graph.ops}
        self.rules = {op.name: lookup(op.kind).rule(self.views[op.name]) for op in graph.ops}
        self.beside = _neighbours(graph)
        self.open = [op for op in graph.ops if op.outputs and op.name not in found]
        self.open = [op for op in self.open if lookup(op.kind).engine is not Engine.VIEW]

    def run(self, devices: int) -> None:
        """Decide what can be decided so."""
        least = devices
        while least > 1:
            left = [op for op in self.open if not self._decided(op, least)]
            least = least // 2 if len(left) == len(self.open) else least
            self.open = left

    def _decided(self, op: Op, least: int) -> bool:
        rule = self.rules[op.name]
        for other in self.beside[op.name]:
            if other.name not in self.found:
                continue
            theirs = self._factor_counts(other)
            if math.prod(theirs.values()) < least:
                continue
            for mapping, cuts in self._shared(op, other, theirs):
                counts = _counts(rule, mapping, cuts)
                if math.prod(counts.values()) == math.prod(cuts):  # else a cut is not possible
                    self.found[op.name] = _cuts(self.views[op.name], rule, counts)
                    return True
        return False

    def _factor_counts(self, op: Op) -> dict[int, int]:
        rule, counts = self.rules[op.name], dict[int, int]()
        present = (mapping for mapping in rule.operands if mapping is not None)
        for mapping, own in zip(present, self.found[op.name], strict=False):
            counts |= _counts(rule, mapping, own)
        return counts

    def _shared(
        self, op: Op, other: Op, counts: Mapping[int, int]
    ) -> Iterator[tuple[FactorMap, Sequence[int]]]:
        """How an operator with a strategy cuts a tensor that both have."""
        mine, theirs = (
            dict(zip((*o.inputs, *o.outputs), (*r.operands, *r.results), strict=True))
            for o, r in ((op, self.rules[op.name]), (other, self.rules[other.name]))
        )
        names = [name for name in other.outputs if name in op.inputs]
        names = names or [name for name in op.outputs if name in other.inputs]
        for name in names:
            own, target = theirs[name], mine[name]
            if own is not None and target is not None:
                yield target, [math.prod(counts.get(f, 1) for f in dim) for dim in own]


def _neighbours(graph: OpGraph) -> dict[str, list[Op]]:
    """For every operator those that make its operands, then those that read its results."""
    makers = {name: op for op in graph.ops for name in op.outputs}
    out: dict[str, list[Op]] = {
        op.name: [makers[n] for n in op.inputs if n in makers] for op in graph.ops
    }
    for op in graph.ops:
        for name in op.inputs:
            if name in makers:
                out[makers[name].name].append(op)
    return out


def _counts(rule: ShardingRule, mapping: FactorMap, cuts: Sequence[int]) -> dict[int, int]:
    """Pieces of each factor; one that stays whole, or does not divide, is not cut."""
    kept = rule.locked | rule.uncut
    return {
        dim[0]: cut
        for dim, cut in zip(mapping, cuts, strict=True)
        if dim and dim[0] not in kept and rule.sizes[dim[0]] % cut == 0
    }


def _cuts(view: OpView, rule: ShardingRule, counts: Mapping[int, int]) -> Cuts:
    return tuple(
        (1,) * len(tensor.dims)
        if mapping is None
        else tuple(math.prod(counts.get(f, 1) for f in dim) for dim in mapping)
        for tensor, mapping in zip(view.inputs, rule.operands, strict=True)
        if tensor is not None
    )


def _lookups(graph: OpGraph, devices: int) -> Iterator[tuple[str, Cuts]]:
    """The first dimension of the indices as far as it goes, the rows of the table for the rest."""
    for op in graph.ops:
        view = OpView(op, graph)
        if op.kind == "Gather" and view.int("axis") == 0:
            table, indices = view.dims(0), view.dims(1)
            own = math.gcd(indices[0], devices) if indices else 1
            rows = math.gcd(table[0], devices // own)
            yield op.name, ((rows, *(1,) * (len(table) - 1)), (own, *(1,) * (len(indices) - 1)))
