"""`/v1/jobs`: what was accepted, how far it is, what came of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from service.routes.asker import Asker, JobId, Shown
from service.routes.bodies import JobRecord
from service.store.jobs import Job, Listing
from service.streams import Streams
from service.work.given import items_named

PING_S = 15

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


Kind = Literal[
    "model", "cluster", "plan", "search", "simulation", "sweep", "verification", "export"
]  # fmt: skip


@router.get("")
def jobs(
    desk: Asker, shown: Shown, response: Response,
    state: Literal["queued", "running", "done", "failed", "cancelled"] | None = None,
    kind: Kind | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[str | None, Query(pattern=r"^j_[0-9a-f]{32}$")] = None,
) -> list[JobRecord]:  # fmt: skip
    """Jobs, the newest first, with the plain values of their results. `X-Total-Count` says how many
    there are; the next page is asked for with `before`, the last job of this one.
    """
    found, count = desk.listed(Listing(state, kind, limit, before))
    response.headers["X-Total-Count"] = str(count)
    names = shown.names({each for job in found for each in items_named(job.request)})
    return [_record(job, names, brief=True) for job in found]


@router.get("/{job_id}")
def job(desk: Asker, shown: Shown, job_id: JobId) -> JobRecord:
    """One job."""
    found = desk.find(job_id)
    return _record(found, shown.names(items_named(found.request)))


@router.delete("/{job_id}")
def cancel(desk: Asker, job_id: JobId, *, forget: bool = False) -> JobRecord:
    """End a job: at once if it waits, within seconds if it runs. One that is over is forgotten, if
    that is asked for; what it made stays.
    """
    return _record(desk.forget(job_id) if forget else desk.cancel(job_id), {})


def _record(job: Job, names: Mapping[str, str], *, brief: bool = False) -> JobRecord:
    told = job.to_dict()
    if brief and job.result is not None:
        told["result"] = {k: v for k, v in job.result.items() if not isinstance(v, list | dict)}
    own = items_named(job.request)
    return JobRecord(**told, names={i: name for i, name in names.items() if i in own})


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
