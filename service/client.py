"""The service from Python: `from service.client import Planner`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from ir.texts import visible

RETRIES = 8
"""Times that a lost connection is tried again before it is told."""
_ANSWER_S = 120.0
_LAST_STATES = ("done", "failed", "cancelled")


class ServiceError(Exception):
    """The service refused, or a job failed; the message is the service's own."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; 0 for a job that failed."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was exported."""

    name: str
    content: bytes
    notes: tuple[str, ...]
    """What it does not say of the plan, a sentence each."""


class Planner:
    """A service.

    >>> planner = Planner("http://127.0.0.1:8400")
    >>> plan_id = planner.search("llama3-8b", devices=16)["plan"]  # doctest: +SKIP
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8400",
        token: str | None = None,
        *,
        http: httpx.Client | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, timeout=_ANSWER_S) if http is None else http
        self._headers = headers
        self.watched = ""
        """The job that is waited for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def upload_model(self, path: Path) -> str:
        """Upload a model file; its id. The same file has the same id."""
        return self.upload("models", path.name, path.read_bytes())

    def upload_cluster(self, path: Path) -> str:
        """Upload a cluster file or a rank table; its id."""
        return self.upload("clusters", path.name, path.read_bytes())

    def upload_plan(self, path: Path) -> str:
        """Upload a plan.json; its id."""
        return self.upload("plans", path.name, path.read_bytes())

    def upload(self, kind: str, name: str, content: bytes) -> str:
        """Upload bytes, and wait until the service has read them; their id.

        Raises:
            ServiceError: they are refused.
        """
        answer = self._json("POST", f"/v1/{kind}", params={"name": visible(name)}, content=content)
        self.wait(answer["job"])
        return str(answer["id"])

    def submit(self, kind: str, body: Mapping[str, Any]) -> str:
        """Ask for work, such as `submit("searches", {...})`; the job's id."""
        return str(self._json("POST", f"/v1/{kind}", json=dict(body))["job"])

    def search(
        self,
        model: str,
        report: Callable[[Mapping[str, Any]], None] = lambda _: None,
        *,
        priority: int = 0,
        why_not: Sequence[str] = (),
        **options: object,
    ) -> dict[str, Any]:
        """Search and wait; the result, whose `plan` is the plan's id.

        Args:
            model: id of an uploaded model, or the name of a published one.
            report: receives events of progress.
            priority: 0 to 9, the larger the sooner.
            why_not: other ways to compare it with, such as `["tp=8"]`; the result has `why_not`.
            options: as on the command line, with underscores: `devices=16, batch=64`.

        Raises:
            ServiceError: the search is refused or fails.
        """
        body: dict[str, Any] = {"model": model, "options": options, "priority": priority}
        body |= {"why_not": list(why_not)} if why_not else {}
        return self.wait(self.submit("searches", body), report)

    def sweep(
        self,
        model: str,
        report: Callable[[Mapping[str, Any]], None] = lambda _: None,
        *,
        sweep: Mapping[str, object],
        files: Sequence[str] = (),
        prices: Mapping[str, str] | None = None,
        workers: int = 1,
        **options: object,
    ) -> dict[str, Any]:
        """Search at many points and wait.

        Args:
            model: as in a search.
            report: receives events of progress.
            sweep: what differs, such as `{"devices": "8,16", "vary": ["bandwidth=0.5:2:5"]}`.
            files: of `csv`, `svg`, `png` and `plans`; `archive` of the result is what `file`
                fetches: a zip archive of them.
            prices: a table such as `{"name": "prices.yaml", "text": ...}`.
            workers: processes that search side by side, if the service has as many.
            options: what all points have in common, as in a search.
        """
        body: dict[str, Any] = {"model": model, "options": options, "sweep": dict(sweep)}
        body |= {"files": list(files)} if files else {}
        body |= {"prices": dict(prices)} if prices is not None else {}
        return self.wait(self.submit("sweeps", body | {"workers": workers}), report)

    def simulate(self, plan: str, *, plot: str | None = None, **options: object) -> dict[str, Any]:
        """Simulate a plan and wait; the result, whose `trace` is the timeline's id.

        Args:
            plan: id of a plan.
            plot: `png` or `svg` to have it drawn; `plot` of the result is what `file` fetches.
            options: as on the command line, with underscores.
        """
        body: dict[str, Any] = {"plan": plan, "options": options}
        return self.wait(self.submit("simulations", body | ({"plot": plot} if plot else {})))

    def simulate_layout(
        self,
        model: str,
        layout: Mapping[str, object],
        *,
        plot: str | None = None,
        **options: object,
    ) -> dict[str, Any]:
        """Simulate a conventional layout of a model and wait.

        Args:
            model: id of an uploaded config.json, or the name of a published model.
            layout: `{"layout": "tp=8,dp=16", "cluster": ...}`; with `servers` the result is what
                workers and parameter servers do.
            plot: as in `simulate`.
            options: as on the command line, with underscores.
        """
        body: dict[str, Any] = {"model": model, "layout": dict(layout), "options": options}
        return self.wait(self.submit("simulations", body | ({"plot": plot} if plot else {})))

    def layouts(
        self,
        model: str,
        report: Callable[[Mapping[str, Any]], None] = lambda _: None,
        *,
        name: str | None = None,
        recipe: str = "",
        row: int = 1,
        **options: object,
    ) -> dict[str, Any]:
        """Rank the conventional layouts of a model and wait.

        Args:
            model: as in `simulate_layout`.
            report: receives events of progress.
            name: what the model is called.
            recipe: a framework whose files are wanted for `row`: `texts` of the result.
            row: of the list, from 1.
            options: as on the command line, with underscores: `devices=64, batch=256`.
        """
        body = {"model": model, "name": name, "recipe": recipe, "row": row, "options": options}
        return self.wait(self.submit("layouts", body), report)

    def recipe(
        self,
        files: Sequence[Mapping[str, str]],
        report: Callable[[Mapping[str, Any]], None] = lambda _: None,
        *,
        to: str = "",
        **options: object,
    ) -> dict[str, Any]:
        """Price a recipe of a framework and wait; `texts` of the result are its best files.

        Args:
            files: each with `name` and `text`, and `function` where a Python file has several.
            report: receives events of progress.
            to: another framework whose files are wanted instead.
            options: as on the command line, with underscores.
        """
        body = {"files": [dict(each) for each in files], "to": to, "options": options}
        return self.wait(self.submit("recipes", body), report)

    def explain(
        self,
        plan: str,
        report: Callable[[Mapping[str, Any]], None] = lambda _: None,
        **options: object,
    ) -> dict[str, Any]:
        """Ask why a plan is as it is and wait; options as on the command line."""
        return self.wait(self.submit("explanations", {"plan": plan, "options": options}), report)

    def file(self, export: str) -> bytes:
        """A file that a job made: a picture, or an archive."""
        return self._get(f"/v1/exports/{export}").content

    def verify(
        self,
        plan: str,
        model: str | None = None,
        report: Callable[[Mapping[str, Any]], None] = lambda _: None,
        **options: object,
    ) -> dict[str, Any]:
        """Verify a plan and wait; the result, whose `passed` is the verdict."""
        body = {"plan": plan, "model": model, "options": options}
        return self.wait(self.submit("verifications", body), report)

    def export(self, plan: str, form: str, **more: object) -> Exported:
        """Export a plan and wait.

        Args:
            plan: id of a plan.
            form: such as `"mindspore"` or `"jax"`.
            more: `suffix`, `names`, `settings`, `files`.
        """
        result = self.wait(self.submit("exports", {"plan": plan, "format": form, **more}))
        content = self._get(f"/v1/exports/{result['export']}").content
        return Exported(str(result["name"]), content, tuple(result["notes"]))

    def plan(self, plan: str) -> bytes:
        """Exactly plan.json."""
        return self._get(f"/v1/plans/{plan}").content

    def plans(self) -> list[dict[str, Any]]:
        """What is known of all plans, the newest first."""
        found: list[dict[str, Any]] = self._get("/v1/plans").json()
        return found

    def compared(self, plan: str, other: str) -> dict[str, Any]:
        """Two plans side by side."""
        return self._json("GET", f"/v1/plans/{plan}/views/compare/{other}")

    def trace(self, trace: str) -> bytes:
        """The timeline of a simulation."""
        return self._get(f"/v1/traces/{trace}").content

    def jobs(self, state: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """The newest jobs, with the plain values of their results."""
        asked: dict[str, Any] = {"limit": limit} | ({"state": state} if state else {})
        found: list[dict[str, Any]] = self._asked("GET", "/v1/jobs", params=asked).json()
        return found

    def job(self, job: str) -> dict[str, Any]:
        """What is known of a job."""
        return self._json("GET", f"/v1/jobs/{job}")

    def cancel(self, job: str) -> dict[str, Any]:
        """End a job."""
        return self._json("DELETE", f"/v1/jobs/{job}")

    def wait(
        self, job: str, report: Callable[[Mapping[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        """The result of a job once it is there; a server that is started again is waited for.

        Raises:
            ServiceError: the job failed or was cancelled, or the server stays away.
        """
        self.watched = job
        record = self.job(job)
        if record["state"] not in _LAST_STATES:
            record = self._watched(job, report)
        self.watched = ""
        if record["state"] != "done":
            raise ServiceError(str(record["message"] or f"the job was {record['state']}"))
        result: dict[str, Any] = record["result"]
        return result

    def _watched(self, job: str, report: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
        last, tries = "0", 0
        while True:
            try:
                for name, number, data in self._events(job, last):
                    if name == "job":
                        return data
                    last, tries = number, 0
                    report(data)
            except httpx.TransportError as error:
                tries += 1
                if tries > RETRIES:
                    raise self._unreachable(error) from error
            time.sleep(min(0.1 * 2**tries, 5.0))

    def _events(self, job: str, last: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Events as name, number and data."""
        headers = {**self._headers, "Last-Event-ID": last}
        with self._http.stream("GET", f"/v1/jobs/{job}/events", headers=headers) as answer:
            if answer.is_error:
                answer.read()
            _check(answer)
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                name, colon, value = line.partition(": ")
                if colon:
                    fields[name] = value
                elif not line and "data" in fields:
                    yield (
                        fields.get("event", ""),
                        fields.get("id", last),
                        json.loads(fields["data"]),
                    )
                    fields = {}

    def _get(self, path: str) -> httpx.Response:
        return self._asked("GET", path)

    def _json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._asked(method, path, **more).json()
        return found

    def _asked(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return _check(self._http.request(method, path, headers=self._headers, **more))
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.TransportError) -> ServiceError:
        return ServiceError(
            f"the service does not answer: {error}\n  at:  {self._http.base_url}\n"
            "  fix: start it with `planner serve`, or name another"
        )


def _check(answer: httpx.Response) -> httpx.Response:
    """The answer, if it is none of an error."""
    if not answer.is_error:
        return answer
    try:
        message = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = f"status {answer.status_code}"
    raise ServiceError(message, answer.status_code)
