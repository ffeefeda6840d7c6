"""Resizing, sampling and transforms of images and signals."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.placement import Array
from executors.semantics.arrays import np
from executors.semantics.call import Call, Semantics
from executors.semantics.resampling import resamplings
from executors.semantics.sampling import (
    affine_grid,
    deform_conv,
    grid_sample,
    max_roi_pool,
    roi_align,
)
from executors.semantics.spectra import dft, stft


def _resize(call: Call) -> list[Array]:
    found = call[0]
    filling = call.float("extrapolation_value", 0.0)
    for axis, each in enumerate(resamplings(call)):
        if each.is_identity:
            continue
        found = np.moveaxis(np.tensordot(found, each.matrix(), axes=([axis], [1])), -1, axis)
        outside = each.outside().reshape([-1 if d == axis else 1 for d in range(found.ndim)])
        found = np.where(outside, filling, found)
    return [found]


def _det(call: Call) -> list[Array]:
    return [np.linalg.det(call[0])]


IMAGES: Mapping[str, Semantics] = MappingProxyType(
    {
        **dict.fromkeys(("Resize", "Upsample"), _resize),
        "GridSample": grid_sample,
        "AffineGrid": affine_grid,
        "RoiAlign": roi_align,
        "MaxRoiPool": max_roi_pool,
        "DeformConv": deform_conv,
        "Det": _det,
        "DFT": dft,
        "STFT": stft,
    }
)
