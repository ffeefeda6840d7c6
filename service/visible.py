"""What the asker of the current request may see. Whoever forgets to ask for the owner sees nothing:
without a request there is no owner, and every method fails.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from sqlalchemy import Engine

from service.store.items import Items, NotFoundError

CURRENT_OWNER: ContextVar[str] = ContextVar("planner_owner")
"""Set for each request from its token."""
KEPT_PLANS = 16
"""Plans whose bytes stay in memory: the page asks for one many times."""
CHECKED_PLANS = 1024
"""Plans of which it is known whose they are."""


class VisibleStore(Items):
    """The items of the owner of the current request; the bytes of a few stay in memory."""

    def __init__(self, engine: Engine, most_bytes: int) -> None:
        super().__init__(engine, most_bytes, CURRENT_OWNER.get)
        self._contents = lru_cache(KEPT_PLANS)(self._read)
        self._checked = lru_cache(CHECKED_PLANS)(self._check)

    def plan_bytes(self, plan_id: str) -> bytes:
        """Exactly plan.json, once a job has made or read it.

        Raises:
            NotFoundError: the asker has no such plan.
        """
        return self.content(plan_id, "plan")

    def check_plan(self, plan_id: str) -> None:
        """Raise unless the asker has such a plan.

        Raises:
            NotFoundError: as `plan_bytes`.
        """
        self._checked(self.owner, plan_id)

    def plans(self) -> list[dict[str, Any]]:
        """Ids, names and summaries of the asker's plans, the newest first."""
        return [item.to_dict() for item in self.listed("plan")]

    def content(self, item_id: str, kind: str) -> bytes:
        return self._contents(self.owner, item_id, kind)

    def remove(self, item_id: str, kind: str) -> None:
        super().remove(item_id, kind)
        self._contents.cache_clear()
        self._checked.cache_clear()

    def _read(self, owner: str, item_id: str, kind: str) -> bytes:
        if kind == "plan":
            self._check(owner, item_id)
        return super().content(item_id, kind)

    def _check(self, _: str, plan_id: str) -> None:
        """Raise unless the asker, who is the owner, has such a plan."""
        if not self.find(plan_id, "plan").is_ready:
            raise NotFoundError(f"the plan {plan_id!r} has not been read")
