"""What MindSpore's search `recursive_programming` chooses, as pins: to compare with, or to repeat.

It halves the machine again and again (`partition`); what is not searched takes the cuts of its
neighbours, at first only cuts over all devices, then over half of them, and so on: from what makes
an operand as long as that decides an operator, else from what reads the result. The order of those
that are left turns around with every pass. MindSpore counts elements: no bandwidth, no
memory, no gradients but by a weight on rows.
Source: MindSpore 2.7.0, `rec_core/rec_generate_strategy.cc`, GenerateStrategyV3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ir.graph import OpGraph
from ir.mindspore_forms.readers import NEVER_CUT
from ir.mindspore_forms.strategies import batch_pins, cuts_of
from ir.ops import OpView, lookup
from ir.rule import FactorMap, ShardingRule
from planner.mindspore_searches.network import DATASET, RANK, Dims, Node, Role, network, role_of
from planner.mindspore_searches.partition import (
    MOST_BY_ORDER,
    ROWS_WEIGHT,
    Piece,
    oriented,
    partition,
)
from planner.mindspore_searches.shapes import (
    Strategy,
    all_whole,
    operand_cuts,
    repeated,
    result_cuts,
    strategy_of,
    valid,
)
from planner.request import Cuts, RequestError
from planner.solvers import RECURSIVE

__all__ = ["ROWS_WEIGHT", "recursive_pins"]


def recursive_pins(
    graph: OpGraph,
    devices: int,
    given: Mapping[str, Cuts] | None = None,
    rows_weight: float = ROWS_WEIGHT,
    *,
    training: bool = True,
    full_batch: bool = True,
) -> dict[str, Cuts]:
    """Cuts of every operator that takes a strategy.

    Args:
        graph: as it is planned.
        devices: a power of two.
        given: strategies of the user, which MindSpore passes over unless MS_INTERFERED_SAPP is set.
        rows_weight: `rp_matmul_mem_coef`.
        training: else as MindSpore predicts.
        full_batch: every device has the whole inputs, else its share of the batch.

    Raises:
        RequestError: the devices are no power of two.
    """
    if devices & (devices - 1):
        raise RequestError(
            f"recursive programming halves the devices, and there are {devices}\n"
            f"  at:  --solver {RECURSIVE}\n  fix: take a power of two, or leave --solver out"
        )
    found: dict[str, Cuts] = dict(given or {})
    views = {op.name: OpView(op, graph) for op in graph.ops}
    rules = {name: lookup(view.op.kind).rule(view) for name, view in views.items()}
    nodes = network(graph, training=training)
    asked = {
        number: _of_primitive(node, _counts(rules[node.owner], rules[node.owner].operands, cuts))
        for number, node in enumerate(nodes)
        for cuts in [found.get(node.owner)]
        if cuts is not None
    }
    pieces = partition(nodes, devices, asked, rows_weight)
    chosen = strategies(nodes, pieces, devices, training=training, full_batch=full_batch)
    counts: dict[str, dict[int, int]] = {}
    for number, node in reversed(list(enumerate(nodes))):
        if node.form is not None and views[node.owner].op.kind not in NEVER_CUT:
            own = _counts(rules[node.owner], node.form.inputs, chosen[number])
            counts[node.owner] = own | counts.get(node.owner, {})
    pins = {name: cuts_of(views[name], own) for name, own in counts.items()}
    return {**batch_pins(graph, devices, {**pins, **found}), **pins, **found}


def _counts(
    rule: ShardingRule, operands: Sequence[FactorMap | None], strategy: Strategy
) -> dict[int, int]:
    """Pieces of each factor; one that stays whole here, or does not divide, is not cut. Factors
    that only the inside of a composite has come after those of the rule.
    """
    kept = rule.locked | rule.uncut
    out: dict[int, int] = {}
    present = (mapping for mapping in operands if mapping is not None)
    for mapping, cuts in zip(present, strategy, strict=False):
        for dim, cut in zip(mapping, cuts, strict=False):
            rest = cut
            for factor in (f for f in dim if f < len(rule.sizes)):
                pieces = 1 if factor in kept else math.gcd(rest, rule.sizes[factor])
                rest //= pieces
                out[factor] = max(pieces, out.get(factor, 1))
    return out


def _of_primitive(node: Node, counts: Mapping[int, int]) -> Strategy:
    inputs = node.form.inputs if node.form is not None else ()
    return tuple(tuple(math.prod(counts.get(f, 1) for f in dim) for dim in own) for own in inputs)


_NOT_PASSED_ON = frozenset({"Gather", "Assign", "ExpandDims"})
"""What nobody takes cuts from."""


def strategies(
    nodes: Sequence[Node],
    pieces: Mapping[int, Piece],
    devices: int,
    *,
    training: bool = True,
    full_batch: bool = True,
) -> dict[int, Strategy]:
    """The strategy of every primitive, by number.

    Args:
        nodes: of the network.
        pieces: what the rounds have left of those that are searched.
        devices: a power of two.
        training: else as MindSpore predicts.
        full_batch: every device has the whole inputs, else its share of the batch.
    """
    work = _Following(nodes, devices)
    for number, piece in pieces.items():
        work.results[number] = _result(piece, devices)
        work.found[number] = _searched(nodes[number], piece)
        if nodes[number].kind == DATASET:
            own = (1 if full_batch else devices,)
            work.found[number] = tuple((own + (1,) * len(d))[: len(d)] for d in nodes[number].dims)
    if training:
        work.repeat()
        work.follow()
    else:
        work.predict()
    return {number: valid(nodes[number], found) for number, found in work.found.items()}


def _searched(node: Node, piece: Piece) -> Strategy:
    cuts = [*map(tuple, piece.cuts), *[(1,) * RANK] * len(node.dims)]
    own = zip(node.dims, cuts, strict=False)
    return oriented(
        node, [cut[RANK - len(d) :] if len(d) <= RANK else (1,) * len(d) for d, cut in own]
    )


def _result(piece: Piece, devices: int) -> Dims:
    """Cuts of the result; on more than 32 devices a product that sums pieces scatters the sums."""
    cuts = list(piece.result_cuts)
    if piece.role is Role.PRODUCT and devices > MOST_BY_ORDER:
        most = min(math.prod(piece.cuts[0][-2:]), devices)
        cuts[-2] *= max(most // math.prod(cuts[-2:]), 1)
    return tuple(cuts)


@dataclass(slots=True)
class _Following:
    nodes: Sequence[Node]
    devices: int
    found: dict[int, Strategy] = field(default_factory=dict)
    results: dict[int, Dims] = field(default_factory=dict)
    """Padded cuts of what the searched ones make."""
    left: list[int] = field(default_factory=list)
    """Those without a strategy, by number; passes begin at the end."""
    readers: list[list[tuple[int, int]]] = field(default_factory=list)
    """For every primitive those that read its result, and which operand that is."""

    def __post_init__(self) -> None:
        self.readers = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for at, maker in enumerate(node.makers):
                if maker >= 0:
                    self.readers[maker].append((number, at))

    def repeat(self) -> None:
        """Decide operators without a parallel form."""
        for number, node in enumerate(self.nodes):
            if role_of(node) is Role.REPEATED:
                self.found[number] = repeated(node, self.devices)

    def follow(self) -> None:
        """Decide the others in training."""
        self.left = [n for n in range(len(self.nodes)) if n not in self.found]
        least = self.devices
        while least > 1:
            while self._pass(self._from_makers, least) or self._pass(self._from_readers, least):
                pass
            least //= 2
        self._take_what_is_left()
        self._share_tables()

    def predict(self) -> None:
        """Decide the others when predicting."""
        self.left = [n for n in reversed(range(len(self.nodes))) if n not in self.found]
        self._pass(self._from_makers, 1)
        self._pass(self._from_readers, 1)
        self._take_what_is_left()

    def _take_what_is_left(self) -> None:
        count = -1
        while count != len(self.left):
            count = len(self.left)
            self._pass(self._from_makers, 1)
            self._pass(self._from_readers, 1)
        for number in self.left:
            node = self.nodes[number]
            self.found[number] = strategy_of(node, all_whole(node), self.devices)

    def _pass(self, source: Callable[[int], Dims], least: int) -> bool:
        """Whether some operator was decided."""
        before, self.left = self.left, []
        for number in reversed(before):
            cuts = source(number)
            if cuts and math.prod(cuts) >= least:
                self.found[number] = strategy_of(self.nodes[number], cuts, self.devices)
            else:
                self.left.append(number)
        return len(self.left) < len(before)

    def _from_makers(self, number: int) -> Dims:
        """Cuts that the first operand that is cut arrives with, else the last one."""
        node, maker = self.nodes[number], -1
        for each in node.makers:
            maker = each if each >= 0 else maker
            if maker >= 0 and any(cut > 1 for own in self.found.get(maker, ()) for cut in own):
                break
        if maker < 0 or self.nodes[maker].kind in _NOT_PASSED_ON | {DATASET}:
            return ()
        if maker in self.results:
            rank = next((len(dims) for dims in node.dims if dims), 0)
            return self.results[maker][RANK - rank :] if rank <= RANK else ()
        if node.kind in {"OneHot", "Transpose"}:
            return ()
        return result_cuts(self.nodes[maker], self.found.get(maker, ()), self.devices)

    def _from_readers(self, number: int) -> Dims:
        """Cuts of the result where the first reader that is decided has it."""
        for reader, at in self.readers[number]:
            if self.found.get(reader):
                if self.nodes[reader].kind in _NOT_PASSED_ON:
                    return ()
                node, own = self.nodes[number], self.nodes[reader]
                return operand_cuts(node, own, at, self.found[reader], self.devices)
        return ()

    def _share_tables(self) -> None:
        """A lookup in a table that another operator has too is cut as that cuts it."""
        for number, node in enumerate(self.nodes):
            if node.kind == "Gather" and node.reads[0] in node.parameters:
                for other, reader in enumerate(self.nodes):
                    at = {"Cast": 0, "Mul": 0, "MatMul": 1}.get(reader.kind, -1)
                    if 0 <= at < len(reader.reads) and reader.reads[at] == node.reads[0]:
                        table = self.found[other][at]
                        rows = self.devices // math.prod(table)
                        indices = (rows, *(1,) * (len(node.dims[1]) - 1))
                        self.found[number] = (table, indices)
