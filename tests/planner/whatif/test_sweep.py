from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from ir.graph import OpGraph
from ir.plan_file import plan_from_json, plan_to_json
from planner.pipeline.pipeline_search import search_pipeline
from planner.requests.errors import UserError
from planner.requests.searches import plan_bytes, question
from planner.search import search
from planner.whatif.sweep import Count, Point, Store, run
from planner.whatif.tasks import Asked, PointTask, Result, search_options, sweep_of
from planner.whatif.workbench import Done, LocalEngine, Workbench
from tests.planner.whatif.sweeps import asked


def _run(what: Asked, folder: Path | None = None) -> tuple[Point, ...]:
    return run(sweep_of(what), LocalEngine(1), Store(folder))


@pytest.mark.parametrize(
    ("batch", "memory"), [("16", None), ("64", None), ("16384", "10MiB")], ids=str
)
def test_a_point_is_the_plan_of_a_single_search_byte_for_byte(
    batch: str, memory: str | None, tmp_path: Path
) -> None:
    what = asked(f"devices=2,8,batch={batch},bandwidth=1", memory=memory)
    for point in _run(what, tmp_path):
        options = search_options(what, point.place)
        single = plan_bytes(question(what.model, options).plan())
        kept = Store(tmp_path).plan_path(point.key)
        assert kept is not None
        plan = plan_from_json(gzip.decompress(kept.read_bytes()).decode())
        assert plan_bytes(plan) == single
        assert (plan.whole_batch_bytes is not None) is (memory is not None)


def test_a_step_that_may_be_cut_is_the_plan_of_its_global_batch() -> None:
    what = asked("devices=4,batch=32", pipeline="auto")
    (task,) = sweep_of(what).tasks
    graph = what.model.graph({})
    assert task.request.global_batch == 32
    plan = Workbench({task.model: graph}, keep_plans=False).plan(task)
    assert plan_to_json(plan) == plan_to_json(
        search_pipeline(graph, task.machine.cluster, task.request)
    )


def test_a_bench_that_has_worked_before_answers_as_a_new_one() -> None:
    what = asked("devices=2,4,8,batch=16,32,bandwidth=0.25,4,latency=1,8")
    sweep = sweep_of(what)
    old = Workbench(sweep.graphs, keep_plans=True)
    answers = {task.key: old.done(task) for task in sweep.tasks}
    for task in sweep.tasks[::-7]:
        assert Workbench(sweep.graphs, keep_plans=True).done(task) == answers[task.key]
        graph = sweep.graphs[task.model]
        plan = search(graph, task.machine.cluster, task.request)
        packed = answers[task.key].plan
        assert packed is not None
        assert plan_from_json(gzip.decompress(packed).decode()).bound == plan.bound


def test_equal_points_are_searched_once_and_have_equal_results() -> None:
    sweep = sweep_of(asked("devices=4,4,batch=8:9:3"))
    assert len(sweep.points) == 6
    assert len(sweep.tasks) == 1
    points = run(sweep, LocalEngine(1), Store(None))
    assert len({point.result for point in points if point.result.time_by_cause == {}}) <= 1
    assert len({point.key for point in points}) == 1


def test_all_workers_find_what_one_finds() -> None:
    sweep = sweep_of(asked("devices=2,4,bandwidth=0.5,2"))
    alone = run(sweep, LocalEngine(1), Store(None))
    assert run(sweep, LocalEngine(2), Store(None)) == alone


class _Stopping:
    """An engine that ends after a few tasks, and counts them."""

    name: ClassVar[str] = "stopping"

    def __init__(self, after: int) -> None:
        self.after, self.begun = after, 0

    def run(
        self, graphs: Mapping[str, OpGraph], tasks: Sequence[PointTask], *, keep_plans: bool
    ) -> Iterator[Done]:
        for done in LocalEngine(1).run(graphs, tasks, keep_plans=keep_plans):
            if self.begun == self.after:
                raise KeyboardInterrupt
            self.begun += 1
            yield done


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    sweep = sweep_of(asked("devices=2,4,bandwidth=0.5,1,2"))
    with pytest.raises(KeyboardInterrupt):
        run(sweep, _Stopping(2), Store(tmp_path))
    rest = _Stopping(99)
    seen: list[Count] = []
    points = run(sweep, rest, Store(tmp_path), seen.append)
    assert rest.begun == 4
    assert (seen[0].done, seen[0].known, seen[-1].done) == (2, 2, 6)
    assert points == run(sweep, LocalEngine(1), Store(None))
    third = _Stopping(0)
    assert run(sweep, third, Store(tmp_path)) == points


