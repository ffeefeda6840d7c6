"""Errors as answers: the text that the command line prints, with a status."""

from __future__ import annotations

from functools import partial

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from planner.requests.errors import user_errors
from service.access import RefusedError
from service.store.items import FullError, NotFoundError

MOST_FAULTS = 5


def said(status: int, message: str) -> JSONResponse:
    """An error for people and programs."""
    return JSONResponse({"status": "error", "message": message}, status)


async def _of_status(status: int, _: Request, error: Exception) -> JSONResponse:
    return said(status, str(error))


def add_fault_handlers(app: FastAPI) -> None:
    """Let every error of the core be an answer."""
    statuses = {**dict.fromkeys(user_errors(), 422), NotFoundError: 404, FullError: 429}
    for kind, status in statuses.items():
        app.add_exception_handler(kind, partial(_of_status, status))

    @app.exception_handler(RefusedError)
    async def _refused(_: Request, error: RefusedError) -> JSONResponse:
        answer = said(error.status, str(error))
        answer.headers.update({**error.headers, "connection": "close"})
        return answer

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        answer = said(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        lines = [
            f"{each['msg']}\n  at:  {'.'.join(map(str, each['loc']))[:200]}"
            for each in error.errors()[:MOST_FAULTS]
        ]
        return said(422, "\n".join(lines) + "\n  fix: /openapi.json tells the form")

    @app.exception_handler(Exception)
    async def _other(_: Request, _error: Exception) -> JSONResponse:
        return said(500, "a fault of the server; its log has more")
