"""Jobs as workers see them: claimed under a lease, kept alive, finished once.

A worker that dies says nothing. Its lease runs out, and another worker begins the job again. Every
change of a running job names worker and attempt, so that one who was believed dead cannot finish
what somebody else does by now; result and state are written in one transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, or_, select, update

from service.store.engine import add_once, reading, writing
from service.store.items import Item, NewItem, add_item, item_of, keep_views, note_facts
from service.store.jobs import CANCELLED, DONE, FAILED, QUEUED, RUNNING, Job, answer, job_of
from service.store.tables import answers, contents, events, items, jobs

LEASE_S = 15.0
"""A worker renews its lease every few seconds; one that has not for so long is dead."""


class LostError(Exception):
    """The job is somebody else's by now, or over."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job came to."""

    result: Mapping[str, Any]
    """For the owner. `"$kind"` in it stands for the id of the new item of that kind."""
    files: tuple[NewItem, ...] = ()
    keep: bool = True
    """Whether the same request gets the same answer from now on."""
    about: tuple[str, Mapping[str, Any]] | None = None
    """An item and what was found out about it."""
    views: Mapping[str, bytes] = field(default_factory=dict)
    """Of the plan among the files, or of the one that it is about: views by their names."""


class Queue:
    """What one worker does with jobs."""

    def __init__(self, engine: Engine, worker: str, most_attempts: int, most_bytes: int) -> None:
        self._engine = engine
        self._worker = worker
        self._most_attempts = most_attempts
        self._most_bytes = most_bytes

    def claim(self, kinds: Sequence[str] = ()) -> Job | None:
        """The most urgent job that nobody does, or `None`.

        Args:
            kinds: those that are taken; empty for all.

        One that was asked twice and answered since is finished without work, and one that many
        workers died of is given up.
        """
        while self._is_any_free():
            with writing(self._engine) as connection:
                job = self._claimed(connection, kinds)
                if job is None:
                    return None
                known = answer(connection, job.owner, job.key)
                if known is not None:
                    self._end(connection, job, DONE, result=known, cached=True)
                elif job.attempt > self._most_attempts:
                    message = f"{self._most_attempts} workers were lost over it"
                    self._end(connection, job, FAILED, message=message)
                else:
                    return job
        return None

    def _is_any_free(self) -> bool:
        """Without a lock, for workers that wait."""
        with reading(self._engine) as connection:
            found = connection.execute(select(jobs.c.number).where(_free(time.time())).limit(1))
            return found.first() is not None

    def _claimed(self, connection: Connection, kinds: Sequence[str]) -> Job | None:
        now = time.time()
        free = _free(now) if not kinds else and_(_free(now), jobs.c.kind.in_(kinds))
        dead = and_(jobs.c.state == RUNNING, jobs.c.lease_until < now, jobs.c.cancelled)
        connection.execute(update(jobs).where(dead).values(state=CANCELLED, finished_at=now))
        first = (
            select(jobs.c.number)
            .where(free)
            .order_by(jobs.c.priority.desc(), jobs.c.number)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        row = connection.execute(
            update(jobs)
            .where(jobs.c.number == first.scalar_subquery())
            .values(
                state=RUNNING, worker=self._worker, attempt=jobs.c.attempt + 1,
                lease_until=now + LEASE_S, started_at=now,
            )
            .returning(*jobs.c)
        ).first()  # fmt: skip
        return None if row is None else job_of(row)

    def keep(self, job: Job) -> bool:
        """Renew the lease; False if the owner wants the job no more.

        Raises:
            LostError: the lease had run out, and the job is another worker's.
        """
        with writing(self._engine) as connection:
            cancelled = connection.execute(
                update(jobs)
                .where(self._mine(job))
                .values(lease_until=time.time() + LEASE_S)
                .returning(jobs.c.cancelled)
            ).scalar()
        if cancelled is None:
            raise LostError
        return not cancelled

    def report(self, job: Job, numbered: Sequence[tuple[int, str]]) -> None:
        """Events of this attempt; their numbers go on from those of earlier ones."""
        with writing(self._engine) as connection:
            for number, data in numbered:
                add_once(connection, events, job=job.id, number=number, data=data)

    def finish(self, job: Job, outcome: Outcome) -> None:
        """Write the result and what belongs to it: all of it, once.

        Raises:
            LostError: the job is another worker's by now.
            FullError: the owner keeps too much.
        """
        with writing(self._engine) as connection:
            names: dict[str, str] = {}
            for new in outcome.files:
                added: Item = add_item(connection, job.owner, new, self._most_bytes)
                names[f"${new.kind}"] = added.id
            result = json.dumps(
                {
                    key: names.get(value, value) if isinstance(value, str) else value
                    for key, value in outcome.result.items()
                },
                sort_keys=True,
            )
            if outcome.about is not None:
                note_facts(connection, job.owner, *outcome.about)
            if outcome.views:
                plan = names["$plan"] if outcome.about is None else outcome.about[0]
                keep_views(connection, job.owner, plan, outcome.views)
            if outcome.keep:
                add_once(connection, answers, owner=job.owner, key=job.key, result=result)
            self._end(connection, job, DONE, result=result)

    def fail(
        self, job: Job, message: str, result: Mapping[str, Any] | None = None,
        about: tuple[str, Mapping[str, Any]] | None = None,
    ) -> None:  # fmt: skip
        """Tell the owner why there is no result.

        Raises:
            LostError: the job is another worker's by now.
        """
        text = None if result is None else json.dumps(dict(result), sort_keys=True)
        with writing(self._engine) as connection:
            if about is not None:
                note_facts(connection, job.owner, *about)
            self._end(connection, job, FAILED, message=message, result=text)

    def cancel(self, job: Job) -> None:
        """Say that the job was ended as its owner wished."""
        with writing(self._engine) as connection:
            self._end(connection, job, CANCELLED)

    def give_back(self, job: Job, *, crashed: bool) -> None:
        """Let another worker begin the job again."""
        with writing(self._engine) as connection:
            connection.execute(
                update(jobs)
                .where(self._mine(job))
                .values(
                    state=QUEUED, worker=None, lease_until=None,
                    crashes=jobs.c.crashes + (1 if crashed else 0),
                )
            )  # fmt: skip

    def inputs(self, owner: str, ids: Sequence[str]) -> dict[str, tuple[Item, bytes]]:
        """The items of these ids that the owner has, with their bytes."""
        with reading(self._engine) as connection:
            rows = connection.execute(
                select(items, contents.c.content)
                .join(contents, items.c.digest == contents.c.digest)
                .where(items.c.owner == owner, items.c.id.in_(ids))
            ).all()
        return {row.id: (item_of(row), bytes(row.content)) for row in rows}

    def _mine(self, job: Job) -> ColumnElement[bool]:
        return and_(
            jobs.c.id == job.id,
            jobs.c.state == RUNNING,
            jobs.c.worker == self._worker,
            jobs.c.attempt == job.attempt,
        )

    def _end(self, connection: Connection, job: Job, state: str, **values: object) -> None:
        ended = connection.execute(
            update(jobs)
            .where(self._mine(job))
            .values(state=state, finished_at=time.time(), lease_until=None, **values)
        )
        if ended.rowcount != 1:
            raise LostError


def _free(now: float) -> ColumnElement[bool]:
    """Jobs that nobody does."""
    return or_(jobs.c.state == QUEUED, and_(jobs.c.state == RUNNING, jobs.c.lease_until < now))
