"""Where layers do not repeat: equal intervals are priced once, and fewer places are kept."""

from __future__ import annotations

import itertools

import pytest

from importers.hf_config import import_config
from ir.graph import OpGraph
from planner.lowering.liveness import analyse
from planner.lowering.pieces import cuts_of
from planner.pipeline import segments as segmentation
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.prices import IntervalPricer
from planner.pipeline.segments import cut_network, priced_operators, segments_of
from planner.request import SearchRequest
from tests.importers.configurations import SMALL_MIXED
from tests.service_views.chinese import chinese_of
from topology.catalogue import named_cluster

PATTERN = "M-M*M-MM*-M-M*-"


def hybrid() -> OpGraph:
    config = SMALL_MIXED["nemotron_h"] | {
        "hybrid_override_pattern": PATTERN, "num_hidden_layers": len(PATTERN),
        "n_routed_experts": None,
    }  # fmt: skip
    return import_config(config, "hybrid", "a test", {"sequence": 8, "batch": 1})


def test_intervals_of_equal_layers_are_priced_once() -> None:
    liveness = analyse(hybrid(), training=True)
    segments = segments_of(liveness, cuts_of(liveness, 1))
    assert segments.period == 0
    pairs = list(itertools.combinations(range(segments.count + 1), 2))
    stands_for = {pair: segments.shortened(pair)[0] for pair in pairs}
    for (start, end), (first, last) in stands_for.items():
        assert segments.kinds[start:end] == segments.kinds[first:last]
        assert first <= start
    assert len(set(stands_for.values())) == len({segments.kinds[a:b] for a, b in pairs})
    assert len(set(stands_for.values())) < len(pairs)
    pricer = IntervalPricer(segments, range(1, segments.count + 1))
    assert priced_operators(segments) == sum(
        end - start
        for interval, out in pricer.spans
        for start, end in segments.span(interval, out).ranges
    )


def test_places_are_left_out_until_intervals_can_be_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    liveness = analyse(hybrid(), training=True)
    cuts = cuts_of(liveness, 1)
    whole = cut_network(liveness, cuts, {}, always=False)
    assert (whole.cuts, whole.left_out, whole.notes) == (cuts, 0, ())
    most = priced_operators(whole.segments) // 2
    monkeypatch.setattr(segmentation, "MOST_PRICED", most)
    fewer = cut_network(liveness, cuts, {}, always=False)
    assert priced_operators(fewer.segments) <= most
    assert set(fewer.cuts) < set(cuts)
    assert len(fewer.cuts) + fewer.left_out == len(cuts)
    assert f"{len(fewer.cuts)} of {len(cuts)} places" in fewer.notes[0]
    assert cut_network(liveness, cuts, {}, always=False, effort=4).left_out == 0
    monkeypatch.setattr(segmentation, "MOST_PRICED", 0)
    assert len(cut_network(liveness, cuts, {}, always=False).cuts) >= segmentation.FEWEST_CUTS


def test_a_plan_says_how_many_places_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "MOST_PRICED", 0)
    request = SearchRequest(global_batch=4, target="jax", training=True, pipeline="2")
    plan = search_pipeline(hybrid(), named_cluster("dgx-a100", 2), request)
    (said,) = [note for note in plan.notes if "places, as layers differ" in note]
    assert chinese_of(said)
