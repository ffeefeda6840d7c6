"""Where requests become jobs: what is asked is checked, named by its content, and accepted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from service.store.jobs import Job, Jobs, Listing
from service.version import planner_code
from service.visible import CURRENT_OWNER


class Desk:
    """Jobs of the owner who asks."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def submit(self, kind: str, request: Mapping[str, Any], priority: int = 0) -> Job:
        """Accept work; the same request as before is answered at once.

        Raises:
            FullError: too many jobs of the owner wait.
        """
        return self._jobs.submit(self.owner, kind, request_key(kind, request), request, priority)

    def find(self, job_id: str) -> Job:
        """One job.

        Raises:
            NotFoundError: the asker has none of this id.
        """
        return self._jobs.find(self.owner, job_id)

    def listed(self, asked: Listing) -> tuple[list[Job], int]:
        """A page of jobs, and how many there are in all.

        Raises:
            NotFoundError: as `Jobs.listed`.
        """
        return self._jobs.listed(self.owner, asked)

    def forget(self, job_id: str) -> Job:
        """Forget a job that is over.

        Raises:
            NotFoundError: the asker has none of this id.
        """
        return self._jobs.forget(self.owner, job_id)

    def cancel(self, job_id: str) -> Job:
        """End a job.

        Raises:
            NotFoundError: the asker has none of this id.
        """
        return self._jobs.cancel(self.owner, job_id)

    def events(self, job_id: str, after: int) -> list[tuple[int, str]]:
        """Progress of a job beyond an event.

        Raises:
            NotFoundError: the asker has no such job.
        """
        return self._jobs.events(self.owner, job_id, after)

    @property
    def owner(self) -> str:
        return CURRENT_OWNER.get()


def request_key(kind: str, request: Mapping[str, Any]) -> str:
    """A name of what is asked: equal for equal requests to one version of the planner.

    Ids in the request are those of contents, so the key follows from bytes.
    """
    text = json.dumps([planner_code(), kind, request], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
