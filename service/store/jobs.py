"""Jobs as their owners see them: accepted, listed, watched, cancelled."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Row, and_, delete, func, insert, select, update

from service.store.engine import reading, writing
from service.store.items import FullError, NotFoundError
from service.store.tables import answers, events, jobs

QUEUED, RUNNING = "queued", "running"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"
LAST_STATES = (DONE, FAILED, CANCELLED)
MOST_LISTED = 1000


@dataclass(frozen=True, slots=True)
class Job:
    """Work that was accepted."""

    id: str
    owner: str
    kind: str
    key: str
    """Equal for equal requests of an owner to one version of the planner."""
    request: Mapping[str, Any]
    priority: int
    """The larger, the sooner; among equals the first to come."""
    state: str
    cached: bool
    """Whether the result was there already."""
    worker: str | None
    attempt: int
    """How often a worker has begun it."""
    crashes: int
    submitted_at: float
    """Seconds since 1970, as are the other times."""
    started_at: float | None
    finished_at: float | None
    result: Mapping[str, Any] | None
    message: str | None
    """Why it failed."""

    @property
    def is_over(self) -> bool:
        return self.state in LAST_STATES

    def to_dict(self) -> dict[str, Any]:
        """What the owner is told."""
        return {
            "job": self.id,
            "kind": self.kind,
            "state": self.state,
            "priority": self.priority,
            "cached": self.cached,
            "attempt": self.attempt,
            "submitted_at": self.submitted_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "request": dict(self.request),
            "result": None if self.result is None else dict(self.result),
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list of jobs."""

    state: str | None = None
    kind: str | None = None
    limit: int = 100
    before: str | None = None
    """The last job of the page before it."""


