"""Resizing of images as one matrix for each dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from executors.placement import Array
from executors.semantics.call import Call


@dataclass(frozen=True, slots=True)
class Resampling:
    """How one dimension is resized."""

    size: int
    wanted: int
    scale: float
    region: tuple[float, float]
    """Part of the image that is read, where the mode crops."""
    mode: str
    coordinates: str
    rounding: str
    cubic: float
    exclude_outside: bool
    antialias: bool

    @property
    def is_identity(self) -> bool:
        same = self.size == self.wanted and math.isclose(self.scale, 1.0)
        return same and not self._is_cropped

    @property
    def _is_cropped(self) -> bool:
        return self.coordinates == "tf_crop_and_resize" and self.region != (0.0, 1.0)

    def places(self) -> Array:
        """Where each element of the result lies in the image."""
        number = np.arange(self.wanted, dtype=np.float64)
        length, last = self.scale * self.size, self.size - 1
        first, end = self.region
        middle = (number + 0.5) / self.scale - 0.5
        if self.coordinates == "align_corners":
            return number * 0.0 if length == 1 else number * last / (length - 1)
        if self.coordinates == "asymmetric":
            return number / self.scale
        if self.coordinates == "tf_crop_and_resize" and length == 1:
            return number * 0 + (end - first) * last / 2 + first * last
        if self.coordinates == "tf_crop_and_resize":
            return number * (end - first) * last / (length - 1) + first * last
        if self.coordinates == "pytorch_half_pixel" and length == 1:
            return number * 0 - 0.5
        if self.coordinates == "half_pixel_symmetric":
            return middle + self.size / 2 * (1 - self.wanted / length)
        return middle

    def outside(self) -> Array:
        """Elements of the result whose place lies outside, where the mode fills them."""
        places = self.places()
        return self._is_cropped & ((places < 0) | (places > self.size - 1))

    def matrix(self) -> Array:
        """What each element of the result takes of each element of the image."""
        places, out = self.places(), np.zeros((self.wanted, self.size))
        for row, place in enumerate(places):
            for index, weight in self._taps(float(place)):
                out[row, min(max(index, 0), self.size - 1)] += weight
        return out

    def _taps(self, place: float) -> list[tuple[int, float]]:
        if self.mode == "nearest":
            return [(self._nearest(place), 1.0)]
        reach = 1 if self.mode == "linear" else 2
        shrink = min(self.scale, 1.0) if self.antialias else 1.0
        width = math.ceil(reach / shrink)
        indices = range(math.floor(place) - width, math.floor(place) + width + 2)
        taps = [(i, self._kernel(shrink * (i - place))) for i in indices]
        if self.exclude_outside:
            taps = [(i, w if 0 <= i < self.size else 0.0) for i, w in taps]
        total = sum(w for _, w in taps)
        return [(i, w / total) for i, w in taps if w]

    def _nearest(self, place: float) -> int:
        if self.rounding == "floor":
            return math.floor(place)
        if self.rounding == "ceil":
            return math.ceil(place)
        if self.rounding == "round_prefer_ceil":
            return math.floor(place + 0.5)
        return math.ceil(place - 0.5)

    def _kernel(self, distance: float) -> float:
        x, a = abs(distance), self.cubic
        if self.mode == "linear":
            return max(0.0, 1 - x)
        if x <= 1:
            return ((a + 2) * x - (a + 3)) * x * x + 1
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def resamplings(call: Call) -> list[Resampling]:
    """How each dimension is resized."""
    size, wanted = call[0].shape, call.result_dims[0]
    attributes, rank = call.op.attributes, len(size)
    plain = call.op.kind == "Upsample"
    ratios = tuple(w / s for w, s in zip(wanted, size, strict=True))
    scales = _floats(attributes.get("scales", ratios))
    region = _floats(attributes.get("roi", (0.0,) * rank + (1.0,) * rank))
    way = "asymmetric" if plain else "half_pixel"
    return [
        Resampling(
            size=size[i],
            wanted=wanted[i],
            scale=ratios[i] if math.isclose(scales[i], ratios[i], rel_tol=1e-6) else scales[i],
            region=(region[i], region[rank + i]),
            mode=str(attributes.get("mode", "nearest")),
            coordinates=str(attributes.get("coordinate_transformation_mode", way)),
            rounding=str(
                attributes.get("nearest_mode", "floor" if plain else "round_prefer_floor")
            ),
            cubic=call.float("cubic_coeff_a", -0.75),
            exclude_outside=bool(call.int("exclude_outside")),
            antialias=bool(call.int("antialias")),
        )
        for i in range(rank)
    ]


def _floats(value: object) -> tuple[float, ...]:
    return tuple(float(v) for v in value) if isinstance(value, tuple) else ()
