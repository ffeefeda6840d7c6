"""What is imported of convolutions, pooling and sampling computes what the file says."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.importers.imported import check_import, model_of, random_inputs

pytestmark = pytest.mark.fast

CASES = {
    "conv same": '(float[2,3,5,6] x, float[4,3,3,2] w, float[4] b) => (y) '
    '{y = Conv<auto_pad="SAME_UPPER", strides=[2,1]>(x, w, b)}',
    "conv same lower": '(float[2,3,6] x, float[4,3,4] w) => (y) '
    '{y = Conv<auto_pad="SAME_LOWER", strides=[2]>(x, w)}',
    "conv dilated": "(float[2,3,7] x, float[4,3,2] w) => (y) "
    "{y = Conv<dilations=[3], pads=[1,0]>(x, w)}",
    "conv valid": '(float[2,3,5] x, float[4,3,2] w) => (y) '
    '{y = Conv<auto_pad="VALID", pads=[0,0]>(x, w)}',
    "transposed": "(float[2,3,4,3] x, float[3,4,3,2] w, float[4] b) => (y) "
    "{y = ConvTranspose<strides=[2,3], output_padding=[1,2], pads=[1,0,0,1]>(x, w, b)}",
    "transposed same": '(float[2,3,4,3] x, float[3,4,3,3] w) => (y) '
    '{y = ConvTranspose<strides=[2,2], auto_pad="SAME_UPPER">(x, w)}',
    "transposed same lower": '(float[2,3,4,3] x, float[3,4,3,4] w) => (y) '
    '{y = ConvTranspose<strides=[2,3], auto_pad="SAME_LOWER">(x, w)}',
    "maximum, last window short": "(float[2,3,6,5] x) => (y) "
    "{y = MaxPool<kernel_shape=[3,2], strides=[2,2], ceil_mode=1>(x)}",
    "maximum same": '(float[2,3,6,5] x) => (y) '
    '{y = MaxPool<kernel_shape=[3,2], strides=[2,2], auto_pad="SAME_UPPER">(x)}',
    "maximum and places": "(float[2,3,6,5] x) => (y, i) "
    "{y, i = MaxPool<kernel_shape=[3,2], strides=[2,1], storage_order=1, pads=[1,0,0,1]>(x)}",
    "average same": '(float[2,3,6,5] x) => (y) '
    '{y = AveragePool<kernel_shape=[3,2], strides=[2,2], auto_pad="SAME_LOWER">(x)}',
    "average with padding": "(float[2,3,6,5] x) => (y) "
    "{y = AveragePool<kernel_shape=[3,2], pads=[1,1,1,0], count_include_pad=1>(x)}",
    "average, last window short": "(float[2,3,5,6] x) => (y) {y = AveragePool<kernel_shape=[2,3], "
    "strides=[2,2], pads=[0,1,0,1], count_include_pad=1, ceil_mode=1>(x)}",
    "norm": "(float[2,3,6,5] x) => (y) {y = LpPool<kernel_shape=[3,2], p=3, pads=[1,0,0,1]>(x)}",
    "unpool": "(float[2,1,2,2] x, int64[2,1,2,2] i) => (float[2,1,5,5] y) <int64[4] s = {2,1,5,5}> "
    "{y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i, s)}",
    "fold": "(float[2,12,12] x) => (y) <int64[2] i = {5,4}, int64[2] b = {2,2}> "
    "{y = Col2Im(x, i, b)}",
    "transform": "(float[2,6,1] x) => (y) {y = DFT<onesided=1>(x)}",
    "transform of a length": "(float[2,6,3,2] x) => (y) <int64 n = {5}, int64 a = {1}> "
    "{y = DFT(x, n, a)}",
    "inverse of half": "(float[2,5,2] x) => (y) {y = DFT<inverse=1, onesided=1>(x)}",
    "frames": "(float[2,12,1] x, float[4] w) => (y) <int64 s = {3}> {y = STFT(x, s, w)}",
    "frames without window": "(float[2,12,2] x) => (y) <int64 s = {4}, int64 n = {6}> "
    "{y = STFT<onesided=0>(x, s, , n)}",
    "sizes": "(float[2,3,4,5] x) => (y) <int64[4] s = {2,3,7,3}> "
    '{y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , , s)}',
    "scales": "(float[2,3,4,5] x) => (y) <float[4] s = {1, 1, 1.3, 0.7}> "
    '{y = Resize<mode="cubic", cubic_coeff_a=-0.5>(x, , s)}',
    "scales of axes": "(float[2,3,4,5] x) => (y) <float[2] s = {1.3, 2}> "
    '{y = Resize<mode="linear", axes=[2,3]>(x, , s)}',
    "sizes within": "(float[1,2,4,6] x) => (y) <int64[2] s = {6,6}> {y = Resize<mode=\"linear\", "
    'axes=[2,3], keep_aspect_ratio_policy="not_larger">(x, , , s)}',
    "crop": "(float[1,2,4,6] x) => (y) <int64[4] s = {1,2,3,3}, "
    "float[8] r = {0, 0, 0.25, 0.5, 1, 1, 0.75, 1.5}> {y = Resize<mode=\"linear\", "
    'coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0>(x, r, , s)}',
    "grid": "(float[2,3,4,5] x, float[2,3,2,2] g) => (y) "
    '{y = GridSample<mode="cubic", padding_mode="border", align_corners=1>(x, g)}',
    "affine grid": "(float[2,2,3] t) => (y) <int64[4] s = {2,3,4,5}> "
    "{y = AffineGrid<align_corners=1>(t, s)}",
    "deformed": "(float[1,2,3,4] x, float[2,2,2,2] w, float[1,8,2,3] o, float[2] b, "
    "float[1,4,2,3] m) => (y) {y = DeformConv(x, w, o, b, m)}",
    "determinant": "(float[2,3,3] x) => (y) {y = Det(x)}",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_imported_image_operator_computes_the_same(name: str) -> None:
    given = {"i": np.array([0, 3, 8, 9, 16, 19, 25, 31]).reshape(2, 1, 2, 2)}
    check_import(CASES[name], given=given if name == "unpool" else {})


def test_grouped_transposed_convolutions_are_those_of_their_groups() -> None:
    """The reference knows groups of one channel alone."""
    text = "(float[2,4,3] x, float[4,2,2] w) => (y) {y = ConvTranspose<group=2>(x, w)}"
    one = "(float[2,2,3] x, float[2,2,2] w) => (y) {y = ConvTranspose(x, w)}"
    draw = np.random.default_rng(1)
    x, w = (draw.uniform(-1, 1, d).astype(np.float32) for d in ((2, 4, 3), (4, 2, 2)))
    wanted = np.zeros((2, 4, 4))
    for c in range(4):
        for o in range(2):
            for k in range(2):
                wanted[:, c // 2 * 2 + o, k : k + 3] += x[:, c] * w[c, o, k]
    check_import(text, wanted=[wanted], given={"x": x, "w": w})
    check_import(one)


def test_a_wanted_size_says_how_much_is_cut_off() -> None:
    """What does not divide evenly is cut off in front; the reference cuts nothing off."""
    text = "(float[2,3,4,3] x, float[3,4,3,2] w) => (y) {y = ConvTranspose<strides=[2,2], "
    padded = model_of(text + "pads=[1,0,0,0]>(x, w)}")
    wanted = list(ReferenceEvaluator(padded).run(None, random_inputs(padded)))
    check_import(text + "output_shape=[8,6]>(x, w)}", wanted=wanted)


def test_older_opsets_name_modes_otherwise() -> None:
    check_import(
        '(float[2,3,4,5] x, float[2,3,2,2] g) => (y) {y = GridSample<mode="bilinear">(x, g)}',
        16,
        wanted=check_newest("linear"),
    )
    graph = check_import(
        "(float[1,1,2,3] x) => (y) <float[4] s = {1, 1, 2, 2}> "
        '{y = Upsample<mode="nearest">(x, s)}',
        9,
        wanted=[np.repeat(np.repeat(_ramp(), 2, 2), 2, 3)],
        given={"x": _ramp()},
    )
    assert graph.ops[0].attributes == {"mode": "nearest"}


def _ramp() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)


def check_newest(mode: str) -> list[np.ndarray]:
    """Results of the newest opset for the inputs that older ones get as well."""
    text = "(float[2,3,4,5] x, float[2,3,2,2] g) => (y) "
    model = model_of(text + f'{{y = GridSample<mode="{mode}">(x, g)}}')
    return list(ReferenceEvaluator(model).run(None, random_inputs(model)))


def test_a_scale_that_keeps_the_size_is_kept() -> None:
    """4 times 1.1 is 4 again, but every element moves."""
    graph = check_import(
        '(float[2,3,4] x) => (y) <float[3] s = {1, 1, 1.1}> {y = Resize<mode="linear">(x, , s)}'
    )
    assert "scales" in graph.ops[0].attributes
