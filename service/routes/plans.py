"""`/v1/plans`: what searches found."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from service.routes.asker import ItemId, Shown
from service.sample import sample_plan

router = APIRouter(prefix="/v1/plans", tags=["plans"])


@router.get("")
def plans(shown: Shown) -> list[dict[str, Any]]:
    """All plans, the newest first."""
    return shown.plans()


@router.post("/sample", status_code=201)
def sample(shown: Shown) -> dict[str, Any]:
    """A plan to look at: it comes with the service, and is what a search for it finds."""
    return shown.add(sample_plan()).to_dict()


@router.get("/{plan_id}")
def plan(shown: Shown, plan_id: ItemId) -> Response:
    """Exactly plan.json, as `planner search -o` writes it."""
    content = shown.plan_bytes(plan_id)
    headers = {"ETag": f'"{plan_id}"', "Cache-Control": "private, max-age=31536000, immutable"}
    return Response(content, media_type="application/json", headers=headers)
