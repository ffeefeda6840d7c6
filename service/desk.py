"""Where requests become jobs: what is asked is checked, named by its content, and accepted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine

from service.store.jobs import Job, Jobs
from service.version import planner_code
from service.visible import CURRENT_OWNER


class Desk(Jobs):
    """Jobs of the owner of the current request."""

    def __init__(self, engine: Engine, most_waiting: int) -> None:
        super().__init__(engine, most_waiting, CURRENT_OWNER.get)

    def submit(self, kind: str, request: Mapping[str, Any], priority: int = 0) -> Job:
        """Accept work; the same request as before is answered at once.

        Raises:
            FullError: too many jobs of the owner wait.
        """
        return self.accept(kind, request_key(kind, request), request, priority)


def request_key(kind: str, request: Mapping[str, Any]) -> str:
    """A name of what is asked: equal for equal requests to one version of the planner.

    Ids in the request are those of contents, so the key follows from bytes.
    """
    text = json.dumps([planner_code(), kind, request], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
