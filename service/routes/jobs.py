"""`/v1/jobs`: what was accepted, how far it is, what came of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from service.routes.asker import Asker, JobId
from service.routes.bodies import JobRecord
from service.streams import Streams

PING_S = 15

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
def jobs(
    desk: Asker,
    state: Literal["queued", "running", "done", "failed", "cancelled"] | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[JobRecord]:
    """Jobs, the newest first."""
    return [JobRecord(**job.to_dict()) for job in desk.listed(state, limit)]


@router.get("/{job_id}")
def job(desk: Asker, job_id: JobId) -> JobRecord:
    """One job."""
    return JobRecord(**desk.find(job_id).to_dict())


@router.delete("/{job_id}")
def cancel(desk: Asker, job_id: JobId) -> JobRecord:
    """End a job: at once if it waits, within seconds if it runs."""
    return JobRecord(**desk.cancel(job_id).to_dict())


@router.get("/{job_id}/events", response_class=EventSourceResponse)
async def events(
    request: Request, desk: Asker, job_id: JobId,
    last_event_id: Annotated[str | None, Header(pattern=r"^\d{1,9}$")] = None,
) -> EventSourceResponse:  # fmt: skip
    """Progress as server-sent events: `progress` with stage, cost and bound, then `job`."""
    streams: Streams = request.app.state.streams
    await run_in_threadpool(desk.find, job_id)
    place = streams.place(desk.owner)

    async def sent() -> AsyncIterator[ServerSentEvent]:
        number = int(last_event_id or 0)
        with place, streams.watched(job_id) as changed:
            while True:
                changed.clear()
                found = await run_in_threadpool(desk.find, job_id)
                for each, data in await run_in_threadpool(desk.events, job_id, number):
                    number = each
                    yield ServerSentEvent(data, event="progress", id=str(number))
                if found.is_over:
                    yield ServerSentEvent(json.dumps(found.to_dict()), event="job")
                    return
                await changed.wait()

    return EventSourceResponse(sent(), ping=PING_S)
