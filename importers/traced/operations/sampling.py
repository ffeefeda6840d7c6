"""Values at places that are computed: on a grid, and in regions of an image."""

from __future__ import annotations

from collections.abc import Mapping

from importers.errors import UnsupportedError
from importers.traced.call import Call
from importers.traced.table import spelled


@spelled(
    mindir="GridSampler2D(input_x as self, grid, interpolation_mode, padding_mode, align_corners)"
)
def _sampled(call: Call) -> None:
    modes: Mapping[object, str] = {
        0: "linear", 1: "nearest", "bilinear": "linear", "nearest": "nearest"
    }  # fmt: skip
    paddings: Mapping[object, str] = {0: "zeros", 1: "border", 2: "reflection"}
    mode, word = modes.get(call.get("interpolation_mode", 0)), call.get("padding_mode", 0)
    if mode is None:
        raise UnsupportedError(call.target)
    call.emit(
        "GridSample", [call.tensor("self"), call.tensor("grid")],
        mode=mode, padding_mode=paddings.get(word, str(word)),
        align_corners=int(call.flag("align_corners")),
    )  # fmt: skip


@spelled(
    mindir="ROIAlign(features as self, rois, pooled_height, pooled_width, spatial_scale,"
    "sample_num, roi_end_mode)"
)
def _regions(call: Call) -> None:
    """The number of its image stands before the corners of each region."""
    value, regions = call.tensor("self"), call.tensor("rois")
    number, corners = (call.slices(regions, [a], [b], [1]) for a, b in ((0, 1), (1, 5)))
    if call.flag("roi_end_mode", default=True):  # the last pixel counts
        ends = call.writer.constant([0, 0, 1, 1], regions.dtype)
        corners = call.add(corners, ends)
    images = call.cast(call.squeeze(number, 1), "int64")
    call.emit(
        "RoiAlign", [value, corners, images], output_height=call.int("pooled_height"),
        output_width=call.int("pooled_width"), spatial_scale=call.float("spatial_scale", 1.0),
        sampling_ratio=call.int("sample_num", 2),
        coordinate_transformation_mode="output_half_pixel",
    )  # fmt: skip
