"""The first views of the newest plan, made before anybody asks: that takes seconds."""

from __future__ import annotations

import asyncio
import logging

from starlette.concurrency import run_in_threadpool

from ir.plan_file import plan_from_json
from service.store.items import Items, NotFoundError
from service.views.cache import ViewCache, answer
from service.views.graph import Level, graph_view
from service.views.summary import summary_view

LOOK_S = 0.5
LOG = logging.getLogger("service.views")


class Readiness:
    """Keeps the views ready that a plan is opened with."""

    def __init__(self, items: Items, cache: ViewCache) -> None:
        self._items, self._cache = items, cache
        self._since_s = 0.0

    async def run(self) -> None:
        """Look for a newer plan again and again."""
        while True:
            try:
                await run_in_threadpool(self.prepare)
            except Exception:
                LOG.exception("the newest plan cannot be made ready")
            await asyncio.sleep(LOOK_S)

    def prepare(self) -> None:
        """Make the views of the newest plan of all owners, if there is a newer one; an upload only
        once a job has found it good.
        """
        found = self._items.newest_plan(self._since_s)
        if found is None:
            return
        owner, item = found
        if not item.is_ready and item.facts.get("state") != "refused":
            return
        self._since_s = item.created_at
        if item.is_ready:
            self._make(owner, item.id)

    def _make(self, owner: str, plan_id: str) -> None:
        try:
            content = self._items.content(owner, plan_id, "plan")
        except NotFoundError:  # removed since
            return
        plan = self._cache.plans.get(plan_id, lambda: plan_from_json(content.decode()))
        self._cache.views.get((plan_id, "summary"), lambda: answer(summary_view(plan)))
        folded = (plan_id, "graph", Level.FOLDED, ())
        self._cache.views.get(folded, lambda: answer(graph_view(plan, Level.FOLDED)))
