"""Views say what the plan says: sums agree, nothing is lost, positions do not collide."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.space import Configuration
from report.operators import operator_facts
from report.traffic import group_traffic
from service.views.blocks import blocks_of
from service.views.cluster import cluster_view, mesh_view
from service.views.comparison import comparison_view
from service.views.graph import Level, graph_view
from service.views.memory import memory_view
from service.views.summary import summary_view
from service.views.table import table_view
from service.views.timeline import timeline_view
from tests.builders import mlp
from tests.executors.drawn_stages import drawn_stages
from tests.service_views.plans_of import FAST, layers, plan_of
from topology.catalogue import named_cluster

NAMES = ("attention", "layers", "products")


@pytest.mark.parametrize("name", NAMES)
def test_times_of_operators_and_updates_sum_to_the_step(name: str) -> None:
    plan = plan_of(name)
    parts = math.fsum(f.time_s for f in operator_facts(plan))
    rest = math.fsum(t.update_s + t.recompute_s for t in plan.tensors)
    assert parts + rest == pytest.approx(plan.estimate.step_time_s, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_summary_is_plain_json_and_its_causes_sum_to_the_step(name: str) -> None:
    plan = plan_of(name)
    view = summary_view(plan)
    assert json.loads(json.dumps(view, allow_nan=False)) is not None
    times = math.fsum(view["time_by_cause"].values())
    assert times == pytest.approx(view["step_time_s"], rel=1e-9)
    assert sum(view["memory_by_cause"].values()) == pytest.approx(view["peak_memory_bytes"])
    assert len(view["examples"]) == len(view["report"]["operators"]["rows"])


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("name", NAMES)
def test_every_node_has_a_place_of_its_own_in_its_block(name: str, level: Level) -> None:
    view = graph_view(plan_of(name), level)
    nodes = view["nodes"]
    places = list(zip(nodes["x"], nodes["y"], strict=True))
    assert len(set(places)) == len(places) == view["count"]
    assert len(set(nodes["name"])) == view["count"]
    assert sum(block["nodes"] for block in view["blocks"]) == view["count"]
    for source, target in view["edges"]:
        assert source != target


@pytest.mark.parametrize("name", NAMES)
def test_folding_loses_neither_operators_nor_time(name: str) -> None:
    plan = plan_of(name)
    folded, whole = (graph_view(plan, each)["nodes"] for each in (Level.FOLDED, Level.OPERATORS))
    assert sum(folded["count"]) == len(whole["name"]) == len(plan.operators)
    assert math.fsum(folded["time_s"]) == pytest.approx(math.fsum(whole["time_s"]), abs=1e-7)


def test_equal_layers_are_one_block_and_edges_go_down_inside_blocks() -> None:
    plan = plan_of("layers")
    kinds = [block.kind for block in blocks_of(plan, operator_facts(plan))]
    assert len(kinds) == 8
    assert len(set(kinds)) < 8
    view = graph_view(plan, Level.OPERATORS)
    frame = {}
    for index, (x, y) in enumerate(zip(view["nodes"]["x"], view["nodes"]["y"], strict=True)):
        frame[index] = next(
            i for i, b in enumerate(view["blocks"])
            if b["left"] - 1 <= x <= b["right"] + 1 and b["top"] <= y <= b["bottom"]
        )  # fmt: skip
    for source, target in view["edges"]:
        if frame[source] == frame[target]:
            assert view["nodes"]["y"][source] < view["nodes"]["y"][target]


@pytest.mark.fast
def test_opened_graphs_show_every_parameter_once() -> None:
    plan = plan_of("attention")
    nodes = graph_view(plan, Level.PARTS)["nodes"]
    kinds = [nodes["labels"][i] for i in nodes["label"]]
    assert kinds.count("parameter") == len(plan.parameters)


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
def test_memory_by_cause_sums_to_the_memory_of_the_plan(name: str) -> None:
    plan = plan_of(name)
    view = memory_view(plan)
    totals = [math.fsum(column) for column in zip(*view["causes"].values(), strict=True)]
    wanted = [plan.memory_bytes[point] for point in view["points"]]
    assert totals == pytest.approx(wanted, abs=len(view["causes"]))
    assert max(totals) == pytest.approx(plan.estimate.peak_memory_bytes, abs=8)


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
def test_the_timeline_ends_with_the_step_and_streams_do_not_overlap(name: str) -> None:
    view = timeline_view(plan_of(name))
    tasks = view["bars"]
    assert max(tasks["end_s"]) == pytest.approx(view["step_time_s"], abs=1e-8)
    assert {s["stream"] for s in view["streams"]} >= set(tasks["stream"])
    for stream in set(tasks["stream"]):
        own = [i for i, s in enumerate(tasks["stream"]) if s == stream]
        ends = [tasks["end_s"][i] for i in own]
        starts = [tasks["start_s"][i] for i in own]
        assert all(a <= b + 2e-9 for a, b in zip(ends, starts[1:], strict=False))


@pytest.mark.fast
def test_a_table_has_every_operator_and_parameter() -> None:
    plan = plan_of("layers")
    for name, own in (("operators", plan.operators), ("parameters", plan.parameters)):
        table = table_view(plan)[name]
        names = table["columns"][0][2]
        assert [table["words"][number] for number in names] == [each.name for each in own]
        assert {len(values) for _, _, values in table["columns"]} == {len(own)}


@pytest.mark.fast
def test_every_link_of_the_picture_carries_what_its_tier_sends() -> None:
    view = cluster_view(plan_of("products"))
    tiers = {tier["transport"]: tier["sent_bytes"] for tier in view["tiers"]}
    lines = view["picture"]["lines"]
    inside = [line["bytes"] for line in lines if line["kind"] == "HCCS"]
    assert len(inside) == 2 * 28
    assert sum(inside) * 2 / 16 == pytest.approx(tiers["HCCS"])
    assert {line["bytes"] for line in lines if line["kind"] == "ROCE"} == {tiers["ROCE"]}


def test_mesh_groups_sum_to_all_communication() -> None:
    plan = plan_of("products")
    view = mesh_view(plan)
    for key in ("exposed_s", "hidden_s"):
        assert sum(getattr(g, key) for g in group_traffic(plan)) == pytest.approx(
            math.fsum(getattr(c, key) for c in plan.collectives)
        )
    assert math.prod(axis["size"] for axis in view["axes"]) == len(view["ranks"]) == 16


def test_axes_of_a_stage_within_a_server_are_of_the_links_in_it() -> None:
    plan = drawn_stages(mlp(4, 4, 16, 32), 16, Configuration(2, 4, 2), "generic", 0)
    assert {axis["tier"] for axis in mesh_view(plan)["axes"]} == {"card"}


@pytest.mark.fast
def test_a_plan_compared_with_itself_differs_in_nothing() -> None:
    plan = plan_of("layers")
    view = comparison_view(plan, plan)
    assert not view["operators"]
    assert all(row["first"] == row["second"] for row in view["time_by_cause"])


def test_plans_of_other_sizes_differ_where_they_are_split_differently() -> None:
    view = comparison_view(plan_of("products"), plan_of("products", 8))
    assert {fact["name"] for fact in view["facts"]} >= {"devices"}
    assert view["step_time_s"]["first"] != view["step_time_s"]["second"]


def test_stages_have_a_timeline_and_say_why_they_wait() -> None:
    request = replace(FAST, global_batch=256, pipeline="2", micro_batch="64")
    plan = search_pipeline(layers(6), named_cluster("atlas-800t-a2", 16), request)
    view = timeline_view(plan)
    devices = {stream["device"] for stream in view["streams"]}
    assert len(devices) > 1
    bubble = view["bubble"]
    causes = ("ideal", "imbalance", "recomputation", "communication")
    parts = [bubble[f"{name}_s"] for name in causes]
    assert math.fsum(parts) == pytest.approx(bubble["total_s"])
    assert len(memory_view(plan)["report"]["stages"]["rows"]) == len(plan.pipeline.stages)
    assert set(memory_view(plan)) == {*memory_view(plan_of("products")), "part", "numbers"}
    assert summary_view(plan)["batch"] == 256


@pytest.mark.parametrize("interleave", ["1", "2"])
def test_memory_of_stages_is_what_the_plan_says_of_each_part(interleave: str) -> None:
    request = replace(FAST, global_batch=256, pipeline="2", micro_batch="32", interleave=interleave)
    plan = search_pipeline(mlp(4), named_cluster("atlas-800t-a2", 8), request)
    view = memory_view(plan)
    peaks = [stage.peak_memory_bytes for stage in plan.pipeline.stages]
    for part, curve in zip(view["parts"], view["curves"], strict=True):
        own = max(peaks[number] for number in part["numbers"])
        levels = [sum(at) for at in zip(*part["causes"].values(), strict=True)]
        assert part["peak_bytes"] == own
        assert max(levels) == pytest.approx(own, abs=8)
        assert curve["peak_bytes"] == pytest.approx(own)
        assert max(curve["bytes"]) == pytest.approx(own, abs=8)
        assert curve["time_s"] == sorted(curve["time_s"])
        names = {op.name for op in plan.operators}
        assert set(part["operators"]) <= names
    assert view["causes"] == max(view["parts"], key=lambda p: p["peak_bytes"])["causes"]


def test_plans_of_one_model_say_how_many_operators_lie_differently() -> None:
    view = comparison_view(plan_of("products"), plan_of("products", 8))
    assert view["same_model"]
    told = [
        {f.planned.name: (f.inputs, f.outputs) for f in operator_facts(plan_of("products", n))}
        for n in (16, 8)
    ]
    changed = sum(told[0][name] != told[1][name] for name in told[0])
    assert sum(change["count"] for change in view["operators"]) == changed


def test_operators_of_different_models_are_not_compared() -> None:
    view = comparison_view(plan_of("products"), plan_of("layers"))
    assert not view["same_model"]
    assert view["models"] == ["mlp3", "layers"]
    assert not view["operators"]
    assert "Operators with other layouts" not in {part["title"] for part in view["report"]}
    assert view["step_time_s"]["first"] != view["step_time_s"]["second"]
