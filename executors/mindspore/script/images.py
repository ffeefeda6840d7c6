"""Convolutions, pooling and batch normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mindspore import ops

from executors.mindspore.script.step import NotTranslatedError, Primitive, Step, View, sharded


def _strides(view: View) -> tuple[int, ...]:
    """Steps of a window; by default what the sizes say."""
    sizes = zip(view.dims(0)[2:], view.result()[2:], strict=True)
    given = view.attributes.get("strides")
    return tuple(given) if given else tuple(-(-size // end) for size, end in sizes)


def _pads(view: View, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Padding before and after each position; by default what the sizes say."""
    if "pads" in view.attributes:
        found = tuple(view.attributes["pads"])
        half = len(found) // 2
        return tuple(p for pair in zip(found[:half], found[half:], strict=True) for p in pair)
    out: list[int] = []
    sizes = zip(view.dims(0)[2:], view.result()[2:], kernel, _strides(view), strict=True)
    for size, end, width, stride in sizes:
        total = max((end - 1) * stride + width - size, 0)
        out += [total // 2, total - total // 2]
    return tuple(out)


def _convolution(view: View) -> Step:
    if len(view.dims(0)) != 4 or len(view.present) > 2:
        raise NotTranslatedError("a convolution other than of images, or with a bias of its own")
    kernel = view.dims(1)
    primitive = ops.Conv2D(
        kernel[0],
        kernel[2:],
        pad_mode="pad",
        pad=_pads(view, kernel[2:]),
        stride=_strides(view),
        dilation=tuple(view.attributes.get("dilations", (1, 1))),
        group=int(view.attributes.get("group", 1)),
    )
    return sharded(primitive, view, "self.f(x0, x1)")


def _pool(view: View, make: Primitive) -> Step:
    kernel = tuple(view.attributes.get("kernel_shape", (1, 1)))
    strides = _strides(view)
    if len(kernel) != 2:
        raise NotTranslatedError("pooling other than of images")
    sizes = list(zip(view.dims(0)[2:], view.result()[2:], kernel, strides, strict=True))
    same = all(-(-size // step) == end for size, end, _, step in sizes)
    valid = all((size - width) // step + 1 == end for size, end, width, step in sizes)
    if not same and not valid:
        raise NotTranslatedError("padding that is neither `same` nor `valid`")
    return sharded(make(kernel, strides, "same" if same else "valid"), view, "self.f(x0)")


def _batch_norm(view: View, make: Primitive) -> Step:
    training = bool(view.attributes.get("training", 1))
    norm = make(is_training=training)
    return sharded(norm, view, "self.f(x0, x1, x2, x3, x4)[0]")


def _global_average(view: View) -> Step:
    axes = tuple(range(2, len(view.dims(0))))
    return sharded(ops.ReduceMean(keep_dims=True), view, f"self.f(x0, {axes})")


def _bias_add(view: View, make: Primitive) -> Step:
    """`BiasAdd` has channels second; where they are last it is an addition."""
    rank = len(view.dims(0))
    if view.axis(1) == rank - 1:
        return sharded(ops.Add(), view, "self.f(x0, x1)")
    if view.axis(1) != 1 or rank != 4:
        raise NotTranslatedError("a bias of another dimension than the channels of images")
    return sharded(make(), view, "self.f(x0, x1)")


OWN: Mapping[str, Callable[[View], Step]] = {
    "Conv": _convolution,
    "GlobalAveragePool": _global_average,
}
FORMS: Mapping[Primitive | None, Callable[[View, Primitive], Step]] = {
    ops.AvgPool: _pool,
    ops.BatchNorm: _batch_norm,
    ops.BiasAdd: _bias_add,
    ops.MaxPool: _pool,
}
