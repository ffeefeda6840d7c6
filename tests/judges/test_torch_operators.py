"""The torch forms of operators compute what the numpy executor computes, forward and backward."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from executors.dtensor.call import Call
from executors.dtensor.kernels import KERNELS
from executors.evaluation import Evaluator
from executors.placement import Array
from ir.graph import Tensor
from tests.operators.example import Example
from tests.operators.examples import EXAMPLES
from tests.operators.laws import ONE, Case, differentiable

TOLERANCE = 1e-9
NOT_WRITTEN = {
    "AffineGrid", "Bernoulli", "Col2Im", "Combine", "Compress", "ConvInteger", "DFT", "DeformConv",
    "DequantizeLinear", "Dispatch", "DynamicQuantizeLinear", "ExpertMatMulNBits", "GridSample",
    "LRN", "MatMulInteger", "MatMulNBits", "MaxUnpool", "Mod", "QLinearConv", "QLinearMatMul",
    "QuantizeLinear", "ReduceProd", "Resize", "ReverseSequence", "RoiAlign", "STFT",
    "TensorScatter", "Upsample",
}  # fmt: skip
"""Kinds of which torch runs no example; the list only gets shorter."""
DRAWN = {"Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
"""Kinds whose results are random numbers."""


def results_of(example: Example) -> list[Tensor]:
    return [example.graph.tensors[n] for n in example.op.outputs if n]


def tensors_of(example: Example, wanted: Sequence[int]) -> list[torch.Tensor | None]:
    return [
        None if a is None else torch.tensor(a).requires_grad_(i in wanted)
        for i, a in enumerate(example.operands)
    ]


def in_torch(example: Example, operands: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    results = results_of(example)
    dims, dtypes = tuple(t.dims for t in results), tuple(t.dtype for t in results)
    return KERNELS[example.op.kind](Call(example.op, tuple(operands), dims, dtypes))


def run(kind: str) -> Iterator[tuple[Example, list[torch.Tensor | None], list[torch.Tensor]]]:
    """Examples that torch runs, with operands and results."""
    for example in EXAMPLES[kind](random.Random(kind)):
        operands = tensors_of(example, differentiable(example))
        try:
            yield example, operands, in_torch(example, operands)
        except NotImplementedError:
            continue


def assert_equal(found: Array, wanted: Array, about: str) -> None:
    assert found.shape == wanted.shape, about
    np.testing.assert_allclose(found, wanted, TOLERANCE, TOLERANCE, err_msg=about)


def seeds_of(results: Sequence[torch.Tensor]) -> list[Array | None]:
    """Gradients of the results that have one."""
    draw = np.random.default_rng(0)
    return [draw.uniform(-1, 1, r.shape) if r.requires_grad else None for r in results]


@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # numpy's functions
@pytest.mark.parametrize("kind", sorted(set(KERNELS) & set(EXAMPLES) - DRAWN))
def test_results_and_gradients_are_those_of_numpy(kind: str) -> None:
    count = 0
    for example, operands, results in run(kind):
        count += 1
        dims = [t.dims for t in results_of(example)]
        expected = Evaluator().run(example.op, example.operands, results_of(example), dims)
        for one, other in zip(results, expected, strict=True):
            assert_equal(one.detach().numpy(), other, str(example))
        seeds = seeds_of(results)
        wanted = [i for i in differentiable(example) if any(s is not None for s in seeds)]
        if not wanted:
            continue
        pairs = [(r, torch.tensor(s)) for r, s in zip(results, seeds, strict=True) if s is not None]
        leaves = [operands[i] for i in wanted]
        ends, shares = zip(*pairs, strict=True)
        found = torch.autograd.grad(ends, leaves, shares, allow_unused=True)
        gradients, _ = Case(example, ONE, (-1,)).backward(seeds, wanted)
        for leaf, one, other in zip(leaves, found, gradients, strict=True):
            own = torch.zeros_like(leaf) if one is None else one
            assert_equal(own.numpy(), other, f"gradients of {example}")
    assert (count == 0) == (kind in NOT_WRITTEN), "what runs and what is listed differ"


def test_kinds_of_the_list_are_in_the_catalogue() -> None:
    assert set(EXAMPLES) > NOT_WRITTEN | DRAWN
