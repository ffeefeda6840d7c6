"""Examples of normalisations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from executors.placement import Array
from tests.operators.example import Draw, Example, Maker, example, floats

_CASES = (((4, 8), 1), ((3, 4, 6), 2), ((4, 6, 8), 1), ((2, 2, 3, 4), 2), ((8,), 0), ((6, 4), 0))
_IMAGES = ((4, 6), (4, 3, 8), (2, 4, 3, 6), (2, 3, 4, 2, 2))


def _layer_norm(draw: Draw) -> Iterator[Example]:
    """With and without bias, vectors that broadcast, and the statistics as results."""
    kind = "LayerNormalization"
    for dims, axis in _CASES:
        x, scale, bias = (floats(draw, *d) for d in (dims, dims[axis:], dims[axis:]))
        few = tuple(d if i < axis else 1 for i, d in enumerate(dims))
        yield example(kind, [x, scale], [dims, few], axis=axis, epsilon=0.125)
        yield example(kind, [x, scale, bias], [dims, few, few], axis=axis)
    x = floats(draw, 4, 6, 8)
    each = floats(draw, 8)
    for operands in ([x, each], [x, each, floats(draw, 8)], [x, each, None]):
        yield example(kind, operands, [(4, 6, 8)], axis=2)
    yield example(kind, [x, floats(draw, 6, 8)], [(4, 6, 8)], axis=1)
    yield example(kind, [x, floats(draw, 1, 8)], [(4, 6, 8)], axis=1)
    yield example(kind, [x, floats(draw, 1, 8), floats(draw, 6, 1)], [(4, 6, 8)], axis=1)
    yield example(kind, [x, floats(draw, 8), None], [(4, 6, 8)], axis=1)


def _rms_norm(kind: str) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        for dims, axis in _CASES:
            x, scale = floats(draw, *dims), floats(draw, *dims[axis:])
            yield example(kind, [x, scale], [dims], axis=axis, epsilon=0.125)
            if kind == "SimplifiedLayerNormalization":
                few = tuple(d if i < axis else 1 for i, d in enumerate(dims))
                yield example(kind, [x, scale], [dims, few], axis=axis)
        yield example(kind, [floats(draw, 4, 6, 8), floats(draw, 1, 8)], [(4, 6, 8)], axis=1)

    return make


def _vectors(draw: Draw, size: int) -> list[Array]:
    return [floats(draw, size), floats(draw, size)]


def _batch_norm(draw: Draw) -> Iterator[Example]:
    """Statistics of the batch, as in training, and stored ones."""
    kind = "BatchNormalization"
    for dims in _IMAGES:
        size = dims[1]
        stored = [floats(draw, size), floats(draw, size, low=0.5)]
        given = [floats(draw, *dims), *_vectors(draw, size), *stored]
        yield example(kind, given, [dims])
        yield example(kind, given, [dims], training=0, epsilon=0.125)
        yield example(
            kind, given, [dims, (size,), (size,)], training=1, training_mode=1, momentum=0.75
        )


def _instance_norm(draw: Draw) -> Iterator[Example]:
    for dims in _IMAGES[1:]:
        given = [floats(draw, *dims), *_vectors(draw, dims[1])]
        yield example("InstanceNormalization", given, [dims], epsilon=0.125)


def _group_norm(draw: Draw) -> Iterator[Example]:
    """A scale for every channel, and for every group as before opset 21."""
    for dims, groups in (((4, 6, 8), 3), ((6, 4, 2, 3), 2), ((8, 6), 2)):
        x = floats(draw, *dims)
        for size in (dims[1], groups):
            given = [x, *_vectors(draw, size)]
            yield example("GroupNormalization", given, [dims], num_groups=groups, epsilon=0.125)


def _lp_norm(draw: Draw) -> Iterator[Example]:
    for dims, axis in (((8,), 0), ((4, 6), 0), ((3, 6, 4), 1), ((2, 4, 2, 8), 3)):
        for p in (1, 2):
            yield example("LpNormalization", [floats(draw, *dims)], [dims], axis=axis, p=p)


def _mean_variance(draw: Draw) -> Iterator[Example]:
    for dims, axes in (((4, 3, 2, 6), (0, 2, 3)), ((6, 4, 8), (2,)), ((4, 6), (0, 1))):
        yield example("MeanVarianceNormalization", [floats(draw, *dims)], [dims], axes=axes)


def _local_response(draw: Draw) -> Iterator[Example]:
    for dims, size in (((4, 6, 2, 3), 3), ((2, 3, 8, 4), 2), ((3, 8, 6, 2), 5), ((4, 4, 6), 3)):
        x = floats(draw, *dims)
        yield example("LRN", [x], [dims], size=size, alpha=0.5, beta=0.75, bias=1.5)


NORMALISATIONS: Mapping[str, Maker] = MappingProxyType(
    {
        "LayerNormalization": _layer_norm,
        "RMSNormalization": _rms_norm("RMSNormalization"),
        "SimplifiedLayerNormalization": _rms_norm("SimplifiedLayerNormalization"),
        "BatchNormalization": _batch_norm,
        "InstanceNormalization": _instance_norm,
        "GroupNormalization": _group_norm,
        "LpNormalization": _lp_norm,
        "MeanVarianceNormalization": _mean_variance,
        "LRN": _local_response,
    }
)
