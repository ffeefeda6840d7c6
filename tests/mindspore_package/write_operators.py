"""Strategies of single operators, and what the planner says that MindSpore makes of them.

Run by the planner's Python. For 8 and 16 devices a file of cases: `offered` are drawn from what the
dialect offers, with device matrix and tensor maps; `probed` are others, with the reason why the
planner refuses them or nothing where it takes them.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporters.errors import StrategyFileError
from exporters.mindspore.cuts import device_layout, reader_of_cuts
from ir.graph import OpGraph
from ir.mindspore_forms.primitives import PrimitiveForm, primitive_form
from ir.mindspore_forms.readers import Reader
from ir.ops import OpView, lookup
from ir.rule import ShardingRule
from planner.candidates.dialects import MINDSPORE
from tests.mindspore_package.operator_examples import BINARY, UNARY, examples
from topology.catalogue import named_cluster
from topology.mesh import Mesh, prime_mesh

Cuts = tuple[tuple[int, ...], ...]

SIZES = (8, 16)
OFFERED = 3
"""Strategies of an operator that are drawn for each number of devices."""
PROBED, PROBED_ALIKE = 5, 1
"""Strategies beyond the dialect that are drawn for each operator, and for one of many alike."""
PECULIAR = frozenset({"GridSample", "ScatterND"})
"""Kinds of which MindSpore takes a few strategies that the dialect does not offer: all cuts of one
factor or two are probed.
"""
PROBED_DEVICES = 8


class Operator:
    """One example, and everything that a case says of it."""

    def __init__(self, number: int, graph: OpGraph) -> None:
        self.number, self.view = number, OpView(graph.ops[0], graph)
        self.rule: ShardingRule = lookup(self.view.op.kind).rule(self.view)
        self.form: PrimitiveForm = primitive_form(self.view, self.rule)

    def reader(self, split: Sequence[int], sizes: Sequence[int]) -> Reader:
        return Reader(self.view.op, self.form, (), tuple(split), tuple(sizes))

    def splits(self, mesh: Mesh) -> list[tuple[int, ...]]:
        """Everything that the dialect offers."""
        entry = lookup(self.view.op.kind)
        everything = replace(MINDSPORE, cut_positions=True)
        found, left_out = everything.assignments(self.rule, entry, mesh, gradient=False)
        assert not left_out
        return found

    def case(self, devices: int, cuts: Cuts) -> dict[str, Any]:
        """What MindSpore needs to compile it."""
        types = [t.dtype for t in self.view.inputs if t is not None]
        shapes = [*self.form.dims]
        if self.form.tensors:  # values that the primitive takes, but the operator does not
            shapes, types = [self.view.dims(0)], types[:1]
        return {
            "number": self.number,
            "kind": self.view.op.kind,
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
    return prime_mesh(named_cluster("atlas-800t-a2", devices), 6)


def offered(operator: Operator, devices: int) -> Iterator[dict[str, Any]]:
    """Some strategies of the dialect, with layouts."""
    mesh, draw = mesh_of(devices), random.Random(operator.number)
    found = operator.splits(mesh)
    seen: set[Cuts] = set()
    for split in draw.sample(found, min(OFFERED, len(found))):
        reader = operator.reader(split, mesh.sizes)
        if reader.cuts not in seen:
            seen.add(reader.cuts)
            yield operator.case(devices, reader.cuts) | _layouts(reader, mesh)


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


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    operators = [Operator(number, graph) for number, graph in enumerate(examples())]
    for devices in SIZES:
        cases = [case for each in operators for case in offered(each, devices)]
        (folder / f"offered-{devices}.json").write_text(json.dumps(cases))
    cases = [case for each in operators for case in probed(each)]
    (folder / f"probed-{PROBED_DEVICES}.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
