"""What owners have can be called otherwise, and forgotten."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from fastapi import APIRouter

from service.routes.asker import ItemId, Shown
from service.routes.bodies import LabelBody

router = APIRouter(prefix="/v1")


class Noun(StrEnum):
    """What can be forgotten."""

    MODELS = "models"
    CLUSTERS = "clusters"
    PLANS = "plans"
    TRACES = "traces"
    EXPORTS = "exports"


class Labelled(StrEnum):
    """What can be called otherwise."""

    MODELS = "models"
    CLUSTERS = "clusters"
    PLANS = "plans"


@router.patch("/{noun}/{item_id}", tags=["plans"])
def label(shown: Shown, noun: Labelled, item_id: ItemId, body: LabelBody) -> dict[str, Any]:
    """Give a model, a cluster or a plan a label and tags; what is left out stays."""
    facts = body.model_dump(exclude_none=True)
    return shown.note(item_id, noun.value.removesuffix("s"), facts).to_dict()


@router.delete("/{noun}/{item_id}", status_code=204, tags=["plans"])
def forget(shown: Shown, noun: Noun, item_id: ItemId) -> None:
    """Forget a model, a cluster, a plan, a trace or an exported file."""
    shown.remove(item_id, noun.value.removesuffix("s"))
