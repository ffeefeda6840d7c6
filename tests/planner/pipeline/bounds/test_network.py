"""Bounds of shapes within the memory: below every plan of the shape, above the bound without."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.schedules.in_flight import in_flight_counts
from importers.onnx import import_onnx
from planner.pipeline.bounds.network import NetworkBounds, kept
from planner.pipeline.bounds.order import ConfigurationSearch
from planner.pipeline.configuration import solved
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.solved import Solved
from planner.pipeline.space import Configuration, in_flight, moments_of
from planner.request import SearchRequest
from tests.builders import mlp
from tests.planner.pipeline.test_pipeline_search import machine
from topology.catalogue import named_cluster

BATCH = 32768
MODELS = Path(__file__).parents[3] / "data" / "models"


@cache
def task(
    layers: int, devices: int, memory: float | None, width: int, request: SearchRequest
) -> PipelineSearch:
    graph = mlp(layers, batch=8, width=width, hidden=4 * width)
    # Buffers would take most of the memory of so small a network.
    cluster = replace(machine(devices, memory), communicator_buffer_bytes=0)
    return PipelineSearch(graph, cluster, request)


def best_of(own: PipelineSearch, shape: Configuration) -> Solved:
    """Even cuts, and one more where the first piece is short."""
    count = own.true_micro(shape.micro_batch).segments.count
    pieces = shape.pieces
    even = tuple(round(count * (i + 1) / pieces) for i in range(pieces))
    short = (*range(1, pieces), count)
    found = [solved(own, shape, ends) for ends in dict.fromkeys((even, short))]
    return min(found, key=lambda s: (not s.fits, s.step_s if s.fits else s.peak_bytes))


def floor_s(own: PipelineSearch, shape: Configuration) -> float:
    floors = NetworkBounds(own)
    floors.refine([shape])
    return floors.of(shape, math.inf)


def test_few_equal_layers_do_not_stand_for_many_in_the_bound_of_one_stage() -> None:
    """Where layers repeat, the best layouts of two of them are not those of twelve."""
    graph = import_onnx(MODELS / "gpt2_small.onnx.gz")
    request = SearchRequest(global_batch=16, target="torch", dtype="bf16")
    own = PipelineSearch(graph, named_cluster("dgx-a100", 16), request)
    shape = Configuration(1, 16, 1)
    found = solved(own, shape, (own.micro(16).segments.count,))
    assert found.fits
    assert 0.9 * found.step_s < floor_s(own, shape) <= found.step_s * (1 + 1e-9)
    search = ConfigurationSearch(own, [shape], NetworkBounds(own), lambda _: None)
    (priced,), _ = search.run()
    assert priced.bound_s <= found.step_s * (1 + 1e-9)


def test_a_bound_is_worked_out_as_far_as_it_decides() -> None:
    own = task(6, 8, None, 256, SearchRequest(global_batch=2, target="torch"))
    shape = Configuration(2, 1, 2)
    whole_s, found = floor_s(own, shape), []
    for share in (0.5, 0.9, 1.01):
        bounds = NetworkBounds(own)
        bounds.refine([shape], share * whole_s)
        found.append(bounds.of(shape))
        assert min(share, 1.0) * whole_s <= found[-1] <= whole_s
    assert found[0] < found[-1]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Configuration, int, int, SearchRequest]:
    stages = draw(st.sampled_from([1, 2]))
    micro = BATCH // draw(st.sampled_from([1, 2, 8]))
    chunks = draw(st.sampled_from([1, 2])) if stages > 1 and BATCH // micro > 1 else 1
    request = SearchRequest(
        global_batch=BATCH,
        recompute=draw(st.sampled_from(["auto", "none", "selective", "full"])),
        zero=draw(st.sampled_from(["auto", "0"])),
        offload=draw(st.sampled_from(["off", "auto"])),
        target=draw(st.sampled_from(["mindspore", "generic"])),
    )
    layers = draw(st.sampled_from([3, 5]))
    width = draw(st.sampled_from([256]))
    return Configuration(stages, micro, BATCH // micro, chunks), layers, width, request


@settings(max_examples=30, deadline=None)
@given(cases(), st.sampled_from([0.25, 0.4, 0.6, 0.8, 0.95]))
def test_no_plan_within_the_memory_is_faster_than_the_bound(
    case: tuple[Configuration, int, int, SearchRequest], share: float
) -> None:
    shape, layers, width, request = case
    roomy = task(layers, 4, None, width, request)
    free = best_of(roomy, shape)
    tight = task(layers, 4, share * free.peak_bytes, width, request)
    bound_s, free_s = floor_s(tight, shape), floor_s(roomy, shape)
    assert free_s * (1 - 1e-9) <= bound_s
    assert free_s <= free.step_s * (1 + 1e-9)
    assert NetworkBounds(roomy).of_whole_batch(shape) <= free.step_s * (1 + 1e-9)
    found = best_of(tight, shape)
    assert not found.fits or bound_s <= found.step_s * (1 + 1e-9)


@pytest.mark.parametrize("recompute", ["none", "auto"])
def test_memory_that_is_short_raises_the_bound(recompute: str) -> None:
    request = SearchRequest(global_batch=BATCH, recompute=recompute)
    shape = Configuration(1, BATCH, 1)
    free = best_of(task(5, 4, None, 256, request), shape)
    bounds = [
        floor_s(task(5, 4, share * free.peak_bytes, 256, request), shape)
        for share in (4.0, 0.5, 0.25, 0.1)
    ]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]


@pytest.mark.parametrize("stages", [1, 2])
def test_blocks_that_are_computed_again_keep_nothing_that_has_a_price(stages: int) -> None:
    shape = Configuration(stages, BATCH // 8, 8, 1)
    request = SearchRequest(global_batch=BATCH, recompute="full")
    saved = best_of(task(16, 2, None, 256, replace(request, recompute="none")), shape)
    remade = best_of(task(16, 2, None, 256, request), shape)
    assert remade.peak_bytes < saved.peak_bytes
    tight = task(16, 2, remade.peak_bytes, 256, request)
    found = best_of(tight, shape)
    assert found.fits
    assert floor_s(tight, shape) <= found.step_s * (1 + 1e-9)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(1, 5), st.data())
def test_a_part_keeps_as_many_micro_batches_however_its_chunks_share_the_network(
    stages: int, chunks: int, rounds: int, data: st.DataObject
) -> None:
    """And no more where all activations are in the chunk of which fewest are on the way."""
    shape = Configuration(stages, 1, stages * rounds, chunks)
    flight = in_flight(shape)
    for part, least in enumerate(kept(shape)):
        saved = data.draw(st.lists(st.floats(0, 1), min_size=chunks, max_size=chunks))
        most = max(
            sum(n * s for n, s in zip(counts, saved, strict=True))
            for counts in in_flight_counts(moments_of(shape, part))
        )
        assert most >= least * sum(saved) - 1e-9
        assert least == min(flight[part::stages])


@pytest.mark.parametrize("micro_batches", [2, 8])
@pytest.mark.parametrize("stages", [1, 2])
def test_the_host_of_every_device_issues_all_operators_in_every_micro_batch(
    stages: int, micro_batches: int
) -> None:
    """Small kernels: their host takes longer than they do, on few devices and on many."""
    shape = Configuration(stages, 64 // micro_batches, micro_batches)

    def bound_and_step_s(profile: str) -> tuple[float, float]:
        request = SearchRequest(global_batch=64, target="torch", profile=profile)
        own = PipelineSearch(mlp(5, 64, 256, 1024), named_cluster("dgx-h100", 4), request)
        return NetworkBounds(own).of(shape), best_of(own, shape).step_s

    plain_s = bound_and_step_s("generic")[0]
    bound_s, step_s = bound_and_step_s("torchtitan")
    assert bound_s <= step_s * (1 + 1e-9)
    assert bound_s > 0.7 * step_s > 2 * plain_s
