"""Parameters of the reference models agree with their published sizes."""

from __future__ import annotations

import pytest

from importers.onnx import import_onnx
from ir.graph import graph_from_dict, graph_to_dict
from tests.reference_models import FOLDER, reference_model

SIZES = {
    "gpt2_small": 124_439_808,
    "gpt2_xl": 1_557_611_200,
    "llama3_70b": 70_553_706_496,
    "llama3_8b_op24": 8_030_261_248,
    "mixtral_8x7b": 46_702_792_704,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "sd15_unet": 859_520_964,
    "vit_large": 304_326_632,
    "mobilenet_v3_large": 5_483_032,
    "gpt_small_train_step": 4_172_800,
}


@pytest.mark.parametrize("name", SIZES)
def test_a_model_has_its_published_number_of_parameters(name: str) -> None:
    assert sum(t.elements for t in reference_model(name).parameters) == SIZES[name]


def test_bound_dimensions_are_remembered() -> None:
    graph = import_onnx(FOLDER / "gpt2_small_dyn.onnx.gz", {"seq": 128, "batch": 4})
    assert graph.symbols == {"batch": 4, "seq": 128}
    assert graph.tensors["input_ids"].dims == (4, 128)
    assert graph_from_dict(graph_to_dict(graph)).symbols == graph.symbols