class Jobs:
    """The jobs of the owner who asks."""

    def __init__(self, engine: Engine, most_waiting: int, owner: Callable[[], str]) -> None:
        """Let so many jobs of an owner wait; `owner` says who asks, or fails."""
        self._engine = engine
        self._most_waiting = most_waiting
        self._asker = owner

    @property
    def owner(self) -> str:
        return self._asker()

    def accept(self, kind: str, key: str, request: Mapping[str, Any], priority: int = 0) -> Job:
        """Accept work. Once this returns, the work is done or its failure is told.

        Raises:
            FullError: too many jobs of the owner wait.
        """
        with writing(self._engine) as connection:
            return submit_job(
                connection, self.owner, kind, key, request, priority, self._most_waiting
            )

    def find(self, job_id: str) -> Job:
        """One job.

        Raises:
            NotFoundError: the owner has none of this id.
        """
        with reading(self._engine) as connection:
            return _found(connection, self.owner, job_id)

    def listed(self, asked: Listing) -> tuple[list[Job], int]:
        """Jobs, the newest first, and how many there are on all pages.

        Raises:
            NotFoundError: the owner has no job that the page is to begin after.
        """
        chosen = [jobs.c.owner == self.owner]
        chosen += [jobs.c.state == asked.state] if asked.state is not None else []
        chosen += [jobs.c.kind == asked.kind] if asked.kind is not None else []
        with reading(self._engine) as connection:
            count = connection.execute(select(func.count()).where(*chosen)).scalar_one()
            if asked.before is not None:
                chosen.append(jobs.c.number < _row(connection, self.owner, asked.before).number)
            newest = select(jobs).where(*chosen).order_by(jobs.c.number.desc())
            rows = connection.execute(newest.limit(min(asked.limit, MOST_LISTED))).all()
        return [job_of(row) for row in rows], int(count)

    def forget(self, job_id: str) -> Job:
        """Forget a job that is over, and its progress; what it made stays. One that is not over is
        ended.

        Raises:
            NotFoundError: the owner has none of this id.
        """
        found = self.cancel(job_id)
        if found.is_over:
            with writing(self._engine) as connection:
                connection.execute(delete(events).where(events.c.job == job_id))
                connection.execute(
                    delete(jobs).where(jobs.c.owner == self.owner, jobs.c.id == job_id)
                )
        return found

    def cancel(self, job_id: str) -> Job:
        """End a job: at once if it waits, as soon as its worker notices if it runs.

        Raises:
            NotFoundError: the owner has none of this id.
        """
        own = and_(jobs.c.owner == self.owner, jobs.c.id == job_id)
        with writing(self._engine) as connection:
            connection.execute(
                update(jobs)
                .where(own, jobs.c.state == QUEUED)
                .values(state=CANCELLED, cancelled=True, finished_at=time.time())
            )
            connection.execute(
                update(jobs).where(own, jobs.c.state == RUNNING).values(cancelled=True)
            )
            return _found(connection, self.owner, job_id)

    def events(self, job_id: str, after: int) -> list[tuple[int, str]]:
        """Progress of a job beyond an event, as numbers and JSON texts.

        Raises:
            NotFoundError: the owner has no such job.
        """
        with reading(self._engine) as connection:
            _found(connection, self.owner, job_id)
            rows = connection.execute(
                select(events.c.number, events.c.data)
                .where(events.c.job == job_id, events.c.number > after)
                .order_by(events.c.number)
            ).all()
        return [(row.number, row.data) for row in rows]

    def marks(self, job_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        """State and last event of jobs, whoever owns them: different once something happened."""
        with reading(self._engine) as connection:
            rows = connection.execute(
                select(jobs.c.id, jobs.c.state, func.coalesce(func.max(events.c.number), 0))
                .outerjoin(events, events.c.job == jobs.c.id)
                .where(jobs.c.id.in_(job_ids))
                .group_by(jobs.c.id, jobs.c.state)
            ).all()
        return {job_id: (state, number) for job_id, state, number in rows}

    def counts(self) -> dict[tuple[str, str], int]:
        """Jobs of all owners by kind and state."""
        with reading(self._engine) as connection:
            rows = connection.execute(
                select(jobs.c.kind, jobs.c.state, func.count()).group_by(jobs.c.kind, jobs.c.state)
            ).all()
        return {(kind, state): count for kind, state, count in rows}


def submit_job(
    connection: Connection, owner: str, kind: str, key: str,
    request: Mapping[str, Any], priority: int, most_waiting: int,
) -> Job:  # fmt: skip
    """Accept work within a transaction; what was asked before is answered at once."""
    waiting = connection.execute(
        select(func.count()).where(jobs.c.owner == owner, jobs.c.state.in_((QUEUED, RUNNING)))
    ).scalar_one()
    if waiting >= most_waiting:
        raise FullError(f"{waiting} jobs wait already")
    known = answer(connection, owner, key)
    job_id, now = f"j_{uuid.uuid4().hex}", time.time()
    over = {"state": DONE, "cached": True, "result": known, "started_at": now, "finished_at": now}
    connection.execute(
        insert(jobs).values(
            id=job_id, owner=owner, kind=kind, key=key, priority=priority, submitted_at=now,
            request=json.dumps(dict(request), sort_keys=True), cancelled=False, attempt=0,
            crashes=0, **({"state": QUEUED, "cached": False} if known is None else over),
        )
    )  # fmt: skip
    return _found(connection, owner, job_id)


def answer(connection: Connection, owner: str, key: str) -> str | None:
    """The result that an owner has been given for a request, as JSON."""
    return connection.execute(
        select(answers.c.result).where(answers.c.owner == owner, answers.c.key == key)
    ).scalar()


def _found(connection: Connection, owner: str, job_id: str) -> Job:
    return job_of(_row(connection, owner, job_id))


def _row(connection: Connection, owner: str, job_id: str) -> Row[Any]:
    row = connection.execute(select(jobs).where(jobs.c.owner == owner, jobs.c.id == job_id)).first()
    if row is None:
        raise NotFoundError(f"there is no job {job_id[:64]!r}")
    return row


def job_of(row: Row[Any]) -> Job:
    """The record of a row."""
    result = None if row.result is None else json.loads(row.result)
    return Job(
        row.id, row.owner, row.kind, row.key, json.loads(row.request), row.priority, row.state,
        row.cached, row.worker, row.attempt, row.crashes, row.submitted_at, row.started_at,
        row.finished_at, result, row.message,
    )  # fmt: skip
