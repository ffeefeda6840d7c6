"""What owners have can be forgotten."""

from __future__ import annotations

from enum import StrEnum

from fastapi import APIRouter

from service.routes.asker import ItemId, Shown

router = APIRouter(prefix="/v1")


class Noun(StrEnum):
    """What can be forgotten."""

    MODELS = "models"
    CLUSTERS = "clusters"
    PLANS = "plans"
    TRACES = "traces"
    EXPORTS = "exports"


@router.delete("/{noun}/{item_id}", status_code=204, tags=["plans"])
def forget(shown: Shown, noun: Noun, item_id: ItemId) -> None:
    """Forget a model, a cluster, a plan, a trace or an exported file."""
    shown.remove(item_id, noun.value.removesuffix("s"))
