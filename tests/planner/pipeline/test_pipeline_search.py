"""Whole plans: the joint answer is the best of all that there are."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest

from costmodel.simulation.step_in_order import in_order_s
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_file import PlanFileError, plan_from_json, plan_to_json, read_plan
from planner.pipeline.bounds.order import ConfigurationSearch
from planner.pipeline.configuration import solved
from planner.pipeline.pipeline_search import search_pipeline
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import configurations_of
from planner.pipeline.stage_plan import drafted
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster
from topology.cluster import Cluster

WIDE = 4096


def machine(devices: int, memory: float | None = None) -> Cluster:
    found = named_cluster("atlas-800t-a2", devices)
    if memory is None:
        return found
    return replace(
        found, chip=replace(found.chip, memory_bytes=int(memory)), reserved_memory_bytes=0
    )


def by_trying_all(layers: int, cluster: Cluster, request: SearchRequest) -> float:
    """The least step over every number of stages, size of micro-batch and choice of cuts, each
    solved by itself.
    """
    graph = mlp(layers, width=WIDE, hidden=WIDE)
    best = math.inf
    task = PipelineSearch(graph, cluster, request)
    for shape in task.shapes():
        if shape.stages == 1 and shape.micro_batches == 1 and request.is_open:
            plain = replace(request, batch=request.global_batch, global_batch=None)
            best = min(best, seconds(plain, layers, cluster))
        count = task.true_micro(shape.micro_batch).segments.count
        for inner in itertools.combinations(range(1, count), shape.pieces - 1):
            found = solved(task, shape, (*inner, count))
            if found.fits:
                best = min(best, drafted(found).step_s)
    return best


def seconds(request: SearchRequest, layers: int, cluster: Cluster) -> float:
    try:
        graph = mlp(layers, width=WIDE, hidden=WIDE)
        return search(graph, cluster, request).estimate.step_time_s
    except InfeasibleError:
        return math.inf


def whole(layers: int, cluster: Cluster, **asked: object) -> Plan:
    request = SearchRequest(global_batch=8, **asked)  # type: ignore[arg-type]
    return search_pipeline(mlp(layers, width=WIDE, hidden=WIDE), cluster, request)


@pytest.mark.parametrize(
    ("devices", "target"), [(2, "mindspore"), (4, "mindspore"), (8, "mindspore"), (4, "generic")]
)
@pytest.mark.parametrize("memory", [None, 1.6e9])
def test_the_joint_answer_is_that_of_trying_all(
    devices: int, target: str, memory: float | None
) -> None:
    cluster = machine(devices, memory)
    request = SearchRequest(global_batch=8, target=target)
    best = by_trying_all(3, cluster, request)
    if math.isinf(best):
        with pytest.raises(InfeasibleError):
            whole(3, cluster, target=target)
        return
    plan = whole(3, cluster, target=target)
    assert plan.estimate.step_time_s == pytest.approx(best, rel=1e-9)
    assert plan.bound.bound_s <= best * (1 + 1e-9)


def test_one_stage_and_one_micro_batch_are_the_plan_of_the_batch() -> None:
    cluster = machine(4)
    graph = mlp(3, width=WIDE, hidden=WIDE)
    plain = search(graph, cluster, SearchRequest(batch=8))
    asked = SearchRequest(global_batch=8, pipeline="off", micro_batch="8")
    found = search_pipeline(graph, cluster, asked)
    assert replace(found, request={}) == replace(plain, request={})


def test_the_joint_answer_is_never_worse_than_a_part_of_its_choices() -> None:
    cluster = machine(8, 1.6e9)
    best_s = whole(3, cluster).estimate.step_time_s
    for asked in (
        {"pipeline": "off"},
        {"pipeline": "2"},
        {"micro_batch": "2"},
        {"micro_batch": "4"},
    ):
        try:
            assert best_s <= whole(3, cluster, **asked).estimate.step_time_s * (1 + 1e-9)
        except InfeasibleError:
            continue


def test_no_plan_of_a_batch_holds_more_than_its_limit_with_the_buffers_of_its_messages() -> None:
    """The buffers alone are more than the least limit here, and nothing is reserved for them."""
    graph, request = mlp(3, width=WIDE, hidden=WIDE), SearchRequest(batch=1024)
    for limit in (3.3e8, 6e8, 7e8):
        asked = replace(request, memory_limit_bytes=limit)
        held = _held(graph, machine(4, 0.9e9), asked)
        assert held is None or held <= limit


def _held(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> float | None:
    """Bytes that the plan holds; None if there is none."""
    try:
        return search(graph, cluster, request).estimate.peak_memory_bytes
    except InfeasibleError:
        return None


@pytest.mark.parametrize("asked", [{}, {"zero": "1"}, {"memory_limit_bytes": 2.2e9}])
def test_a_time_limit_never_comes_before_the_plan_of_one_stage(
    asked: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still until stages are looked at, and then it is over."""
    clock = [0.0]
    monkeypatch.setattr("planner.request.now_s", lambda: clock[0])
    one_s = whole(6, machine(8), pipeline="off", **asked).estimate.step_time_s
    run = ConfigurationSearch.run

    def late(self: ConfigurationSearch) -> object:
        clock[0] = 1e3
        return run(self)

    monkeypatch.setattr(ConfigurationSearch, "run", late)
    plan = whole(6, machine(8), time_limit_s=30.0, **asked)
    assert len(plan.pipeline.stages) == 1
    assert plan.estimate.step_time_s <= one_s * (1 + 1e-9)
    assert plan.bound.truncated


