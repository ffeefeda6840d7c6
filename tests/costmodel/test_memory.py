"""The one table of bytes: what every optimizer keeps of a parameter, and what its update moves."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.memory import (
    RULES,
    Master,
    Optimizer,
    Precision,
    moment_elements,
    parameter_bytes,
    tensor_bytes,
)
from ir.end_parameters import end_parameters
from ir.normalise import add_ends
from ir.normalise.ends import ENDS
from tests.builders import mlp

pytestmark = pytest.mark.fast

EVERY = list(Optimizer)
MOVED = {
    "adamw": 2 + 8 + 16 + 2, "adam": 2 + 8 + 16 + 2, "sgd": 2 + 8 + 2, "momentum": 2 + 8 + 8 + 2,
    "adagrad": 2 + 8 + 8 + 2, "lamb": 2 + 16 + 16 + 12 + 2, "adafactor": 6 + 12 + 2,
    "muon": 2 + 8 + 8 + 10 + 2, "none": 0,
}  # fmt: skip
"""Bytes of gradient, weight in 32 bits, moments, what is made on the way, and the 16-bit weight
that an update reads and writes for each bfloat16 element of a large matrix."""


@pytest.mark.parametrize("optimizer", EVERY)
def test_an_update_moves_what_its_passes_read_and_write(optimizer: Optimizer) -> None:
    each = parameter_bytes("bfloat16", optimizer, training=True)
    assert each.moved_by_update == MOVED[optimizer]


@pytest.mark.parametrize("optimizer", EVERY)
def test_the_width_of_gradients_is_the_only_difference_of_16_and_18_bytes(
    optimizer: Optimizer,
) -> None:
    plain, wide = (
        parameter_bytes("bfloat16", optimizer, training=True, precision=Precision(gradient_bytes=n))
        for n in (None, 4.0)
    )
    assert wide.resident == plain.resident + 2
    assert (wide.weight, wide.states) == (plain.weight, plain.states)
    reads = RULES[optimizer].gradient_reads
    assert wide.moved_by_update == plain.moved_by_update + 2 * reads


@pytest.mark.parametrize("optimizer", EVERY)
def test_a_pass_for_the_norm_reads_every_gradient_once_more(optimizer: Optimizer) -> None:
    plain, clipped = (
        parameter_bytes("float32", optimizer, training=True, precision=Precision(norm=norm))
        for norm in (False, True)
    )
    more = 0 if optimizer is Optimizer.NONE else 4
    assert clipped.moved_by_update == plain.moved_by_update + more
    assert clipped.resident == plain.resident


@pytest.mark.parametrize("optimizer", [o for o in EVERY if o is not Optimizer.NONE])
def test_the_weight_in_full_precision_stands_once(optimizer: Optimizer) -> None:
    """Apart, at rest, or with the 16-bit weight as its upper half; or not at all."""
    found = {
        master: parameter_bytes(
            "bfloat16", optimizer, training=True, precision=Precision(master=master)
        )
        for master in Master
    }
    sizes = {master: (each.weight, each.master) for master, each in found.items()}
    assert sizes == {
        Master.APART: (2, 4), Master.AT_REST: (4, 0), Master.UPPER_HALF: (0, 4),
        Master.NONE: (2, 0),
    }  # fmt: skip
    assert len({each.moments for each in found.values()}) == 1
    assert found[Master.UPPER_HALF].moved_by_update == found[Master.APART].moved_by_update - 2
    wide = parameter_bytes("float32", optimizer, training=True)
    assert (wide.weight, wide.master) == (4, 0)


@pytest.mark.parametrize("optimizer", EVERY)
@pytest.mark.parametrize("dims", [(96,), (32, 96), (5, 32, 96)])
def test_moments_are_the_arrays_that_an_optimizer_makes(
    optimizer: Optimizer, dims: tuple[int, ...]
) -> None:
    """Those of PyTorch: the moments of a parameter as it makes them in its first step."""
    matrix = len(dims) > 1
    whole = np.zeros(dims)
    factors = [whole[..., :1], whole[..., :1, :]] if matrix else [whole]
    arrays = {
        Optimizer.ADAMW: [whole, whole], Optimizer.ADAM: [whole, whole], Optimizer.SGD: [],
        Optimizer.MOMENTUM: [whole], Optimizer.ADAGRAD: [whole], Optimizer.LAMB: [whole, whole],
        Optimizer.ADAFACTOR: factors, Optimizer.MUON: [whole] if matrix else [whole, whole],
        Optimizer.NONE: [],
    }[optimizer]  # fmt: skip
    assert moment_elements(optimizer, dims) * whole.size == pytest.approx(
        sum(each.size for each in arrays)
    )


@pytest.mark.parametrize("optimizer", EVERY)
def test_nothing_is_kept_of_what_is_not_trained(optimizer: Optimizer) -> None:
    each = parameter_bytes("bfloat16", optimizer, training=False)
    assert each.resident == each.weight == 2
    assert each.moved_by_update == 0


def test_muon_leaves_the_matrix_before_the_loss_to_adamw() -> None:
    graph = add_ends(mlp(2), training=True)
    *inner, last = (t for t in graph.parameters if len(t.dims) > 1)
    assert end_parameters(graph) == {last.name}
    found = [tensor_bytes(graph, t, Optimizer.MUON, training=True) for t in (*inner, last)]
    adamw = tensor_bytes(graph, last, Optimizer.ADAMW, training=True)
    assert found[-1] == adamw
    assert {each.moments for each in found[:-1]} == {adamw.moments / 2}


def test_a_part_of_a_network_without_its_end_has_no_matrix_before_the_loss() -> None:
    graph = add_ends(mlp(2), training=True)
    part = graph.with_ops(op for op in graph.ops if op.kind not in ENDS)
    assert not end_parameters(part)
