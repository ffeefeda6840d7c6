"""`/health`, `/ready` and `/metrics`, for those who run the service."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from service.store.engine import reading

router = APIRouter(tags=["health"])


@router.get("/health")
def health() -> dict[str, str]:
    """The server answers."""
    return {"status": "ok"}


@router.get("/ready", responses={503: {}})
def ready(request: Request) -> JSONResponse:
    """The server can take work: its database answers."""
    try:
        with reading(request.app.state.engine) as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return JSONResponse({"status": "error", "message": "the database does not answer"}, 503)
    return JSONResponse({"status": "ok"})


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    content = generate_latest(request.app.state.figures.registry)
    return Response(content, media_type=CONTENT_TYPE_LATEST)
