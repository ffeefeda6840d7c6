"""What has no gradient: constants, windows, classes, places and random numbers."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ir.semantics.arrays import Array, constant
from ir.semantics.call import Call, Semantics


def filled(call: Call) -> list[Array]:
    value: Any = call.op.attributes.get("value", 0)
    return [np.full([int(d) for d in call[0]], value)]


def counted(call: Call) -> list[Array]:
    first, end, step = (_known(call, i).item() for i in range(3))
    return [np.arange(first, end, step, dtype=_known(call, 0).dtype)]


def non_zero(call: Call) -> list[Array]:
    return [np.asarray(np.nonzero(_known(call, 0)), np.int64)]


def _known(call: Call, index: int) -> Array:
    """An operand as numbers, which dims depend on."""
    return np.asarray(constant(call[index]))


def unit_matrix(call: Call) -> list[Array]:
    rows, columns = call[0].shape
    return [np.eye(rows, columns, k=call.int("k"))]


def _window(*terms: float) -> Semantics:
    """A sum of cosines, each of one more period than the last."""

    def run(call: Call) -> list[Array]:
        size = int(call[0])
        length = size if call.int("periodic", 1) else size - 1
        angle = 2 * np.pi * np.arange(size) / length
        return [np.sum([c * np.cos(i * angle) for i, c in enumerate(terms)], axis=0)]

    return run


def mel_weights(call: Call) -> list[Array]:
    """Triangles over the frequencies of a spectrum, whose corners are equally far on the mel scale.

    Source: ONNX, operator MelWeightMatrix.
    """
    count, length, rate, *edges = (call[i].item() for i in range(5))
    low, high = 2595 * np.log10(1 + np.asarray(edges) / 700)
    mels = low + np.arange(count + 2) * (high - low) / (count + 2)
    corners = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    out = np.zeros((length // 2 + 1, count))
    for i, (left, centre, right) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        out[left : centre + 1, i] = np.linspace(0, 1, centre - left + 1) if centre > left else 1
        if right > centre:
            out[centre:right, i] = np.arange(right - centre, 0, -1) / (right - centre)
    return [out]


def one_hot(call: Call) -> list[Array]:
    """The values are those of the other classes and of the class itself."""
    axis = call.int("axis", call[0].ndim)
    depth = call.result_dims[0][axis]
    classes = np.where(call[0] < 0, call[0] + depth, call[0])
    every = np.arange(depth).reshape([-1, *[1] * (call[0].ndim - axis)])
    return [np.where(np.expand_dims(classes, axis) == every, call[1][1], call[1][0])]


def _drawn(draw: Callable[[Call, np.random.Generator], Array]) -> Semantics:
    """With a seed, so that devices that hold the same draw the same."""
    return lambda call: [draw(call, np.random.default_rng(zlib.crc32(call.op.kind.encode())))]


def _normal(call: Call, generator: np.random.Generator) -> Array:
    mean, scale = call.float("mean", 0.0), call.float("scale", 1.0)
    return mean + scale * generator.standard_normal(call.result_dims[0])


def _uniform(call: Call, generator: np.random.Generator) -> Array:
    low, high = call.float("low", 0.0), call.float("high", 1.0)
    return low + (high - low) * generator.random(call.result_dims[0])


def _bernoulli(call: Call, generator: np.random.Generator) -> Array:
    return generator.random(call[0].shape) < call[0]


def _multinomial(call: Call, generator: np.random.Generator) -> Array:
    """Draws classes by their unnormalised logarithms of probability."""
    rows, classes = call[0].shape
    noise = generator.gumbel(size=(rows, call.int("sample_size", 1), classes))
    return np.argmax(call[0][:, None, :] + noise, axis=-1)


hann, hamming = _window(0.5, -0.5), _window(25 / 46, -21 / 46)
blackman = _window(0.42, -0.5, 0.08)
normal, uniform = _drawn(_normal), _drawn(_uniform)
bernoulli, multinomial = _drawn(_bernoulli), _drawn(_multinomial)
