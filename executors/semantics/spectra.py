"""Fourier transforms as products with matrices of cosines and sines."""

from __future__ import annotations

from executors.placement import Array
from executors.semantics.arrays import np
from executors.semantics.call import Call


def dft(call: Call) -> list[Array]:
    """The transform along an axis, or its inverse; of real signals half of it is enough."""
    data, axis, length = call[0], call.int("axis"), call.int("length")
    if not call.int("inverse"):
        return [_forward(data, axis, length, call.result_dims[0][axis])]
    real, imaginary = _parts(data, axis)
    if not call.int("onesided"):
        real, imaginary = _product(real, imaginary, length, length, 1.0)
        return [_joined(real / length, imaginary / length, axis)]
    bins = length // 2 + 1
    twice = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == length), 1.0, 2.0)
    real, imaginary = _cut(real, bins) * twice, _cut(imaginary, bins) * twice
    found, _ = _product(real, imaginary, length, length, 1.0)
    return [np.moveaxis(found / length, -1, axis)[..., None]]


def stft(call: Call) -> list[Array]:
    """The transform of every frame of the signal, times the window."""
    length, step = call.int("frame_length"), call.int("frame_step")
    _, frames, bins, _ = call.result_dims[0]
    seen = call[0][:, np.arange(frames)[:, None] * step + np.arange(length)]
    if call.has(1):
        seen = seen * np.reshape(call[1], (-1, 1))
    return [_forward(seen, 2, length, bins)]


def _forward(data: Array, axis: int, length: int, bins: int) -> Array:
    real, imaginary = _parts(data, axis)
    return _joined(*_product(real, imaginary, length, bins, -1.0), axis)


def _parts(data: Array, axis: int) -> tuple[Array, Array]:
    """Real and imaginary part, with the transformed dimension last."""
    real = np.moveaxis(data[..., 0], axis, -1)
    return real, np.moveaxis(data[..., 1], axis, -1) if data.shape[-1] == 2 else 0.0 * real


def _joined(real: Array, imaginary: Array, axis: int) -> Array:
    return np.stack([np.moveaxis(real, -1, axis), np.moveaxis(imaginary, -1, axis)], axis=-1)


def _cut(values: Array, length: int) -> Array:
    """The first elements of the last dimension, zeros behind them."""
    missing = max(0, length - values.shape[-1])
    widths = [(0, 0)] * (values.ndim - 1) + [(0, missing)]
    return np.pad(values[..., :length], widths, mode="constant")


def _product(
    real: Array, imaginary: Array, length: int, bins: int, sign: float
) -> tuple[Array, Array]:
    real, imaginary = _cut(real, length), _cut(imaginary, length)
    size = real.shape[-1]
    angles = sign * 2 * np.pi * np.outer(np.arange(size), np.arange(bins)) / length
    cosines, sines = np.cos(angles), np.sin(angles)
    return real @ cosines - imaginary @ sines, real @ sines + imaginary @ cosines
