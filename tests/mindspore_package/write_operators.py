"""Strategies of single operators, and what the planner says that MindSpore makes of them.

Run by the planner's Python. For each number of devices files of cases: `offered` are drawn from
what the dialect offers, with device matrix, tensor maps and messages; `trained` are the same where
an operand has a gradient; `probed` are others, with the reason why the planner refuses them or
nothing where it takes them. With a number behind the folder, so many
strategies of every primitive are drawn, from all those for 2 to 64 devices, and none is probed.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporters.errors import StrategyFileError
from exporters.mindspore.cuts import device_layout, reader_of_cuts
from ir.dialects import MINDSPORE
from ir.graph import OpGraph
from ir.mindspore_forms.primitives import PrimitiveForm, primitive_form
from ir.mindspore_forms.readers import Reader
from ir.ops import OpView, lookup
from ir.rule import ShardingRule
from planner.candidates.offers import Offers
from tests.mindspore_package.operator_examples import BINARY, UNARY, examples
from tests.mindspore_package.operator_messages import OperatorMessages, can_be_trained
from topology.catalogue import named_cluster
from topology.mesh import Mesh, prime_mesh

Cuts = tuple[tuple[int, ...], ...]
Split = tuple[int, ...]
"""For every mesh axis the factor that it splits; negative repeats."""

SIZES = (8, 16)
SWEPT = (2, 4, 8, 16, 32, 64)
OFFERED = 3
"""Strategies of an operator that are drawn for each number of devices."""
PROBED, PROBED_ALIKE = 5, 1
"""Strategies beyond the dialect that are drawn for each operator, and for one of many alike."""
PECULIAR = frozenset({"GridSample", "ScatterND"})
"""Kinds of which MindSpore takes a few strategies that the dialect does not offer: all cuts of one
factor or two are probed.
"""
PROBED_DEVICES = 8
TRAINED = 10
"""Of many strategies every tenth has gradients too: these take ten times as long to compile."""
CLUSTER = "atlas-800t-a2"
EVERYTHING = replace(MINDSPORE, cut_positions=True)


class Operator:
    """One example, and everything that a case says of it."""

    def __init__(self, number: int, graph: OpGraph) -> None:
        self.number, self.view = number, OpView(graph.ops[0], graph)
        self.rule: ShardingRule = lookup(self.view.op.kind).rule(self.view)
        self.form: PrimitiveForm = primitive_form(self.view, self.rule)
        self.trained = [i for i, able in enumerate(can_be_trained(self.view)) if able]
        """Operands that can have a gradient."""

    def reader(self, split: Sequence[int], sizes: Sequence[int]) -> Reader:
        return Reader(self.view.op, self.form, (), tuple(split), tuple(sizes))

    def splits(self, mesh: Mesh) -> list[Split]:
        """Everything that the dialect offers."""
        entry = lookup(self.view.op.kind)
        found, left_out = Offers(EVERYTHING, mesh).assignments(self.rule, entry, gradient=False)
        assert not left_out
        return found

    def messages(self, mesh: Mesh, trained: int = -1) -> OperatorMessages:
        """What it sends on a mesh, where at most one operand is a parameter with a gradient."""
        gradient = [number == trained for number in range(len(self.view.inputs))]
        cluster = named_cluster(CLUSTER, mesh.size)
        return OperatorMessages.of(self.view, cluster, mesh, EVERYTHING, gradient)

    def end(self, split: Split, mesh: Mesh) -> dict[str, Any]:
        """The first result of the primitive, and its cuts."""
        factors, dims = self.form.results[0], self.view.result()
        if len(factors) != len(dims):
            dims = tuple(math.prod(self.rule.sizes[f] for f in dim) for dim in factors)
        cuts = [self.reader(split, mesh.sizes).count(dim) for dim in factors]
        return {"dims": dims, "dtype": "float32", "cuts": cuts}

    def case(self, devices: int, cuts: Cuts) -> dict[str, Any]:
        """What MindSpore needs to compile it."""
        types = [t.dtype for t in self.view.inputs if t is not None]
        shapes = [*self.form.dims]
        if self.form.tensors:  # values that the primitive takes, but the operator does not
            shapes, types = [self.view.dims(0)], types[:1]
        return {
            "number": self.number,
            "kind": self.view.op.kind,
            "family": lookup(self.view.op.kind).family,
            "primitive": self.form.name,
            "devices": devices,
            "attributes": dict(self.view.op.attributes),
            "inputs": [
                {"dims": dims, "dtype": (types + types[-1:])[i]} for i, dims in enumerate(shapes)
            ],
            "results": [t.dims for t in self.view.outputs],
            "cuts": cuts,
        }


def mesh_of(devices: int) -> Mesh:
    return prime_mesh(named_cluster(CLUSTER, devices), 6)


def every(operator: Operator, devices: int) -> list[Split]:
    """What the dialect offers, one of those with the same cuts."""
    mesh = mesh_of(devices)
    found: dict[Cuts, Split] = {}
    for split in operator.splits(mesh):
        found.setdefault(operator.reader(split, mesh.sizes).cuts, split)
    return list(found.values())


Drawn = dict[int, dict[Operator, list[Split]]]
"""By the number of devices."""


def drawn(operators: Sequence[Operator]) -> Drawn:
    """A few strategies of every operator."""
    out: Drawn = {devices: {} for devices in SIZES}
    for devices, operator in itertools.product(SIZES, operators):
        found = every(operator, devices)
        few = random.Random(operator.number).sample(found, min(OFFERED, len(found)))
        out[devices][operator] = few
    return out


def swept(operators: Sequence[Operator], strategies: int) -> Drawn:
    """So many strategies of every primitive, or all that there are."""
    pools: dict[str, list[tuple[int, Operator, Split]]] = {}
    for operator, devices in itertools.product(operators, SWEPT):
        pool = pools.setdefault(operator.form.name, [])
        pool += [(devices, operator, split) for split in every(operator, devices)]
    out: Drawn = {devices: {} for devices in SWEPT}
    for name, pool in pools.items():
        for devices, operator, split in random.Random(name).sample(
            pool, min(strategies, len(pool))
        ):
            out[devices].setdefault(operator, []).append(split)
    return out


def offered(operator: Operator, mesh: Mesh, splits: Sequence[Split]) -> Iterator[dict[str, Any]]:
    """Strategies of the dialect, with layouts and messages."""
    messages = operator.messages(mesh)
    for split in splits:
        reader = operator.reader(split, mesh.sizes)
        case = operator.case(mesh.size, reader.cuts)
        yield case | _layouts(reader, mesh) | {"sent": messages.sent(split)}


def trained(operator: Operator, mesh: Mesh, splits: Sequence[Split]) -> Iterator[dict[str, Any]]:
    """The same where one operand has a gradient, the next one in each case: MindSpore sees that
    gradients of several operands are equal, as in an addition.
    """
    messages = [operator.messages(mesh, operand) for operand in operator.trained]
    cases = offered(operator, mesh, splits) if messages else ()
    for number, (split, case) in enumerate(zip(splits, cases, strict=False)):
        place = number % len(messages)
        sent = messages[place].sent(split)
        end = operator.end(split, mesh)
        yield case | {"trained": operator.trained[place], "end": end, "sent": sent}


def _layouts(reader: Reader, mesh: Mesh) -> dict[str, Any]:
    """As MindSpore writes them, and as the plan has them: mesh axes that split each dimension."""
    layout, form = device_layout(reader), reader.form
    inputs = form.tensors or form.inputs
    return {
        "result": reader.whole_result,
        "matrix": layout.device_matrix,
        "maps": [*layout.inputs[: 1 if form.tensors else None], *layout.results],
        "mesh": mesh.sizes,
        "axes": [reader.axes(m) for m in (*inputs[: 1 if form.tensors else None], *form.results)],
    }


def probed(operator: Operator) -> Iterator[dict[str, Any]]:
    """Strategies that the dialect does not offer, each with the planner's reasons."""
    mesh = mesh_of(PROBED_DEVICES)
    known = {operator.reader(split, mesh.sizes).cuts for split in operator.splits(mesh)}
    kind, by_factor = operator.view.op.kind, set(_by_factor(operator))
    found = sorted({*_single(operator), *by_factor, *_twisted(operator)} - known)
    many = 3 * PROBED if kind == "GatherElements" else PROBED
    wanted = min(PROBED_ALIKE if kind in {*UNARY, *BINARY} else many, len(found))
    draw = random.Random(operator.number)
    for cuts in sorted(by_factor - known) if kind in PECULIAR else draw.sample(found, wanted):
        yield operator.case(PROBED_DEVICES, cuts) | _judged(operator, cuts)


