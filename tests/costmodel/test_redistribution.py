"""Laws of redistribution, for free targets and for MindSpore."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from costmodel.collectives import Collective, CollectiveModel
from costmodel.layout_moves import all_layouts
from costmodel.mindspore.inference import moves, paired, placed
from costmodel.mindspore.redistribution import MindsporeRedistribution
from costmodel.redistribution import UNREACHABLE_S, Redistribution, Shardable
from ir.layout import Layout
from topology.catalogue import named_cluster
from topology.mesh import prime_mesh, tier_mesh

CLUSTER = named_cluster("atlas-800t-a2", 16)
TENSOR = Shardable((64, 128, 256), "bfloat16")


def free(max_waste: float = 0.0) -> Redistribution:
    mesh = tier_mesh(CLUSTER)
    return Redistribution(CollectiveModel(CLUSTER, mesh), mesh, max_waste)


def mindspore(*, all_to_all: bool = False) -> MindsporeRedistribution:
    mesh = prime_mesh(CLUSTER, 6)
    return MindsporeRedistribution(CollectiveModel(CLUSTER, mesh), mesh, all_to_all)


def test_nothing_is_cheaper_than_staying() -> None:
    layouts = all_layouts(3, 2)
    table = free().pair_time_s(TENSOR, layouts, layouts)
    assert (table.diagonal() == 0).all()
    assert (table >= 0).all()
    assert (table < UNREACHABLE_S).all()


def test_no_detour_is_cheaper() -> None:
    layouts = all_layouts(2, 2)
    table = free().pair_time_s(Shardable((64, 128), "float32"), layouts, layouts)
    for a, b, c in itertools.product(range(0, len(layouts), 3), repeat=3):
        assert table[a, c] <= table[a, b] + table[b, c] + 1e-15


def test_the_steps_are_what_the_table_charges_and_end_at_the_target() -> None:
    redistribution = free()
    layouts = all_layouts(3, 2)
    table = redistribution.pair_time_s(TENSOR, layouts, layouts)
    for i, j in itertools.product(range(0, len(layouts), 5), range(0, len(layouts), 3)):
        steps = redistribution.steps(TENSOR, layouts[i], layouts[j])
        assert sum(s.time_s for s in steps) == pytest.approx(table[i, j], rel=1e-12)
        assert (steps[-1].result if steps else layouts[i]) == layouts[j]


def test_it_is_never_worse_than_gathering_everything_and_slicing() -> None:
    redistribution = free()
    whole = Layout(((), (), ()))
    layouts = [x for x in all_layouts(3, 2) if not x.partial]
    up = redistribution.pair_time_s(TENSOR, layouts, [whole])[:, 0]
    table = redistribution.pair_time_s(TENSOR, layouts, layouts)
    assert (table <= up[:, None] + 1e-15).all()  # slicing costs nothing


def test_a_sum_over_two_tiers_is_reduced_hierarchically() -> None:
    source, target = Layout(((), (), ()), (0, 1)), Layout(((), (), ()))
    steps = free().steps(TENSOR, source, target)
    assert [s.kind for s in steps if s.kind] in (
        [Collective.REDUCE_SCATTER, Collective.ALL_REDUCE, Collective.ALL_GATHER],
        [Collective.REDUCE_SCATTER, Collective.ALL_GATHER],
        [Collective.ALL_REDUCE],
    )
    model = CollectiveModel(CLUSTER, tier_mesh(CLUSTER))
    joint = float(model.time_s(Collective.ALL_REDUCE, 64 * 128 * 256 * 2, (0, 1)))
    assert sum(s.time_s for s in steps) <= joint * (1 + 1e-12)


def test_moving_a_split_between_dimensions_is_an_all_to_all() -> None:
    steps = free().steps(TENSOR, Layout(((), (1,), ())), Layout(((1,), (), ())))
    assert [(s.kind, s.axes) for s in steps] == [(Collective.ALL_TO_ALL, (1,))]
    assert steps[0].nbytes == 64 * 128 * 256 * 2 / 8


def test_an_exchange_over_two_tiers_is_one_message_and_no_dearer_than_one_tier_at_a_time() -> None:
    redistribution = free()
    steps = redistribution.steps(TENSOR, Layout(((), (0, 1), ())), Layout(((0, 1), (), ())))
    assert [(s.kind, s.axes) for s in steps] == [(Collective.ALL_TO_ALL, (0, 1))]
    local = 64 * 128 * 256 * 2 / 16
    model = redistribution.model
    apart = [float(model.time_s(Collective.ALL_TO_ALL, local, (axis,))) for axis in (0, 1)]
    assert max(apart) <= steps[0].time_s <= sum(apart) * (1 + 1e-12)


def test_a_layout_that_does_not_divide_is_out_of_reach() -> None:
    odd = Shardable((3, 128), "float32")
    table = free().pair_time_s(odd, [Layout(((), ()))], [Layout(((1,), ())), Layout(((), (1,)))])
    assert table[0, 0] >= UNREACHABLE_S
    assert table[0, 1] == 0
    padded = Shardable((15, 128), "float32")
    assert (
        free(max_waste=0.3).pair_time_s(padded, [Layout(((), ()))], [Layout(((1,), ()))])[0, 0] == 0
    )


@pytest.mark.parametrize("all_to_all", [False, True])
def test_mindspore_charges_what_its_steps_are(all_to_all: bool) -> None:
    redistribution = mindspore(all_to_all=all_to_all)
    axes = range(4)
    layouts = [
        Layout((tuple(first), tuple(second)))
        for first, second in itertools.product(itertools.combinations(axes, 2), repeat=2)
        if not set(first) & set(second)
    ] + [Layout(((), ())), Layout(((0, 1), ())), Layout(((), (0,))), Layout(((1,), (0,)))]
    tensor = Shardable((256, 512), "bfloat16")
    table = redistribution.pair_time_s(tensor, layouts, layouts)
    for i, j in itertools.product(range(len(layouts)), repeat=2):
        steps = redistribution.steps(tensor, layouts[i], layouts[j])
        assert sum(s.time_s for s in steps) == pytest.approx(table[i, j], rel=1e-12, abs=1e-18)


def test_mindspore_gathers_only_the_inner_part_that_goes() -> None:
    source, target = Layout(((0, 1), ())), Layout(((0,), ()))
    (step,) = mindspore().steps(Shardable((256, 512), "bfloat16"), source, target)
    assert (step.kind, step.axes) == (Collective.ALL_GATHER, (1,))
    assert step.nbytes == 256 * 512 * 2 / 2


def test_mindspore_exchanges_a_split_or_gathers_and_slices() -> None:
    source, target = Layout(((3,), ())), Layout(((), (3,)))
    kinds = [s.kind for s in mindspore().steps(TENSOR_2D, source, target)]
    assert kinds == [Collective.ALL_GATHER, None]
    switched = mindspore(all_to_all=True).steps(TENSOR_2D, source, target)
    assert [s.kind for s in switched] == [Collective.ALL_TO_ALL]


def test_mindspore_breaks_a_cycle_by_gathering_the_first_dimension() -> None:
    steps = mindspore(all_to_all=True).steps(TENSOR_2D, Layout(((2,), (3,))), Layout(((3,), (2,))))
    kinds = [(s.kind, s.axes) for s in steps]
    assert kinds == [
        (Collective.ALL_GATHER, (2,)), (Collective.ALL_TO_ALL, (3,)), (None, (2,))
    ]  # fmt: skip
    assert [s.nbytes * 4 / (256 * 512 * 2) for s in steps] == [2, 2, 1]


@pytest.mark.parametrize("all_to_all", [False, True])
def test_mindspore_arrives_at_the_target(all_to_all: bool) -> None:
    redistribution = mindspore(all_to_all=all_to_all)
    layouts = [each for each in all_layouts(2, 4) if not each.partial]
    for source, target in itertools.product(layouts[::5], layouts[::3]):
        steps = redistribution.steps(TENSOR_2D, source, target)
        assert (steps[-1].result if steps else source) == target


TENSOR_2D = Shardable((256, 512), "bfloat16")


@pytest.mark.parametrize("sizes", [(1, 8), (8, 1), (2, 1, 4)])
def test_an_axis_of_one_device_is_nothing_to_move(sizes: tuple[int, ...]) -> None:
    """The inference ends, and what it sends is what it would send without the axis."""
    layouts = [Layout(dims) for dims in _dims(len(sizes))]
    both = placed(layouts, sizes)
    for first, second in itertools.permutations(range(len(layouts)), 2):
        pairs = paired(both, np.array([first]), np.array([second]))
        sent = list(itertools.islice(moves(pairs.held, pairs.wanted, exchange=True), 9))
        assert len(sent) < len(sizes) * 2
        assert all(sizes[move.axis] > 1 for move in sent)


def _dims(axes: int) -> list[tuple[tuple[int, ...], ...]]:
    """Every way to give some of the axes, in any order, to two dimensions."""
    orders = [o for n in range(axes + 1) for o in itertools.permutations(range(axes), n)]
    return list(dict.fromkeys((o[:at], o[at:]) for o in orders for at in range(len(o) + 1)))
