"""What is imported of products computes what the file says, quantised or not."""

from __future__ import annotations

import numpy as np
import pytest

from executors.placement import Array
from tests.importers.imported import check_import, model_of, random_inputs

pytestmark = pytest.mark.fast

CASES = {
    "gemm": "(float[4,6] a, float[6,8] b, float[8] c) => (y) {y = Gemm(a, b, c)}",
    "gemm with factors": "(float[6,4] a, float[8,6] b, float[4,1] c) => (y) "
    "{y = Gemm<alpha=0.5, beta=-2.0, transA=1, transB=1>(a, b, c)}",
    "gemm without bias": "(float[4,6] a, float[6,8] b) => (y) {y = Gemm<alpha=0.25>(a, b)}",
    "gemm with a factor of zero": "(float[4,6] a, float[6,8] b, float[8] c) => (y) "
    "{y = Gemm<beta=0.0>(a, b, c)}",
    "einsum": '(float[4,6] a, float[6,8] b) => (y) {y = Einsum<equation="ij,jk">(a, b)}',
    "quantised": "(float[4,6] x, float[6] s, uint8[6] z) => (y) "
    "{y = QuantizeLinear<axis=-1>(x, s, z)}",
    "dequantised": "(uint8[4,6] x, float[2,6] s) => (y) "
    "{y = DequantizeLinear<axis=0, block_size=2>(x, s)}",
    "one number for all": "(float[6] x, float s, uint8 z) => (y) {y = QuantizeLinear(x, s, z)}",
    "dynamic": "(float[4,6] x) => (y, s, z) {y, s, z = DynamicQuantizeLinear(x)}",
    "integer product": "(uint8[4,6] a, uint8[6,8] b, uint8 p, uint8 q) => (y) "
    "{y = MatMulInteger(a, b, p, q)}",
    "rounded product": "(uint8[4,6] a, float as, uint8 az, uint8[6,8] b, float bs, uint8 bz, "
    "float ys, uint8 yz) => (y) {y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)}",
    "integer convolution": "(uint8[2,3,5,4] x, uint8[4,3,2,3] w, uint8 p) => (y) "
    '{y = ConvInteger<auto_pad="SAME_UPPER">(x, w, p)}',
    "rounded convolution": "(uint8[2,3,5,4] x, float xs, uint8 xz, uint8[4,3,2,3] w, float ws, "
    "uint8 wz, float ys, uint8 yz, int32[4] b) => (y) "
    "{y = QLinearConv<pads=[1,0,0,1]>(x, xs, xz, w, ws, wz, ys, yz, b)}",
}


@pytest.mark.parametrize("name", CASES)
def test_an_imported_product_computes_the_same(name: str) -> None:
    given = {
        n: np.asarray(np.abs(v) + 0.5, np.float32)
        for n, v in random_inputs(model_of(CASES[name])).items()
        if n in {"s", "as", "bs", "ys", "xs", "ws"}
    }
    check_import(CASES[name], given=given)


def foreign(text: str, expected: object, **given: Array) -> None:
    """A node of ONNX Runtime computes what a function of its inputs says."""
    model = model_of(text)
    inputs = {**random_inputs(model), **given}
    assert callable(expected)
    check_import(text, wanted=[expected(**inputs)], given=given)


def test_products_of_onnx_runtime() -> None:
    foreign(
        "(float[2,3,4] a, float[2,5,4] b) => (y) "
        "{y = com.microsoft.FusedMatMul<alpha=0.5, transB=1>(a, b)}",
        lambda a, b: 0.5 * a @ np.swapaxes(b, -1, -2),
    )
    foreign(
        "(float[3,2,4] a, float[4,2,5] b) => (y) "
        "{y = com.microsoft.FusedMatMul<transBatchA=1, transBatchB=1>(a, b)}",
        lambda a, b: np.einsum("mbk,kbn->bmn", a, b),
    )
    foreign(
        "(float[4,2,3] a, float[2,4,5] b) => (y) "
        "{y = com.microsoft.FusedMatMul<transA=1, transBatchA=1>(a, b)}",
        lambda a, b: np.einsum("kbm,bkn->bmn", a, b),
    )
    foreign(
        "(float[3,4] a, float[4,5] b, float[5] c) => (y) "
        '{y = com.microsoft.FusedGemm<activation="LeakyRelu", activation_alpha=0.5, alpha=2.0>'
        "(a, b, c)}",
        lambda a, b, c: (v := 2 * a @ b + c, np.where(v > 0, v, 0.5 * v))[1],
    )


def test_quantised_operators_of_onnx_runtime() -> None:
    small = {n: np.asarray(v, np.float32) for n, v in (("s", 0.1), ("t", 0.25), ("u", 0.5))}
    foreign(
        "(uint8[3,4] a, uint8[4,5] b, float s, float t, uint8 p, uint8 q, float[5] c) => (y) "
        "{y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, p, q, c)}",
        lambda a, b, s, t, p, q, c: (
            (a.astype(int) - int(p)) @ (b.astype(int) - int(q)) * s * t + c
        ),
        s=small["s"], t=small["t"],
    )  # fmt: skip
    foreign(
        "(uint8[3,4] a, float s, uint8 p, uint8[4] b, float t, uint8 q, float u, uint8 r) => (y) "
        "{y = com.microsoft.QLinearAdd(a, s, p, b, t, q, u, r)}",
        lambda a, s, p, b, t, q, u, r: np.clip(
            np.rint(((a.astype(int) - int(p)) * s + (b.astype(int) - int(q)) * t) / u) + int(r),
            0, 255,
        ),
        **small,
    )  # fmt: skip


def test_packed_weights_of_onnx_runtime() -> None:
    """Each byte holds two weights, the first one in its low bits."""

    def expected(x: Array, w: Array, s: Array, c: Array) -> Array:
        bits = np.stack([w & 15, w >> 4], axis=-1).reshape(3, 2, 16).astype(np.float32) - 8
        return np.asarray(x @ (bits * s.reshape(3, 2, 1)).reshape(3, 32).T + c)

    foreign(
        "(float[2,32] x, uint8[3,2,8] w, float[6] s, float[3] c) => (y) "
        "{y = com.microsoft.MatMulNBits<K=32, N=3, bits=4, block_size=16>(x, w, s, , , c)}",
        expected,
    )
