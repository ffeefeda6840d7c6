"""MindSpore's cost of a redistribution, against numbers derived from its formulas by hand.

The first three tensors are those of `redistribution_cost_derived` in the collected cases: bytes of
one for each element, before small messages are rounded up.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.mindspore.cost import FORBIDDEN, Weights
from costmodel.mindspore.cost_edges import MindsporeEdgeCost
from ir.layout import Layout
from topology.mesh import Mesh, MeshAxis

pytestmark = pytest.mark.fast

EXACT = Weights(alpha=0.0, beta=1.0, threshold=0.0, least=0.0, bias=0.0)
FORWARD, BOTH = replace(EXACT, training=False), EXACT
COMPUTED = replace(EXACT, alpha=1.0, beta=0.0)
DIMS = (512, 1024)
NBYTES = 512 * 1024.0


def mesh(*sizes: int) -> Mesh:
    return Mesh(tuple(MeshAxis(f"a{i}", size, 0) for i, size in enumerate(sizes)))


def price(
    sizes: tuple[int, ...], source: Layout, target: Layout, *, all_to_all: bool = False
) -> tuple[float, float, float]:
    """Forward, backward and computed bytes."""
    found = []
    for weights in (FORWARD, BOTH, COMPUTED):
        cost = MindsporeEdgeCost(mesh(*sizes), all_to_all, weights)
        found.append(float(cost.pair_cost(DIMS, NBYTES, [source], [target])[0, 0]))
    forward, both, computed = found
    return forward, both - forward, computed


def test_a_gather_of_the_second_dimension_copies_for_every_device() -> None:
    found = price((2, 4), Layout(((0,), (1,))), Layout(((0,), ())))
    assert found == (131072, 32768, 655360)


@pytest.mark.parametrize("sizes", [(8,), (2, 4), (2, 2, 2)])
def test_a_gather_of_the_first_dimension_copies_once(sizes: tuple[int, ...]) -> None:
    """Axes that stand together are one."""
    every = tuple(range(len(sizes)))
    found = price(sizes, Layout((every, ())), Layout(((), ())))
    assert found == (262144, 32768, 131072)


def test_an_exchange_sends_as_much_back() -> None:
    found = price((8,), Layout(((0,), ())), Layout(((), (0,))), all_to_all=True)
    assert found == (131072, 131072, 131072)


def test_without_exchanges_it_gathers_and_slices_at_the_size_of_the_first_slice() -> None:
    found = price((8,), Layout(((0,), ())), Layout(((), (0,))))
    assert found == (262144, 32768, 131072 + 65536)


def test_a_slice_is_not_sent() -> None:
    assert price((8,), Layout(((), ())), Layout(((), (0,)))) == (0, 0, NBYTES)


def test_what_stays_costs_nothing() -> None:
    layout = Layout(((0,), (1,)))
    assert price((2, 4), layout, layout) == (0, 0, 0)


def test_a_cut_that_is_undone_in_part_gives_the_tensor_more_dimensions() -> None:
    """The inner axis is gathered: the place is the second dimension of the tensor reshaped, and
    twice the slice is copied for that.
    """
    share = NBYTES / 8
    found = price((2, 4), Layout(((0, 1), ())), Layout(((0,), ())))
    assert found == (0.5 * 4 * share, 0.5 * share, (1 + 2 * 4 + 1 + 2) * share)


def test_the_first_dimension_is_the_first_that_is_larger_than_one() -> None:
    cost = MindsporeEdgeCost(mesh(8), False, COMPUTED)
    source, target = Layout(((), (0,), ())), Layout(((), (), ()))
    assert cost.pair_cost((1, 512, 1024), NBYTES, [source], [target])[0, 0] == 131072


def test_messages_are_rounded_up_each_way() -> None:
    """A tensor of 4 KiB: 2,048 bytes forward, which is small, and 256 back."""
    cost = MindsporeEdgeCost(mesh(8), False, Weights())
    found = cost.pair_cost((64, 16), 4096.0, [Layout(((0,), ()))], [Layout(((), ()))])
    assert found[0, 0] == 2 * 512 + 400 * (3072 + 3072)


def test_truth_values_are_not_sent() -> None:
    cost = MindsporeEdgeCost(mesh(8), False, Weights())
    layouts = [Layout(((0,), ())), Layout(((), ()))]
    found = cost.pair_cost(DIMS, NBYTES, layouts, layouts, boolean=True)
    assert found[0, 1] >= FORBIDDEN
    assert found[1, 0] == NBYTES