def _judged(operator: Operator, cuts: Cuts) -> dict[str, Any]:
    """`ours`, the reasons for a refusal, or where there are none the layouts."""
    try:
        reader = reader_of_cuts(operator.view, cuts, PROBED_DEVICES)
    except StrategyFileError as error:
        return {"ours": [violation.what for violation in error.violations]}
    layout = device_layout(reader)
    maps = [*layout.inputs, *layout.results]
    return {"ours": [], "first": reader.repeats_first, "matrix": layout.device_matrix, "maps": maps}


def _whole(operator: Operator) -> list[list[int]]:
    return [[1] * len(dims) for dims in operator.form.dims]


def _single(operator: Operator) -> Iterator[Cuts]:
    """One dimension of one input is cut, whatever the others need."""
    for index, dims in enumerate(operator.form.dims):
        for place in range(len(dims)):
            for cut in (2, 3, 8, 16):
                cuts = _whole(operator)
                cuts[index][place] = cut
                yield _frozen(cuts)


def _by_factor(operator: Operator) -> Iterator[Cuts]:
    """One or two factors are cut, also those that the dialect never cuts."""
    sizes = operator.rule.sizes
    factors = [f for f in range(len(sizes)) if sizes[f] > 1]
    for factor in factors:
        for cut in (2, 8):
            yield operator.reader((factor,), (cut,)).cuts
    for pair in itertools.combinations(factors, 2):
        for counts in ((2, 2), (2, 4), (4, 2), (4, 4)):
            yield operator.reader(pair, counts).cuts


def _twisted(operator: Operator) -> Iterator[Cuts]:
    """An input too many, one too few, two dimensions too many."""
    cuts = _whole(operator)
    yield _frozen([*cuts, cuts[0]])
    yield _frozen(cuts[1:])
    yield _frozen([[*cuts[0], 1, 1], *cuts[1:]])


def _frozen(cuts: list[list[int]]) -> Cuts:
    return tuple(tuple(each) for each in cuts)


def main(folder: Path, strategies: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    operators = [Operator(number, graph) for number, graph in enumerate(examples())]
    chosen = swept(operators, strategies) if strategies else drawn(operators)
    for devices, of in chosen.items():
        mesh = mesh_of(devices)
        for name, make, share in (("offered", offered, 1), ("trained", trained, TRAINED)):
            few = {each: splits[:: share if strategies else 1] for each, splits in of.items()}
            cases = [case for each, splits in few.items() for case in make(each, mesh, splits)]
            (folder / f"{name}-{devices}.json").write_text(json.dumps(cases))
    if not strategies:
        cases = [case for each in operators for case in probed(each)]
        (folder / f"probed-{PROBED_DEVICES}.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
