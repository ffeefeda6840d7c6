"""Windows of convolutions and pooling: which positions of an image each of them sees."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from executors.placement import Array
from ir.semantics.arrays import np
from ir.semantics.call import CallOf


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
    def reach(self) -> tuple[int, int]:
        """How far windows see in front of the image and behind it; negative short of its ends."""
        seen = (self.count - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        return self.before, seen - self.before - self.size

    def at(self, place: int) -> slice:
        """Positions that all windows see at one place of the kernel, in the image as padded."""
        first = place * self.dilation + max(0, -self.before)
        return slice(first, first + max(0, (self.count - 1) * self.stride + 1), self.stride)

    @property
    def selection(self) -> Array:
        """One where a place of a window is a position of the image: kernel, windows, size."""
        return (self.places[..., None] == np.arange(self.size)).astype(np.float64)


def windows_of(
    call: CallOf[Any], image: Sequence[int], counts: Sequence[int], kernel: Sequence[int]
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
    return [each.reach for each in windows_of(call, image, call.result_dims[0][2:], kernel)]


def seen(image: Array, windows: list[Windows], outside: float = 0.0) -> list[Array]:
    """For each place of the kernel what the windows see there: images, channels, windows.

    By slices, not by indices: libraries that split images and channels follow these.
    """
    more = [(0, 0), (0, 0), *((max(0, a), max(0, b)) for a, b in (w.reach for w in windows))]
    if any(width for pair in more for width in pair):
        image = np.pad(image, more, "constant", constant_values=outside)
    every = itertools.product(*(range(each.kernel) for each in windows))
    places = (map(Windows.at, windows, place) for place in every)
    return [image[(slice(None), slice(None), *place)] for place in places]


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
