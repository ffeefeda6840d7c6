"""MindSpore's cost of an operator, against numbers worked out by hand and by its own unit tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.mindspore.cost import (
    FAMILIES,
    Bytes,
    Slices,
    Weights,
    operator_bytes,
    operator_cost,
    practical,
)

pytestmark = pytest.mark.fast

NO = np.array([False, False])
TWO = Slices(
    inputs=(np.array([4096.0, 512.0]), np.array([256.0, 64.0])),
    outputs=(np.array([1024.0, 128.0]),),
    pieces=(np.array([1.0, 8.0]), np.array([1.0, 4.0])),
    trained=(False, True),
    summed=np.array([False, True]),
    rows=np.array([1.0, 4.0]),
    devices=8,
    second_dim=NO,
    looked_up=NO,
)
"""Two candidates: everything whole, and cut, also in a dimension that is summed."""


def of(primitive: str, slices: Slices = TWO) -> tuple[list[float], list[float], list[float]]:
    found = operator_bytes(primitive, slices)
    return found.computed.tolist(), found.forward.tolist(), found.backward.tolist()


def test_a_product_counts_both_operands_and_a_result_that_is_a_sum() -> None:
    assert of("MatMul") == ([4352, 576 + 128], [0, 128], [256, 64])


def test_a_weight_that_is_cut_over_all_devices_has_no_gradient_to_reduce() -> None:
    whole = replace(TWO, pieces=(TWO.pieces[0], np.array([8.0, 8.0])))
    assert of("BatchMatMul", whole)[2] == [0, 0]


def test_slopes_cost_what_mindspore_expects_of_them() -> None:
    """Source: MindSpore's operator_costmodel_test.cc, PReLU on 1,024 devices."""
    slices = Slices(
        inputs=(np.array([8 * 32 * 8 * 8 * 4.0]), np.array([32 * 4.0])),
        outputs=(np.array([8 * 32 * 8 * 8 * 4.0]),),
        pieces=(np.array([64.0]), np.array([1.0])),
        trained=(False, True),
        summed=NO[:1],
        rows=np.array([4.0]),
        devices=1024,
        second_dim=NO[:1],
        looked_up=NO[:1],
    )
    assert of("PReLU", slices) == ([65664], [0], [128])


def test_a_sum_and_a_mean_send_their_result_where_a_summed_dimension_is_cut() -> None:
    assert of("ReduceSum") == ([4096, 512 + 128], [0, 128], [0, 0])
    assert of("ReduceMean") == ([4096, 512 + 2 * 128], [0, 128], [0, 0])


def test_unary_pairwise_and_softmax_count_what_they_are_said_to() -> None:
    assert of("GeLU") == ([4096, 512], [0, 0], [0, 0])
    assert of("Add") == ([4352, 576], [0, 0], [256, 64])
    assert of("Softmax") == ([1024, 128], [0, 0], [0, 0])
    assert of("OneHot", replace(TWO, trained=(True, True)))[2] == [0, 0]
    assert of("Reshape") == ([8192, 1024], [0, 0], [0, 0])


def test_what_has_no_formula_of_its_own_counts_all_inputs() -> None:
    assert "Conv2D" not in FAMILIES
    assert of("Conv2D") == ([4352, 576], [0, 0], [256, 64])


def test_batch_normalisation_sends_where_channels_are_cut() -> None:
    cut = replace(TWO, second_dim=np.array([False, True]))
    assert of("BatchNorm", cut) == ([4352, 576], [0, 512], [256, 64])


def test_a_lookup_in_rows_that_are_cut_is_weighed() -> None:
    cut = replace(TWO, looked_up=np.array([False, True]))
    assert of("Gather", cut) == ([4352, 3 * 512 + 7 * 64], [0, 128], [256, 64])


def test_small_messages_cost_a_constant_and_larger_ones_a_bias() -> None:
    nbytes = np.array([0.0, 1e-7, 1.0, 2048.0, 2049.0])
    assert practical(nbytes, Weights()).tolist() == [0.0, 1e-7, 3072.0, 3072.0, 3073.0]


def test_the_gradient_of_a_weight_is_nearly_hidden_and_has_no_bias() -> None:
    found = Bytes(np.array([100.0]), np.array([5000.0]), np.array([7000.0]))
    cost = operator_cost(found, np.array([2.0]), 8, Weights())
    assert cost[0] == pytest.approx(100 + 400 * (5000 + 1024 + 0.001 * 7000), rel=1e-12)


def test_ties_go_to_the_batch_over_all_devices() -> None:
    found = Bytes(np.array([100.0, 100.0]), np.zeros(2), np.array([7000.0, 7000.0]))
    cost = operator_cost(found, np.array([4.0, 8.0]), 8, Weights())
    assert cost[1] == pytest.approx(99 + 400 * 0.001 * 6999, rel=1e-12)
    assert cost[1] < cost[0]


def test_in_inference_only_what_is_sent_forward_counts() -> None:
    found = Bytes(np.array([100.0]), np.array([5000.0]), np.array([7000.0]))
    cost = operator_cost(found, np.array([2.0]), 8, Weights(training=False))
    assert cost[0] == 100 + 400 * (5000 + 1024)


@pytest.mark.parametrize("primitive", FAMILIES)
def test_every_formula_gives_one_number_for_each_candidate(primitive: str) -> None:
    found = operator_bytes(primitive, TWO)
    for part in (found.computed, found.forward, found.backward):
        assert part.shape == (2,)
        assert (part >= 0).all()
    assert found.computed[0] > found.computed[1]
