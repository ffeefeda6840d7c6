"""`/v1/models` and `/v1/clusters`: what is uploaded, and what is there without."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from importers.sizes import published_names
from ir.texts import visible
from planner.requests.errors import UserError
from service.access import RefusedError
from service.routes.asker import Asker, ItemId, Shown
from service.routes.bodies import Uploaded
from service.store.items import NewItem
from service.visible import CURRENT_OWNER
from topology.catalogue import cluster_names

MODEL_SUFFIXES = (".onnx", ".onnx.gz", ".pt2", ".json", ".mindir", ".mlir", ".stablehlo")
CLUSTER_SUFFIXES = (".yaml", ".yml", ".json")
MOST_LETTERS = 150
FileName = Annotated[
    str, Query(description="Name of the file, without a folder. Its end says what it is.")
]
_BAD_NAME = re.compile(r"^\.|[\x00-\x1f\x7f/\\]")
_BINARY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}

router = APIRouter(prefix="/v1")


@asynccontextmanager
async def _place(request: Request) -> AsyncIterator[None]:
    """One of the few uploads of an owner that may be in memory at once."""
    uploads: Counter[str] = request.app.state.uploads
    limits, owner = request.app.state.settings.limits, CURRENT_OWNER.get()
    if uploads[owner] >= limits.uploads_at_once or uploads.total() >= limits.uploads:
        raise RefusedError(429, "too many uploads at once", {"retry-after": "1"})
    uploads[owner] += 1
    try:
        yield
    finally:
        uploads[owner] -= 1


async def body(request: Request) -> bytes:
    """The bytes of a request, which are no more than are allowed."""
    async with _place(request):
        content = bytearray()
        async for part in request.stream():
            content += part
        return bytes(content)


Content = Annotated[bytes, Depends(body)]


@router.post("/models", status_code=201, tags=["models"], openapi_extra=_BINARY)
async def upload_model(shown: Shown, desk: Asker, name: FileName, content: Content) -> Uploaded:
    """Upload a model file. Weights are not needed."""
    return await run_in_threadpool(_uploaded, shown, desk, "model", name, content, MODEL_SUFFIXES)


@router.post("/clusters", status_code=201, tags=["clusters"], openapi_extra=_BINARY)
async def upload_cluster(shown: Shown, desk: Asker, name: FileName, content: Content) -> Uploaded:
    """Upload a cluster file (YAML) or a rank table (JSON)."""
    return await run_in_threadpool(
        _uploaded, shown, desk, "cluster", name, content, CLUSTER_SUFFIXES
    )


@router.post("/plans", status_code=201, tags=["plans"], openapi_extra=_BINARY)
async def upload_plan(shown: Shown, desk: Asker, name: FileName, content: Content) -> Uploaded:
    """Upload a plan.json. It can be asked for once a job has read it."""
    return await run_in_threadpool(_uploaded, shown, desk, "plan", name, content, (".json",))


def _uploaded(
    shown: Shown, desk: Asker, kind: str, name: str, content: bytes, suffixes: tuple[str, ...]
) -> Uploaded:
    _check_name(name)
    if not name.lower().endswith(suffixes):
        known = ", ".join(suffixes)
        raise UserError(f"{name} ends in none of the known ways", "name", f"one of {known}")
    if not content:
        raise UserError(f"{name} is empty", "the body", "send the bytes of the file")
    item = shown.add(NewItem(kind, name, content, {"state": "unread"}))
    job = desk.submit(kind, {kind: item.id})
    return Uploaded(id=item.id, name=item.name, bytes=item.nbytes, job=job.id)


def _check_name(name: str) -> None:
    """Raise for a name that no file of a task may have."""
    if not 0 < len(name) <= MOST_LETTERS or len(name.encode()) > MOST_LETTERS:
        what = f"a name of {len(name)} letters"
        raise UserError(what, "name", f"give one of 1 to {MOST_LETTERS} letters")
    if _BAD_NAME.search(name):
        what = f"{visible(name)[:80]!r} cannot name a file"
        raise UserError(what, "name", "leave out slashes, control characters, a dot at the front")


@router.get("/models", tags=["models"])
def models(shown: Shown) -> dict[str, list[Any]]:
    """The models that were uploaded, and the names of published ones."""
    own = [item.to_dict() for item in shown.listed("model")]
    return {"uploaded": own, "published": list(published_names())}


@router.get("/models/{model_id}", tags=["models"])
def model(shown: Shown, model_id: ItemId) -> dict[str, Any]:
    """What is known of an uploaded model; `state` is unread, ready or refused."""
    return shown.find(model_id, "model").to_dict()


@router.get("/clusters", tags=["clusters"])
def clusters(shown: Shown) -> dict[str, list[Any]]:
    """The clusters that were uploaded, and the names of bundled ones."""
    own = [item.to_dict() for item in shown.listed("cluster")]
    return {"uploaded": own, "bundled": list(cluster_names())}


@router.get("/clusters/{cluster_id}", tags=["clusters"])
def cluster(shown: Shown, cluster_id: ItemId) -> dict[str, Any]:
    """What is known of an uploaded cluster; `state` is unread, ready or refused."""
    return shown.find(cluster_id, "cluster").to_dict()
