"""Figures for Prometheus, and one line in the log for every request."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.store.jobs import Jobs
from service.streams import Streams

LOG = logging.getLogger("service.requests")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Figures:
    """What is counted."""

    def __init__(self, jobs: Jobs, streams: Streams) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter(
            "planner_requests", "Requests that were answered", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "planner_request_seconds", "Time until a response began", ("route",),
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.registry.register(_JobCounts(jobs, streams))


class _JobCounts(Collector):
    """Read when they are asked for."""

    def __init__(self, jobs: Jobs, streams: Streams) -> None:
        self._jobs, self._streams = jobs, streams

    def collect(self) -> Iterator[GaugeMetricFamily]:
        jobs = GaugeMetricFamily("planner_jobs", "Jobs in the store", labels=["kind", "state"])
        for (kind, state), count in sorted(self._jobs.counts().items()):
            jobs.add_metric([kind, state], count)
        yield jobs
        yield GaugeMetricFamily(
            "planner_event_streams", "Event streams that are open", value=self._streams.count
        )

    def describe(self) -> list[GaugeMetricFamily]:
        return []


class Counted:
    """Counts and logs requests, also those that are refused."""

    def __init__(self, app: ASGIApp, figures: Figures) -> None:
        self._app, self._figures = app, figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and note how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.monotonic()
        status, seconds = 0, 0.0

        async def noted(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.monotonic() - began_s
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            self._note(scope, status, seconds)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"]
        self._figures.requests.labels(method, route, str(status)).inc()
        self._figures.seconds.labels(route).observe(seconds)
        LOG.info(
            "request",
            extra={"method": method, "route": route, "status": status, "s": round(seconds, 6)},
        )
