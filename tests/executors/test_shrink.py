"""A small copy of a plan is split as the plan is, and is as small as that allows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executors.shrink import Shrunk, shrunk
from executors.shrinking.extents import Extents
from executors.shrinking.sizes import splits_alike
from ir.graph import Op, OpGraph
from ir.ops import OpView, check_operators, lookup
from ir.plan import NamedLayout, Plan
from ir.plan_checks import plan_faults
from ir.plan_file import plan_from_json, plan_to_json
from planner.request import SearchRequest
from planner.search import search
from tests.executors.drawn_plans import drawn_plan
from tests.reference_models import reference_model
from topology.catalogue import named_cluster

REQUEST = SearchRequest(solver="dynamic_programming", time_limit_s=None, batch=16, overlap="none")
"""Equal layers have equal layouts; with overlap, where the first and last ones differ, small plans
are larger (docs/verification.md)."""
CASES = {
    # name: model, devices, target, training, most operators, elements of the largest tensor
    "dense": ("llama3_8b_op24", 8, "generic", True, 110, 1_000),
    "large": ("llama3_70b", 8, "mindspore", False, 130, 1_000),
    "uneven vocabulary": ("gpt2_small", 8, "generic", True, 140, 1_000),
    "convolutions": ("resnet50", 4, "mindspore", True, 140, 50_000),
    "groups of channels": ("mobilenet_v3_large", 4, "generic", True, 180, 50_000),
    "sums of channels": ("light_inception_v1", 2, "generic", True, 90, 200_000),
    "patches and a class token": ("vit_large", 4, "generic", True, 100, 50_000),
    "experts": ("mixtral_8x7b", 8, "generic", False, 240, 10_000),
    "many tables": ("deepfm_criteo", 8, "mindspore", True, 110, 10_000),
    "backward pass in the graph": ("gpt_small_train_step", 4, "generic", True, 240, 200_000),
}  # fmt: skip


@cache
def plan_of(case: str) -> Plan:
    name, devices, target, training, _, _ = CASES[case]
    request = replace(REQUEST, target=target, training=training)
    if name == "gpt_small_train_step":
        request = replace(request, batch=None)
    return search(reference_model(name), named_cluster("atlas-800t-a2", devices), request)


@cache
def small(case: str) -> Shrunk:
    return shrunk(plan_of(case))


@pytest.mark.parametrize("case", CASES)
def test_a_small_plan_is_a_valid_plan(case: str) -> None:
    plan = small(case).plan
    plan.graph.validate()
    check_operators(plan.graph)
    assert not list(plan_faults(plan))
    assert plan_from_json(plan_to_json(plan)) == plan
    assert all(d > 0 for t in plan.graph.tensors.values() for d in t.dims)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("sums of channels", marks=pytest.mark.fast),
        *sorted({*CASES} - {"sums of channels"}),
    ],
)
def test_a_small_plan_is_small(case: str) -> None:
    plan, most_operators, most_elements = small(case).plan, *CASES[case][-2:]
    assert len(plan.graph.ops) <= most_operators
    assert max(t.elements for t in plan.graph.tensors.values()) <= most_elements


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_is_split_as_before(case: str) -> None:
    """Mesh, splits and layouts; names are those of the large plan."""
    large, plan = plan_of(case), small(case).plan
    assert (plan.mesh, plan.rank_order) == (large.mesh, large.rank_order)
    before = {op.name: op for op in large.operators}
    assert all(op == before[op.name] for op in plan.operators)
    tensors = {(t.name, t.role): t for t in large.tensors}
    for tensor in plan.tensors:
        old = tensors[tensor.name, tensor.role]
        assert replace(tensor, dims=old.dims) == old
    assert [op.name for op in plan.operators] == [op.name for op in plan.graph.ops]


@pytest.mark.parametrize("case", CASES)
def test_rules_keep_their_form_and_dims_how_evenly_they_are_split(case: str) -> None:
    large, plan = plan_of(case), small(case).plan
    before = {op.name: op for op in large.graph.ops}
    for planned, op in zip(plan.operators, plan.graph.ops, strict=True):
        pairs = zip(_parts(before[op.name]), _parts(op), strict=True)
        for old, new in pairs:
            one = lookup(old.kind).rule(OpView(old, large.graph))
            other = lookup(new.kind).rule(OpView(new, plan.graph))
            assert replace(one, sizes=()) == replace(other, sizes=())
            assert one.splittable == other.splittable
        was, now = (*before[op.name].inputs, *before[op.name].outputs), (*op.inputs, *op.outputs)
        layouts = (*planned.inputs, *planned.outputs)
        for one_name, other_name, layout in zip(was, now, layouts, strict=True):
            if other_name and layout is not None:
                _check_pieces(large, one_name, plan.graph, other_name, layout)


def _parts(op: Op) -> Iterator[Op]:
    for part in op.parts:
        yield from _parts(part)
    yield op


def _check_pieces(large: Plan, was: str, graph: OpGraph, now: str, layout: NamedLayout) -> None:
    sizes = {name: size for name, size, _ in large.mesh}
    dims = zip(large.graph.tensors[was].dims, graph.tensors[now].dims, layout.dims, strict=True)
    for old, new, axes in dims:
        count = 1
        for axis in axes:
            count *= sizes[axis]
        assert (old % count == 0) == (new % count == 0)
        assert count <= max(new, 1)
        assert (old > 1) == (new > 1)


@pytest.mark.parametrize("case", CASES)
def test_layers_of_every_kind_are_left(case: str) -> None:
    """Every operator that was left out has an equal in what stays."""
    large, plan = plan_of(case), small(case).plan

    def kinds(of: Plan) -> Counter[object]:
        return Counter((op.kind, op.label, op.split, op.inputs, op.outputs) for op in of.operators)

    every, left = kinds(large), kinds(plan)
    assert left.keys() == every.keys()
    assert all(left[kind] >= min(2, count) for kind, count in every.items())


@pytest.mark.parametrize("case", CASES)
def test_messages_of_what_is_left_are_left(case: str) -> None:
    large, plan = plan_of(case), small(case).plan
    names = {op.name for op in plan.operators}

    def messages(of: Plan) -> dict[str, Counter[object]]:
        out: dict[str, Counter[object]] = {name: Counter() for name in names}
        for item in of.collectives:
            if item.operator in names:
                out[item.operator][item.kind, item.axes, item.cause, item.count] += 1
        return out

    assert messages(plan) == messages(large)
    assert all(not c.operator or c.operator in names for c in plan.collectives)
    assert all(not c.tensor or c.tensor in plan.graph.tensors for c in plan.collectives)


@pytest.mark.parametrize("case", CASES)
def test_what_is_small_cannot_be_made_smaller(case: str) -> None:
    again = shrunk(small(case).plan)
    assert again.plan == small(case).plan
    assert not again.sizes
    assert again.layers_left_out == 0


def test_layers_that_are_planned_otherwise_are_layers_of_another_kind() -> None:
    """Every second layer computes something again: two of both kinds stay, in turn."""
    plan = plan_of("uneven vocabulary")
    acts = [op.outputs[0] for op in plan.graph.ops if op.label == "Gelu"]
    assert len(acts) == 12
    found = shrunk(replace(plan, recomputed=tuple(acts[1::2]))).plan
    left = [name for name in acts if name in found.graph.tensors]
    again = [name in found.recomputed for name in left]
    assert min(again.count(True), again.count(False)) >= 2
    assert len(left) <= 8
    assert all(a != b for a, b in itertools.pairwise(again))


@pytest.mark.parametrize("target", ["generic", "mindspore"])
@pytest.mark.parametrize("seed", range(3))
def test_plans_that_mean_nothing_are_made_smaller_too(target: str, seed: int) -> None:
    """Layouts of every shape, as no search would choose them."""
    request = replace(REQUEST, target=target)
    graph = reference_model("gpt2_small")
    large = drawn_plan(graph, 8, request, seed)
    found = shrunk(large)
    found.plan.graph.validate()
    check_operators(found.plan.graph)
    assert not list(plan_faults(found.plan))
    assert shrunk(found.plan).plan == found.plan
    assert sum(t.elements for t in found.plan.graph.tensors.values()) < 1_000_000


def test_extents_that_are_cut_otherwise_are_products_of_common_atoms() -> None:
    """24 as 12 by 2 and as 6 by 4."""
    extents = Extents()
    whole, a, b, c, d = (extents.new(size) for size in (24, 12, 2, 6, 4))
    assert extents.equate((whole,), (a, b)) == ((), ())
    assert extents.equate((whole,), (c, d)) == ((), ())
    assert [extents.size((x,)) for x in extents.atoms((whole,))] == [6, 2, 2]
    assert extents.atoms((a,)) == extents.atoms((c,)) + extents.atoms((whole,))[1:2]


def test_extents_of_which_none_divides_the_other_remain_two_products() -> None:
    extents = Extents()
    a, b, c, d = (extents.new(size) for size in (4, 6, 3, 8))
    assert extents.equate((a, b), (c, d)) == ((a, b), (c, d))


@given(st.integers(2, 300), st.integers(2, 16))
def test_a_size_is_split_as_itself_and_even_stays_even(old: int, count: int) -> None:
    assert not count <= old or splits_alike(old, old, count)
    assert splits_alike(count, count * old, count)
    assert not splits_alike(count, count * old + 1, count)


def test_a_vocabulary_that_no_axis_divides_stays_uneven() -> None:
    found = small("uneven vocabulary")
    sizes = dict(found.sizes.values())
    assert sizes[50257] % 8 != 0


def test_the_description_tells_extents_and_layers() -> None:
    found = small("large")
    assert found.sizes["input_ids[1]"] == (4096, 2)
    assert found.layers_left_out == 75
