"""Numbers that follow from constants, of any size that fits."""

from __future__ import annotations

import pytest
from onnx import ModelProto, parser

from importers.onnx_constants import MAX_ELEMENTS, model_values

pytestmark = pytest.mark.fast

MASK = """<ir_version: 10, opset_import: ["": 20]>
mask (float[N, 4] x) => (bool[M, M] seen)
<int64 zero = {0}, int64 one = {1}, int64[1] axis = {1}>
{
    size = Shape <start = 0, end = 1> (x)
    count = Squeeze (size)
    rows = Range (zero, count, one)
    columns = Unsqueeze (rows, axis)
    seen = LessOrEqual (rows, columns)
}
"""


def _mask() -> ModelProto:
    model: ModelProto = parser.parse_model(MASK)
    return model


def test_a_mask_is_computed() -> None:
    (mask,) = model_values(_mask(), ["seen"], {"N": 3}).values()
    assert mask.tolist() == [[j <= i for j in range(3)] for i in range(3)]


def test_a_mask_that_would_fill_the_memory_is_not_made() -> None:
    side = int(MAX_ELEMENTS**0.5) + 1
    assert model_values(_mask(), ["seen"], {"N": side}) == {}
