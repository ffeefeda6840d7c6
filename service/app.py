"""The application: store, routes, page and workers put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from service.access import Access
from service.desk import Desk
from service.faults import add_fault_handlers
from service.metrics import Counted, Figures
from service.routes import forgetting, health, jobs, plans, uploads, work
from service.settings import Settings
from service.store.engine import open_engine
from service.store.items import Items
from service.store.jobs import Jobs
from service.streams import Streams
from service.views.routes import router as views_router
from service.visible import VisibleStore
from service.work.supervisor import Supervisor
from service.work.version import planner_version

ROUTERS = (
    uploads.router, work.router, jobs.router, plans.router, views_router, health.router,
    forgetting.router,
)  # fmt: skip


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
    state.uploads = 0
    add_fault_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    _add_page(app)
    app.add_middleware(Access, settings=settings)
    app.add_middleware(Counted, figures=state.figures)
    return app


@asynccontextmanager
async def _alive(app: FastAPI) -> AsyncIterator[None]:
    app.state.supervisor.start()
    streams = asyncio.create_task(app.state.streams.run())
    try:
        yield
    finally:
        streams.cancel()
        with suppress(asyncio.CancelledError):
            await streams
        await asyncio.to_thread(app.state.supervisor.stop)
        app.state.engine.dispose()


def _add_page(app: FastAPI) -> None:
    folder = Path(str(resources.files("service"))) / "web" / "static"
    if folder.is_dir():
        app.mount("/", StaticFiles(directory=folder, html=True))
