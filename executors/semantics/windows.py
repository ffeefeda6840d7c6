"""Windows of convolutions and pooling: which positions of an image each of them sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from executors.placement import Array
from ir.semantics.arrays import np
from ir.semantics.call import Call, CallOf


@dataclass(frozen=True, slots=True)
class Windows:
    """Sliding windows over one dimension."""

    size: int
    """Positions of the image."""
    count: int
    """Windows."""
    kernel: int
    stride: int
    dilation: int
    before: int
    """Padding in front."""
    after: int
    """Padding behind."""

    @property
    def places(self) -> Array:
        """Position in the image that each place of each window sees: kernel, windows."""
        starts = np.arange(self.count) * self.stride - self.before
        return starts[None, :] + np.arange(self.kernel)[:, None] * self.dilation

    @property
    def inside(self) -> Array:
        """Which of these lie in the image."""
        places = self.places
        return (places >= 0) & (places < self.size)

    @property
    def padded(self) -> Array:
        """Which of these lie in the image or in its padding."""
        places = self.places
        return (places >= -self.before) & (places < self.size + self.after)

    @property
    def selection(self) -> Array:
        """One where a place of a window is a position of the image: kernel, windows, size."""
        return (self.places[..., None] == np.arange(self.size)).astype(np.float64)


def windows_of(
    call: Call, image: tuple[int, ...], counts: tuple[int, ...], kernel: tuple[int, ...]
) -> list[Windows]:
    """Windows over every dimension of an image, from the attributes of the operator."""
    rank = len(image)
    strides, dilations = call.ints("strides", (1,) * rank), call.ints("dilations", (1,) * rank)
    pads = call.ints("pads", (0,) * (2 * rank))
    return [
        Windows(image[i], counts[i], kernel[i], strides[i], dilations[i], pads[i], pads[rank + i])
        for i in range(rank)
    ]


def paddings(
    call: CallOf[Any], image: Sequence[int], kernel: Sequence[int]
) -> list[tuple[int, int]]:
    """Padding before and behind each dimension, such that the result has as many windows as it
    should: the last ones are filled up.
    """
    rank = len(kernel)
    strides, dilations = call.ints("strides", (1,) * rank), call.ints("dilations", (1,) * rank)
    pads = call.ints("pads", (0,) * (2 * rank))
    out = []
    for i, count in enumerate(call.result_dims[0][2:]):
        seen = (count - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
        out.append((pads[i], seen - image[i] - pads[i]))
    return out


def gathered(image: Array, windows: list[Windows], outside: float = 0.0) -> Array:
    """What each window sees: images, channels, then kernel positions, then windows."""
    rank, found = len(windows), image
    for number, each in enumerate(windows):
        axis = 2 + 2 * number
        seen = np.clip(each.places, 0, max(each.size - 1, 0))
        found = found[(*(slice(None),) * axis, seen)]
        inside = each.inside
        shape = (*inside.shape, *(1,) * (rank - 1 - number))
        found = np.where(np.reshape(inside, shape), found, outside)
    return np.transpose(found, (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 2 + 2 * rank, 2)))


def spread_out(values: Array, windows: list[Windows], lead: int) -> Array:
    """Add what every place of every window holds to its position of the image.

    Args:
        values: `lead` dimensions, then kernel positions, then windows.
        windows: over each dimension of the image.
        lead: dimensions that stand in front.
    """
    found = values
    for number, each in enumerate(windows):
        left = len(windows) - number
        axes = ([lead, lead + left], [0, 1])
        found = np.tensordot(found, each.selection.astype(found.dtype), axes=axes)
    return found


def along(vectors: list[Array]) -> Array:
    """Flags of kernel positions and windows, one array for each dimension, as one over all."""
    rank = len(vectors)
    out = np.ones((1,) * (2 * rank))
    for number, each in enumerate(vectors):
        shape = [1] * (2 * rank)
        shape[number], shape[rank + number] = each.shape
        out = out * np.reshape(each, shape)
    return out


def flat_kernel(values: Array, rank: int, lead: int = 2) -> Array:
    """Kernel positions as one last dimension, behind the windows."""
    order = (*range(lead), *range(lead + rank, lead + 2 * rank), *range(lead, lead + rank))
    moved = np.transpose(values, order)
    count = math.prod(values.shape[lead : lead + rank])
    return np.reshape(moved, (*moved.shape[: lead + rank], count))
