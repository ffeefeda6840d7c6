"""Numbers of the constants of a network: what verification computes with. Planning needs none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Dims: TypeAlias = tuple[int, ...]
Filling: TypeAlias = Callable[[Dims], Array]
"""An array of these dims."""

_LOWEST = -1e9
"""Stands for minus infinity: hides a key, and stays finite in sums."""
_ROTARY_BASE = 10_000.0
_FARTHEST = 128
"""Distance from which T5 tells no two apart."""


def filled(number: float) -> Filling:
    """The same number everywhere."""
    return lambda dims: np.full(dims, number)


def counted(dims: Dims) -> Array:
    """0, 1, 2 ... along the last dimension."""
    return np.broadcast_to(np.arange(dims[-1] if dims else 1), dims or (1,)).reshape(dims)


def slopes(dims: Dims) -> Array:
    """Logarithms of fixed decays by head, in geometric order.

    Source: lightning attention, arXiv 2401.04658, section 4.
    """
    heads = dims[-1]
    return np.broadcast_to(-np.power(2.0, -8.0 * (np.arange(heads) + 1) / heads), dims)


def causal_mask(dims: Dims) -> Array:
    """What hides the keys behind a row, `[..., rows, keys]`."""
    rows, keys = dims[-2:]
    hidden = np.arange(keys) > np.arange(rows)[:, None]
    return np.broadcast_to(np.where(hidden, _LOWEST, 0.0), dims)


def _angles(rows: int, pairs: int) -> Array:
    """Source: Su et al., RoFormer, arXiv 2104.09864, section 3.3."""
    frequencies = _ROTARY_BASE ** (-np.arange(pairs) / pairs)
    return np.asarray(np.arange(rows)[:, None] * frequencies)


def rotary(function: Callable[[Array], Array], times: int) -> Filling:
    """Cosine or sine of every row's angles, `[1, 1, rows, width]`, so many times in a row."""

    def fill(dims: Dims) -> Array:
        angles = np.tile(_angles(dims[-2], dims[-1] // times), (1, times))
        return np.broadcast_to(function(angles), dims)

    return fill


def waves(dims: Dims) -> Array:
    """Fixed positions, `[1, rows, width]`: sines, then cosines.

    Source: Vaswani et al., arXiv 1706.03762, section 3.5.
    """
    angles = _angles(dims[-2], max(dims[-1] // 2, 1))
    both = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    return np.resize(both, dims)


def distance_buckets(buckets: int, *, causal: bool) -> Filling:
    """The row of the table of biases for every pair of rows, `[rows, keys]`: the first half of the
    buckets for short distances, the others on a logarithmic scale.

    Source: Raffel et al., arXiv 1910.10683, section 2.1.
    """

    def fill(dims: Dims) -> Array:
        away = np.arange(dims[1]) - np.arange(dims[0])[:, None]
        ways = 1 if causal else 2
        count = max(buckets // ways, 1)
        far = np.maximum(-away, 0) if causal else np.abs(away)
        exact = max(count // 2, 1)
        steps = np.log(np.maximum(far, 1) / exact) / np.log(_FARTHEST / exact)
        coarse = exact + (np.clip(steps, 0, None) * (count - exact)).astype(int)
        found = np.where(far < exact, far, np.minimum(coarse, count - 1))
        shift = 0 if causal else buckets // 2
        return np.asarray(found + np.where(away > 0, shift, 0))

    return fill
