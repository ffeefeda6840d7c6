"""Jobs: the most urgent first, each finished once, whoever dies meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select, update

from service.store.engine import open_engine, reading, writing
from service.store.items import FullError, Items, NewItem, NotFoundError
from service.store.jobs import CANCELLED, DONE, FAILED, QUEUED, RUNNING, Jobs, Listing
from service.store.queue import LEASE_S, LostError, Outcome, Queue
from service.store.tables import answers, items, jobs

PLAN = NewItem("plan", "m.onnx", b"{}", {})
KEEP = 2**20


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_engine(f"sqlite:///{tmp_path / 'jobs.sqlite'}")


def submit(engine: Engine, key: str = "k", *, owner: str = "ann", priority: int = 0) -> str:
    return jobs_of(engine, owner).accept("search", key, {"model": key}, priority).id


def jobs_of(engine: Engine, owner: str = "ann", most: int = 100) -> Jobs:
    return Jobs(engine, most, lambda: owner)


def items_of(engine: Engine, owner: str, most: int = KEEP) -> Items:
    return Items(engine, most, lambda: owner)


def queue(engine: Engine, name: str = "one") -> Queue:
    return Queue(engine, name, 3, KEEP)


def state(engine: Engine, job: str, owner: str = "ann") -> str:
    return jobs_of(engine, owner).find(job).state


def run_out(engine: Engine) -> None:
    """Let all leases be over."""
    with writing(engine) as connection:
        connection.execute(update(jobs).values(lease_until=time.time() - 1))


def rows(engine: Engine, table: Any) -> int:
    with reading(engine) as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


@settings(max_examples=8, deadline=None)
@given(priorities=st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_urgent_jobs_come_first_and_equals_in_their_order(
    priorities: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path_factory.mktemp('q') / 'jobs.sqlite'}")
    ids = [submit(engine, str(i), priority=p) for i, p in enumerate(priorities)]
    expected = sorted(range(len(ids)), key=lambda i: (-priorities[i], i))
    claimed = [queue(engine).claim() for _ in ids]
    assert [job.id for job in claimed if job is not None] == [ids[i] for i in expected]
    assert queue(engine).claim() is None
    engine.dispose()


def test_a_job_is_done_by_one_worker_at_a_time(engine: Engine) -> None:
    submit(engine)
    assert queue(engine, "one").claim() is not None
    assert queue(engine, "two").claim() is None


def test_some_workers_take_some_kinds_alone(engine: Engine) -> None:
    submit(engine)
    assert queue(engine).claim(("export",)) is None
    assert queue(engine).claim(("export", "search")) is not None


def test_a_dead_workers_job_is_begun_again_and_finished_by_the_second_alone(
    engine: Engine,
) -> None:
    job_id = submit(engine)
    first, second = queue(engine, "one"), queue(engine, "two")
    early = first.claim()
    assert early is not None
    run_out(engine)
    late = second.claim()
    assert late is not None
    assert (late.id, late.attempt) == (job_id, 2)
    for act in (
        lambda: first.keep(early),
        lambda: first.finish(early, Outcome({"plan": "$plan"}, (PLAN,))),
        lambda: first.fail(early, "no"),
    ):
        with pytest.raises(LostError):
            act()
    assert rows(engine, items) == rows(engine, answers) == 0, "half a result was left"
    second.finish(late, Outcome({"plan": "$plan"}, (PLAN,)))
    with pytest.raises(LostError):
        second.finish(late, Outcome({"plan": "$plan"}, (PLAN,)))
    assert state(engine, job_id) == DONE
    assert rows(engine, items) == rows(engine, answers) == 1


def test_a_kept_lease_does_not_run_out(engine: Engine) -> None:
    submit(engine)
    one = queue(engine)
    job = one.claim()
    assert job is not None
    run_out(engine)
    assert one.keep(job)
    assert queue(engine, "two").claim() is None
    with reading(engine) as connection:
        until_s = connection.execute(select(jobs.c.lease_until)).scalar_one()
    assert until_s == pytest.approx(time.time() + LEASE_S, abs=5)


def test_a_job_that_workers_die_of_is_given_up(engine: Engine) -> None:
    job_id = submit(engine)
    for _ in range(3):
        assert queue(engine).claim() is not None
        run_out(engine)
    assert queue(engine).claim() is None
    found = jobs_of(engine).find(job_id)
    assert (found.state, found.message) == (FAILED, "3 workers were lost over it")


def test_a_job_that_is_given_back_waits_again(engine: Engine) -> None:
    job_id = submit(engine)
    one = queue(engine)
    job = one.claim()
    assert job is not None
    one.give_back(job, crashed=True)
    assert state(engine, job_id) == QUEUED
    again = one.claim()
    assert again is not None
    assert again.crashes == 1


def test_the_same_request_is_answered_from_what_is_known(engine: Engine) -> None:
    first, waiting = submit(engine, "same"), submit(engine, "same")
    one = queue(engine)
    job = one.claim()
    assert job is not None
    one.finish(job, Outcome({"plan": "$plan"}, (PLAN,)))
    assert one.claim() is None, "what waited is answered without work"
    later = jobs_of(engine).accept("search", "same", {})
    found = [jobs_of(engine).find(each) for each in (first, waiting, later.id)]
    assert [each.state for each in found] == [DONE] * 3
    assert [each.cached for each in found] == [False, True, True]
    assert found[0].result == found[1].result == found[2].result
    other = jobs_of(engine, "bob").accept("search", "same", {})
    assert other.state == QUEUED, "nobody is answered from what somebody else asked"


def test_an_outcome_that_is_not_kept_answers_nobody_else(engine: Engine) -> None:
    submit(engine, "same")
    job = queue(engine).claim()
    assert job is not None
    queue(engine).finish(job, Outcome({}, keep=False))
    assert state(engine, submit(engine, "same")) == QUEUED


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_by_its_worker(
    engine: Engine,
) -> None:
    runs, waits = submit(engine, "a"), submit(engine, "b")
    one = queue(engine)
    job = one.claim()
    assert job is not None
    owned = jobs_of(engine)
    assert owned.cancel(waits).state == CANCELLED
    assert owned.cancel(runs).state == RUNNING
    assert not one.keep(job)
    one.cancel(job)
    assert state(engine, runs) == CANCELLED
    assert one.claim() is None


def test_a_cancelled_job_of_a_dead_worker_is_not_begun_again(engine: Engine) -> None:
    job_id = submit(engine)
    queue(engine).claim()
    jobs_of(engine).cancel(job_id)
    run_out(engine)
    assert queue(engine, "two").claim() is None
    assert state(engine, job_id) == CANCELLED


def test_owners_see_their_own_alone(engine: Engine) -> None:
    job_id = submit(engine, owner="ann")
    kept = items_of(engine, "ann").add(PLAN)
    theirs, store = jobs_of(engine, "bob"), items_of(engine, "bob")
    acts: list[Callable[[], object]] = [
        lambda: theirs.find(job_id),
        lambda: theirs.cancel(job_id),
        lambda: theirs.events(job_id, 0),
        lambda: store.find(kept.id, "plan"),
        lambda: store.content(kept.id, "plan"),
    ]
    for act in acts:
        with pytest.raises(NotFoundError):
            act()
    assert theirs.listed(Listing()) == ([], 0)
    assert store.listed("plan") == []
    assert queue(engine).inputs("bob", [kept.id]) == {}
    assert state(engine, job_id) == QUEUED


def test_an_owner_keeps_so_much_and_waits_for_so_many(engine: Engine) -> None:
    store, theirs = items_of(engine, "ann", 10), items_of(engine, "bob", 10)
    store.add(NewItem("model", "a.onnx", b"123456", {}))
    store.add(NewItem("model", "a.onnx", b"123456", {}))
    with pytest.raises(FullError):
        store.add(NewItem("model", "b.onnx", b"12345", {}))
    theirs.add(NewItem("model", "b.onnx", b"12345", {}))
    few = jobs_of(engine, "ann", 2)
    for _ in range(2):
        few.accept("search", "k", {})
    with pytest.raises(FullError):
        few.accept("search", "k", {})
    jobs_of(engine, "bob", 2).accept("search", "k", {})


def test_events_are_told_in_order_beyond_the_last_one_seen(engine: Engine) -> None:
    job_id = submit(engine)
    one = queue(engine)
    job = one.claim()
    assert job is not None
    one.report(job, [(1, "a"), (2, "b")])
    one.report(job, [(2, "b"), (3, "c")])
    owned = jobs_of(engine)
    assert owned.events(job_id, 0) == [(1, "a"), (2, "b"), (3, "c")]
    assert owned.events(job_id, 2) == [(3, "c")]
    assert owned.marks([job_id]) == {job_id: (RUNNING, 3)}


def test_other_databases_are_refused() -> None:
    with pytest.raises(Exception, match=r"(?s)no job store for mysql.*fix: use sqlite"):
        open_engine("mysql://nobody@localhost/jobs")
