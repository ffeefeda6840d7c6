"""Recurrent networks beyond ONNX's reference: what their attributes mean."""

from __future__ import annotations

import random

import numpy as np
import pytest

from executors.evaluation import Evaluator
from executors.placement import Array
from executors.semantics.recurrent import recurrent
from ir.graph import AttributeValue
from ir.ops.recurrent import GATES, LENGTHS
from ir.semantics.call import Call
from tests.operators.example import Example, example, floats

pytestmark = pytest.mark.fast

BATCH, TIME, INPUT, HIDDEN = 3, 4, 3, 2
LENGTH = np.array([4, 1, 3])


def operands(kind: str, directions: int) -> list[Array | None]:
    draw, rows = random.Random(kind), GATES[kind] * HIDDEN
    found: list[Array | None] = [
        floats(draw, TIME, BATCH, INPUT),
        floats(draw, directions, rows, INPUT),
        floats(draw, directions, rows, HIDDEN),
        floats(draw, directions, 2 * rows),
        LENGTH,
        floats(draw, directions, BATCH, HIDDEN),
    ]
    return found


def network(kind: str, given: list[Array | None], **attributes: str | float) -> Example:
    directions = np.asarray(given[1]).shape[0]
    rows = np.asarray(given[0]).shape
    states = [(directions, rows[1], HIDDEN)] * (2 if kind == "LSTM" else 1)
    dims = [(rows[0], directions, rows[1], HIDDEN), *states]
    return example(kind, given, dims, hidden_size=HIDDEN).having(attributes)


def own(found: Example) -> list[Array]:
    dims = tuple(found.graph.tensors[n].dims for n in found.op.outputs)
    return recurrent(Call(found.op, tuple(found.operands), dims))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", sorted(GATES))
def test_a_short_sequence_is_a_network_of_fewer_steps(kind: str, direction: str) -> None:
    given = operands(kind, 2 if direction == "bidirectional" else 1)
    found = own(network(kind, given, direction=direction))
    for row, length in enumerate(LENGTH):
        alone = [None if a is None else np.asarray(a) for a in given]
        alone[LENGTHS] = None
        alone[0] = np.asarray(given[0])[:length, row : row + 1]
        alone[5] = np.asarray(given[5])[:, row : row + 1]
        short = network(kind, alone, direction=direction)
        results = [short.graph.tensors[n] for n in short.op.outputs]
        wanted = Evaluator().run(short.op, short.operands, results, [t.dims for t in results])
        y, *states = found
        np.testing.assert_allclose(y[:length, :, row : row + 1], wanted[0])
        assert not y[length:, :, row].any()
        for state, right in zip(states, wanted[1:], strict=True):
            np.testing.assert_allclose(state[:, row : row + 1], right)


def test_one_gate_enters_what_the_other_forgets() -> None:
    given = operands("LSTM", 1)
    coupled = own(network("LSTM", given, input_forget=1))
    weights = [np.asarray(a).copy() for a in given[1:4]]
    for array in weights:
        parts = np.split(array, array.shape[1] // HIDDEN, axis=1)
        for first in range(0, len(parts), 4):
            parts[first + 2] = -parts[first]
        array[...] = np.concatenate(parts, axis=1)
    tied = own(network("LSTM", [given[0], *weights, *given[4:]]))
    for one, other in zip(coupled, tied, strict=True):
        np.testing.assert_allclose(one, other)


def test_numbers_go_in_order_to_the_functions_that_take_some() -> None:
    given = operands("GRU", 1)
    usual = network("GRU", given)
    attributes: dict[str, AttributeValue] = {
        "activations": ("affine", "affine"),
        "activation_alpha": (0.5, 2.0),
        "activation_beta": (0.25, 1.0),
    }
    x, w, r, bias, h = (np.asarray(given[i])[0] for i in (0, 1, 2, 3, 5))
    both, size = bias[:6] + bias[6:], HIDDEN
    gates = 0.5 * (x @ w[:4].T + h @ r[:4].T + both[:4]) + 0.25
    z, reset = gates[:, :size], gates[:, size:]
    new = 2.0 * (x @ w[4:].T + (reset * h) @ r[4:].T + both[4:]) + 1.0
    np.testing.assert_allclose(own(usual.having(attributes))[0][0, 0], (1 - z) * new + z * h)
