"""What the asker of the current request may see. Whoever forgets to ask for the owner sees nothing:
without a request there is no owner, and every method fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from service.store.items import Item, Items, NewItem, NotFoundError

CURRENT_OWNER: ContextVar[str] = ContextVar("planner_owner")
"""Set for each request from its token."""
KEPT_PLANS = 16
"""Plans whose bytes stay in memory: the page asks for one many times."""
CHECKED_PLANS = 1024
"""Plans of which it is known whose they are."""


class VisibleStore:
    """The items of the owner who asks."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._content = lru_cache(KEPT_PLANS)(self._read)
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
        """The bytes of an item.

        Raises:
            NotFoundError: the asker has none of this id and kind.
        """
        return self._content(self.owner, item_id, kind)

    def view(self, plan_id: str, name: str) -> bytes | None:
        """A view that was kept with a plan of the asker, if there is one."""
        return self._items.view(self.owner, plan_id, name)

    def find(self, item_id: str, kind: str) -> Item:
        """What is known of an item.

        Raises:
            NotFoundError: as `content`.
        """
        return self._items.find(self.owner, item_id, kind)

    def add(self, new: NewItem) -> Item:
        """Keep bytes of the asker.

        Raises:
            FullError: the asker keeps too much.
        """
        return self._items.add(self.owner, new)

    def remove(self, item_id: str, kind: str) -> None:
        """Forget an item of the asker.

        Raises:
            NotFoundError: as `content`.
        """
        self._items.remove(self.owner, item_id, kind)
        self._content.cache_clear()
        self._checked.cache_clear()

    def note(self, item_id: str, kind: str, facts: Mapping[str, Any]) -> Item:
        """Keep what the asker says of an item.

        Raises:
            NotFoundError: as `content`.
        """
        return self._items.note(self.owner, item_id, kind, facts)

    def names(self, item_ids: Collection[str]) -> dict[str, str]:
        """What items of the asker are called, by their ids; those that are gone are left out."""
        return self._items.names(self.owner, item_ids)

    def listed(self, kind: str) -> list[Item]:
        return self._items.listed(self.owner, kind)

    @property
    def owner(self) -> str:
        return CURRENT_OWNER.get()

    def _read(self, owner: str, item_id: str, kind: str) -> bytes:
        if kind == "plan":
            self._check(owner, item_id)
        return self._items.content(owner, item_id, kind)

    def _check(self, owner: str, plan_id: str) -> None:
        if not self._items.find(owner, plan_id, "plan").is_ready:
            raise NotFoundError(f"the plan {plan_id!r} has not been read")