@pytest.mark.parametrize("damage", ["{", "[]", '{"status": "ok"', '{"odd": 1}'])
def test_a_damaged_result_is_made_again(damage: str, tmp_path: Path) -> None:
    sweep = sweep_of(asked("devices=2"))
    points = run(sweep, LocalEngine(1), Store(tmp_path))
    path = tmp_path / "results" / f"{points[0].key}.json"
    path.write_text(damage)
    assert run(sweep, LocalEngine(1), Store(tmp_path)) == points
    assert Result.from_json(path.read_text()) == points[0].result


def test_a_result_whose_plan_is_gone_is_made_again(tmp_path: Path) -> None:
    sweep = sweep_of(asked("devices=2"))
    (point,) = run(sweep, LocalEngine(1), Store(tmp_path))
    plan = Store(tmp_path).plan_path(point.key)
    assert plan is not None
    content = plan.read_bytes()
    plan.unlink()
    run(sweep, LocalEngine(1), Store(tmp_path))
    assert plan.read_bytes() == content


def test_a_result_comes_back_from_its_file_as_it_was() -> None:
    points = _run(asked("devices=2,4")) + _run(asked("devices=2", memory="1KiB"))
    assert {point.result.status for point in points} == {"ok", "does not fit"}
    for point in points:
        assert Result.from_json(point.result.to_json()) == point.result


def test_a_result_of_before_intervals_is_read_without_one() -> None:
    (point,) = _run(asked("devices=2"))
    record = json.loads(point.result.to_json())
    old = {
        name: value for name, value in record.items() if name not in {"low_s", "high_s", "upper_s"}
    }
    found = Result.from_json(json.dumps(old))
    assert (found.low_s, found.high_s, found.upper_s) == (None, None, None)
    assert found.step_s == point.result.step_s


def test_points_that_cannot_be_are_rows_with_the_reason() -> None:
    points = _run(asked("devices=3,4"))
    assert [point.result.status for point in points] == ["impossible", "ok"]
    assert "3 devices" in points[0].result.message


def test_a_wrong_option_ends_the_sweep_before_it_begins() -> None:
    with pytest.raises(UserError, match="--target nonsense"):
        sweep_of(asked(target="nonsense"))


def test_the_key_tells_apart_what_decides_the_answer() -> None:
    first = sweep_of(asked("devices=4")).tasks[0].key
    others = [
        sweep_of(asked("devices=4,bandwidth=1.5")).tasks[0].key,
        sweep_of(asked("devices=4,memory=0.5")).tasks[0].key,
        sweep_of(asked("devices=4", effort=2)).tasks[0].key,
        sweep_of(asked("devices=4", time_limit=1.0)).tasks[0].key,
        sweep_of(asked("devices=4,batch=64")).tasks[0].key,
    ]
    assert len({first, *others}) == 6
    assert sweep_of(asked("devices=4,bandwidth=1,latency=1")).tasks[0].key == first


def test_a_truncated_search_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (point,) = _run(asked("devices=2"))
    store.keep(Done(point.key, replace(point.result, truncated=True), b"plan"))
    assert not list((tmp_path / "results").iterdir())
    assert store.known([point.key]) == {point.key: replace(point.result, truncated=True)}


def test_a_kept_plan_is_json(tmp_path: Path) -> None:
    (point,) = _run(asked("devices=2"), tmp_path)
    path = Store(tmp_path).plan_path(point.key)
    assert path is not None
    assert json.loads(gzip.decompress(path.read_bytes()))["format"] == "parallel-plan"
