"""The application: store, routes, page and workers put together."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from service.access import Access
from service.desk import Desk
from service.faults import add_fault_handlers
from service.metrics import Counted, Figures
from service.page import missing_page, page_folder
from service.routes import forgetting, health, jobs, plans, uploads, work
from service.settings import Settings
from service.store.engine import open_engine
from service.streams import Streams
from service.version import planner_code, planner_version
from service.views.cache import ViewCache
from service.views.routes import router as views_router
from service.visible import VisibleStore
from service.work.supervisor import Supervisor

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
    state.store = VisibleStore(state.engine, settings.limits.kept_bytes)
    state.desk = Desk(state.engine, settings.limits.waiting_jobs)
    state.streams = Streams(state.desk, settings.limits)
    state.figures = Figures(state.desk, state.streams)
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
    planner_code()  # takes a moment, once, before anybody waits for it
    events = asyncio.create_task(app.state.streams.run())
    try:
        yield
    finally:
        events.cancel()
        with suppress(asyncio.CancelledError):
            await events
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
    """The built page, packed when it was built: pieces that are named by their content are kept for
    good.
    """

    def file_response(
        self, full_path: PathLike, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """A file, and how long a browser may keep it."""
        packed = Path(f"{full_path}.gz")
        if "gzip" in Headers(scope=scope).get("Accept-Encoding", "") and packed.is_file():
            answer = super().file_response(packed, packed.stat(), scope, status_code)
            answer.headers["Content-Encoding"] = "gzip"
        else:
            answer = super().file_response(full_path, stat_result, scope, status_code)
        answer.headers.add_vary_header("Accept-Encoding")
        is_piece = _HASHED.search(str(full_path)) is not None
        answer.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if is_piece else "no-cache"
        )
        return answer
