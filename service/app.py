"""The application: store, routes, page and workers put together."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response

from service.access import Access
from service.desk import Desk
from service.faults import add_fault_handlers
from service.metrics import Counted, Figures
from service.page import missing_page, page_folder
from service.routes import forgetting, health, jobs, plans, uploads, work
from service.settings import Settings
from service.store.engine import open_engine
from service.store.items import Items
from service.store.jobs import Jobs
from service.streams import Streams
from service.views.cache import ViewCache
from service.views.ready import Readiness
from service.views.routes import router as views_router
from service.visible import VisibleStore
from service.work.supervisor import Supervisor
from service.work.version import planner_version

ROUTERS = (
    uploads.router, work.router, jobs.router, plans.router, views_router, health.router,
    forgetting.router,
)  # fmt: skip

PACKED_BYTES = 1024
"""Answers of so many bytes are sent packed to those who take them so."""
PathLike: TypeAlias = str | os.PathLike[str]
_HASHED = re.compile(r"-[0-9A-Z]{8}\.js$")


def create_app(settings: Settings) -> FastAPI:
    """The service with these settings; its workers live as long as it does."""
    app = FastAPI(
        title="Planner", version=planner_version(), lifespan=_alive, docs_url=None, redoc_url=None
    )
    state = app.state
    state.settings = settings
    state.engine = open_engine(settings.database)
    state.items = Items(state.engine, settings.limits.kept_bytes)
    state.jobs = Jobs(state.engine, settings.limits.waiting_jobs)
    state.store = VisibleStore(state.items)
    state.desk = Desk(state.jobs)
    state.streams = Streams(state.jobs, settings.limits)
    state.figures = Figures(state.jobs, state.streams)
    state.supervisor = Supervisor(settings)
    state.uploads = Counter[str]()
    state.views = ViewCache()
    add_fault_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    _add_page(app)
    app.add_middleware(GZipMiddleware, minimum_size=PACKED_BYTES, compresslevel=6)
    app.add_middleware(Access, settings=settings)
    app.add_middleware(Counted, figures=state.figures)
    return app


@asynccontextmanager
async def _alive(app: FastAPI) -> AsyncIterator[None]:
    app.state.supervisor.start()
    ready = Readiness(app.state.items, app.state.views)
    running = [asyncio.create_task(each.run()) for each in (app.state.streams, ready)]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.to_thread(app.state.supervisor.stop)
        app.state.engine.dispose()


def _add_page(app: FastAPI) -> None:
    folder = page_folder()
    if folder is not None:
        app.mount("/", _Page(directory=folder, html=True))
        return

    @app.get("/", include_in_schema=False)
    def no_page() -> PlainTextResponse:
        return PlainTextResponse(missing_page(), 404)


class _Page(StaticFiles):
    """The built page: pieces that are named by their content are kept for good."""

    def file_response(self, full_path: PathLike, *args: Any, **more: Any) -> Response:
        """A file, and how long a browser may keep it."""
        answer = super().file_response(full_path, *args, **more)
        is_piece = _HASHED.search(str(full_path)) is not None
        answer.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if is_piece else "no-cache"
        )
        return answer