def test_more_memory_is_never_slower() -> None:
    times = []
    for memory in (1.0e9, 1.3e9, 1.8e9, 3e9, 8e9):
        try:
            times.append(whole(3, machine(4, memory)).estimate.step_time_s)
        except InfeasibleError:
            times.append(math.inf)
    assert times == sorted(times, reverse=True)
    assert math.isfinite(times[-1])


def test_a_plan_with_stages_says_what_each_does() -> None:
    plan = whole(4, machine(8), pipeline="2", micro_batch="2", interleave="1")
    pipeline = plan.pipeline
    assert (pipeline.micro_batches, pipeline.micro_batch, plan.batch) == (4, 2, 8)
    assert math.prod(size for _, size, _ in plan.mesh) * len(pipeline.stages) == plan.devices == 8
    assert [s.start for s in pipeline.stages[1:]] == [s.end for s in pipeline.stages[:-1]]
    assert {op.stage for op in plan.operators} == {0, 1}
    assert [s.in_flight for s in pipeline.stages] == [2, 1]
    assert in_order_s(pipeline) == pytest.approx(plan.estimate.step_time_s)
    assert all(0 <= s.sync_s + s.update_s <= s.once_s * (1 + 1e-9) for s in pipeline.stages)
    assert sum(plan.estimate.time_by_cause.values()) == pytest.approx(plan.estimate.step_time_s)
    peaks = [s.peak_memory_bytes for s in pipeline.stages]
    assert max(peaks) == plan.estimate.peak_memory_bytes == max(plan.memory_bytes)
    assert len(plan.memory_bytes) == 2 * len(plan.operators)
    assert len(pipeline.sends) == 1
    assert {t.name for t in plan.parameters} == {t.name for t in plan.graph.parameters}
    assert all("@" not in op.name for op in plan.operators)


def test_a_plan_with_stages_survives_its_file_and_is_refused_elsewhere(tmp_path: Path) -> None:
    plan = whole(4, machine(8), pipeline="2", micro_batch="2", interleave="1")
    text = plan_to_json(plan)
    assert plan_from_json(text) == plan
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    assert read_plan(path, staged=True) == plan
    with pytest.raises(PlanFileError, match="2 stages and 4 micro-batches"):
        read_plan(path)
    with pytest.raises(PlanFileError, match="stages do not follow"):
        plan_from_json(text.replace('"start": 0', '"start": 1', 1))


def test_a_plan_without_stages_is_written_as_before() -> None:
    plan = search(mlp(2), machine(2), SearchRequest())
    assert '"stage"' not in plan_to_json(plan)
    assert '"pipeline"' not in plan_to_json(plan)


@pytest.mark.parametrize("batch", [1, 3, 6, 8, 48])
def test_every_stage_has_a_micro_batch_where_the_batch_has_enough(batch: int) -> None:
    request = SearchRequest(global_batch=batch)
    shapes = configurations_of(machine(8), request, 16)
    assert {shape.stages for shape in shapes} == {1, 2, 4, 8}
    for shape in shapes:
        assert shape.micro_batches >= shape.stages or batch < shape.stages
    held = replace(request, micro_batch=str(batch))
    assert all(s.micro_batches == 1 for s in configurations_of(machine(8), held, 16))


def test_equal_requests_give_equal_bytes() -> None:
    texts = {plan_to_json(whole(3, machine(8), pipeline="2")) for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("asked", "fix"),
    [
        ({"pipeline": "3"}, {"pipeline": "2"}),
        ({"pipeline": "64"}, {"pipeline": "8"}),
        ({"micro_batch": "16"}, {"micro_batch": "8"}),
        ({"micro_batch": "3"}, {"micro_batch": "2"}),
        ({"batch": 8}, {"batch": None}),
        ({"training": False}, {"training": True}),
    ],
)
def test_an_impossible_request_names_a_change_that_makes_it_possible(
    asked: dict[str, object], fix: dict[str, object]
) -> None:
    with pytest.raises(RequestError) as error:
        whole(8, machine(8), **asked)
    assert "  at:  --" in str(error.value)
    ((name, value),) = fix.items()
    if isinstance(value, str):
        assert f"fix: --{name.replace('_', '-')} {value}" in str(error.value)
    assert whole(8, machine(8), **{**asked, **fix}).estimate.step_time_s > 0
