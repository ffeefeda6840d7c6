"""Meshes of published layouts: every degree has its axes, and neighbours are where they belong."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.plan_layouts import MOST_AXES, cluster_of, split
from benchmarks.plan_networks import config_of
from costmodel.training.records import TrainingLayout
from importers.hf_config import import_config
from importers.sizes import published
from ir.graph import Role
from planner.constraints.schemes import InexpressibleError
from tests.costmodel.training.runs import LLAMA

DEGREES = st.sampled_from([1, 2, 4, 8])


@given(tp=DEGREES, cp=DEGREES, dp=DEGREES, ep=DEGREES, widths=st.booleans())
def test_axes_make_the_degrees(tp: int, cp: int, dp: int, ep: int, widths: bool) -> None:
    devices = tp * cp * dp
    assume(ep <= cp * dp and (devices <= 8 or devices % 8 == 0))
    layout = TrainingLayout(8, 1, 128, tp=tp, cp=cp, dp=dp, ep=ep)
    try:
        mesh, scheme = split(cluster_of("h100_sxm_80g", devices), layout, split_experts=widths)
    except InexpressibleError:
        assert MOST_AXES < 5
        return
    sizes = mesh.sizes
    found = [
        math.prod(sizes[axis] for axis in axes)
        for axes in (
            scheme.model_axes, scheme.context_axes, scheme.batch_axes, scheme.expert_axes,
        )
    ]  # fmt: skip
    assert found == [tp, cp, dp, ep]
    assert math.prod(sizes) == devices
    order = [*scheme.batch_axes, *scheme.context_axes, *scheme.model_axes]
    assert order == sorted(order), "tensor parallel ranks are neighbours, then contexts"
    if widths:
        assert not set(scheme.expert_axes) & set(scheme.model_axes)


def test_racks_of_72_have_jobs_of_64() -> None:
    assert cluster_of("gb200_186g", 128).devices == 128
    assert [tier.size for tier in cluster_of("gb200_186g", 128).tiers] == [2, 64]
    assert [tier.size for tier in cluster_of("gb200_186g", 64).tiers] == [64]


def test_a_network_of_these_sizes_is_the_published_one() -> None:
    sizes = replace(
        LLAMA, hidden=4096, layers=2, heads=32, kv_heads=8, head_size=128, ffn=14336, vocab=32000,
        experts=8, experts_per_token=2, expert_ffn=14336,
    )  # fmt: skip
    known = {**published("mixtral-8x7b").config, "num_hidden_layers": 2}
    counts = []
    for config in (config_of(sizes), known):
        graph = import_config(config, "m", "m", {"batch": 1, "sequence": 128})
        parameters = (t for t in graph.tensors.values() if t.role is Role.PARAMETER)
        counts.append(sum(t.elements for t in parameters))
    assert counts[0] == counts[1]
