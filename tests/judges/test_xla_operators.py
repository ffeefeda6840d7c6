"""The JAX forms of operators compute what ONNX's reference operators compute."""

from __future__ import annotations

import itertools
import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from executors.evaluation import Evaluator
from executors.placement import Array
from executors.xla.operators import run_operator
from executors.xla.views import view_of
from ir.graph import AttributeValue, Op, OpGraph, Role, Tensor

DRAW = np.random.default_rng(0)


def noise(*dims: int) -> Array:
    return DRAW.uniform(-1, 1, dims)


CASES: list[tuple[str, list[Array], list[tuple[int, ...]], dict[str, AttributeValue]]] = [
    ("Conv", [noise(2, 4, 7, 7), noise(6, 2, 3, 3)], [(2, 6, 4, 4)],
     {"strides": (2, 2), "pads": (1, 1, 1, 1), "group": 2, "dilations": (1, 1)}),
    ("MaxPool", [noise(2, 3, 7, 7)], [(2, 3, 4, 4)],
     {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ("AveragePool", [noise(2, 3, 6, 6)], [(2, 3, 4, 4)],
     {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 2, 2)}),
    ("Gather", [noise(5, 3), np.array([[0, -1], [2, 4]])], [(2, 2, 3)], {"axis": 0}),
    ("TopK", [noise(4, 6)], [(4, 2), (4, 2)], {"axis": 1, "k": 2}),
    ("TopK", [noise(4, 6)], [(2, 6), (2, 6)], {"axis": 0, "largest": 0, "k": 2}),
    ("Softmax", [noise(3, 5)], [(3, 5)], {"axis": 1}),
    ("LayerNormalization", [noise(3, 5), noise(5), noise(5)], [(3, 5)], {"axis": 1}),
    ("Gelu", [noise(3, 5)], [(3, 5)], {}),
    ("Where", [noise(3, 5) > 0, noise(3, 5), noise(1, 5)], [(3, 5)], {}),
    ("Expand", [noise(3, 1)], [(3, 4)], {"shape": (3, 4)}),
    ("Greater", [noise(3, 5), noise(3, 5)], [(3, 5)], {}),
    ("ReduceMean", [noise(3, 5)], [(3,)], {"axes": (1,), "keepdims": 0}),
    ("Attention", [noise(2, 4, 3, 5), noise(2, 2, 6, 5), noise(2, 2, 6, 5)], [(2, 4, 3, 5)], {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "operands", "dims", "attributes"), CASES)
def test_forms_compute_what_the_reference_computes(
    kind: str,
    operands: list[Array],
    dims: list[tuple[int, ...]],
    attributes: dict[str, AttributeValue],
) -> None:
    """Under jit, where no number is known when the program is made."""
    types = ["int64" if kind == "TopK" and i else "float64" for i in range(len(dims))]
    types = ["bool"] if kind == "Greater" else types
    names = [f"in{i}" for i in range(len(operands))]
    tensors = {
        n: Tensor(n, a.shape, str(a.dtype), Role.INPUT)
        for n, a in zip(names, operands, strict=True)
    }
    outputs = tuple(f"out{i}" for i in range(len(dims)))
    made = zip(outputs, dims, types, strict=True)
    tensors.update({n: Tensor(n, d, t) for n, d, t in made})
    op = Op("op", kind, tuple(names), outputs, attributes)
    graph = OpGraph("one", tensors, (op,), tuple(names), outputs)
    expected = Evaluator().run(op, operands, [tensors[n] for n in outputs], dims)
    with jax.enable_x64(True):
        found = jax.jit(lambda *given: run_operator(op, graph, given, {}, double=True))(*operands)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-9, atol=1e-12)


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...] | None]]:
    """Dims and steps: other dims of as many elements, or None for a turn of all dimensions."""
    primes = draw(st.lists(st.sampled_from([1, 2, 2, 3]), min_size=1, max_size=5))
    steps: list[tuple[int, ...] | None] = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            steps.append(None)
            continue
        factors = draw(st.permutations(primes))
        ends = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=3)))
        cuts = [0, *ends, len(factors)]
        steps.append(tuple(math.prod(factors[a:b]) for a, b in itertools.pairwise(cuts)))
    return tuple(primes), steps


@given(chains())
def test_a_view_of_views_is_what_the_views_make(
    case: tuple[tuple[int, ...], list[tuple[int, ...] | None]],
) -> None:
    """Reshapes and turns one after the other, or as one reshape, turn and reshape."""
    dims, steps = case
    array = np.arange(math.prod(dims)).reshape(dims)
    view, expected = view_of(array), array
    for step in steps:
        if step is None:
            expected = expected.transpose()
            view = view.transposed(tuple(reversed(range(expected.ndim))))
            continue
        expected = expected.reshape(step)
        cut = view.reshaped(step)
        if cut is None:
            return
        view = cut
    np.testing.assert_array_equal(np.asarray(view.made()), expected)


def test_a_dimension_that_is_merged_for_a_moment_stays_apart() -> None:
    """The batch and the heads of attention, whose keys are turned as 32 matrices."""
    array = np.arange(2 * 8 * 2 * 6 * 4).reshape(2, 8, 2, 6, 4)
    merged = view_of(array).reshaped((32, 6, 4))
    assert merged is not None
    back = merged.transposed((0, 2, 1)).reshaped((2, 16, 4, 6))
    assert back is not None
    assert [len(dim) for dim in back.dims] == [1, 2, 1, 1]
    expected = array.reshape(32, 6, 4).transpose(0, 2, 1).reshape(2, 16, 4, 6)
    np.testing.assert_array_equal(np.asarray(back.made()), expected)
    assert view_of(array).reshaped((5, 7)) is None
