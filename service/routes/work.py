"""`/v1/searches`, `/v1/simulations`, `/v1/layouts` and the others: requests become jobs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from importers.sizes import check_published
from planner.requests.errors import UserError, unknown_name
from planner.requests.options.option import check_values
from planner.requests.options.searches import SearchOptions
from planner.requests.search_options import with_own_names
from planner.requests.sources import Document
from planner.whatif.composed import axes_of, clusters_of
from service.routes.asker import Asker, ItemId, Shown
from service.routes.bodies import (
    MOST_PRIORITY,
    ExplanationBody,
    ExportBody,
    ExportFormat,
    LayoutsBody,
    RecipeBody,
    SearchBody,
    SimulationBody,
    Submitted,
    SweepBody,
    VerificationBody,
)
from service.store.items import Item, is_item_id
from service.store.jobs import DONE, Job
from service.visible import VisibleStore
from topology.catalogue import cluster_names, is_machine

EXPORT_WAIT_S = 30.0
_POLL_S = 0.05

router = APIRouter(prefix="/v1")


def check_model(shown: VisibleStore, name: str) -> None:
    """Raise for a name that is neither an upload's id nor a published model's."""
    if is_item_id(name):
        _check_good(shown.find(name, "model"))
    else:
        check_published(name)


def _check_good(item: Item) -> None:
    """Raise for an upload that a job could not read."""
    if item.facts.get("state") == "refused":
        raise UserError(f"{item.name} cannot be read\n{item.facts.get('message')}")


def check_cluster(shown: VisibleStore, name: str | None) -> None:
    """Raise for a name that is neither an upload's id nor a bundled machine's."""
    if name is None:
        return
    if is_item_id(name):
        _check_good(shown.find(name, "cluster"))
    elif not is_machine(name):
        raise unknown_name("cluster", name[:80], cluster_names(), "options.cluster")


def _check_machine(shown: VisibleStore, options: SearchOptions) -> None:
    """Raise for options that no model can make good, such as devices that the machine cannot give;
    a machine that no job has read yet is left to the search.
    """
    from planner.requests.searches import machine_asked  # noqa: PLC0415  brings in the solvers

    file, options = None, with_own_names(options)
    if is_item_id(options.cluster):
        item = shown.find(options.cluster, "cluster")
        if not item.is_ready:
            return
        file = Document(item.name, shown.content(item.id, "cluster").decode())
    machine_asked(options, file)


def submitted(job: Job) -> Submitted:
    """What is said of a job when it is accepted."""
    return Submitted(job=job.id, state=job.state, cached=job.cached)


@router.post("/searches", status_code=202, tags=["searches"])
def search(shown: Shown, desk: Asker, body: SearchBody) -> Submitted:
    """Search for a plan. The job's result names it: `{"plan": id}`."""
    check_model(shown, body.model)
    check_cluster(shown, body.options.cluster)
    _check_machine(shown, body.options)
    request = {"model": body.model, "options": asdict(body.options)}
    request |= {"why_not": body.why_not} if body.why_not else {}
    return submitted(desk.submit("search", request, body.priority))


@router.post("/simulations", status_code=202, tags=["simulations"])
def simulate(shown: Shown, desk: Asker, body: SimulationBody) -> Submitted:
    """Simulate a plan or a layout event by event. The job's result has the figures and a trace."""
    request: dict[str, Any] = {"options": asdict(body.options)}
    if body.plan is not None and body.layout is None and body.model is None:
        shown.find(body.plan, "plan")
        check_cluster(shown, body.options.cluster)
        request["plan"] = body.plan
    elif body.plan is None and body.layout is not None and body.model is not None:
        check_model(shown, body.model)
        request |= {"model": body.model, "layout": asdict(body.layout)}
    else:
        raise UserError("what is simulated?", "plan", "name a plan, or a model with a layout")
    request |= {"plot": body.plot} if body.plot else {}
    return submitted(desk.submit("simulation", request, body.priority))


@router.post("/sweeps", status_code=202, tags=["sweeps"])
def sweep(shown: Shown, desk: Asker, body: SweepBody) -> Submitted:
    """Search for plans on many machines and at many sizes."""
    check_model(shown, body.model)
    if not is_item_id(body.model):  # an upload may have open dimensions, which its job finds
        axes_of(body.sweep, body.options)
    for name in clusters_of(body.sweep):
        check_cluster(shown, name)
    request: dict[str, Any] = {
        "model": body.model, "options": asdict(body.options), "sweep": asdict(body.sweep)
    }  # fmt: skip
    request |= {"prices": body.prices.model_dump()} if body.prices is not None else {}
    request |= {"files": sorted(set(body.files))} if body.files else {}
    request |= {"workers": body.workers} if body.workers > 1 else {}
    return submitted(desk.submit("sweep", request, body.priority))


@router.post("/verifications", status_code=202, tags=["verifications"])
def verify(shown: Shown, desk: Asker, body: VerificationBody) -> Submitted:
    """Run a plan on virtual devices and compare it with the whole model."""
    check_values(body.options)
    plan = shown.find(body.plan, "plan")
    model = body.model if body.model is not None else plan.facts.get("model")
    if model is None:
        raise UserError("the model of an uploaded plan is open", "model", "name it")
    check_model(shown, model)
    request = {"plan": body.plan, "model": model, "options": asdict(body.options)}
    return submitted(desk.submit("verification", request, body.priority))


@router.post("/layouts", status_code=202, tags=["layouts"])
def layouts(shown: Shown, desk: Asker, body: LayoutsBody) -> Submitted:
    """Rank the conventional layouts of a model. The job's result lists the fastest that fit."""
    check_model(shown, body.model)
    check_values(body.options)
    request = body.model_dump(exclude={"priority"}) | {"options": asdict(body.options)}
    return submitted(desk.submit("layouts", request, body.priority))


@router.post("/recipes", status_code=202, tags=["recipes"])
def recipe(shown: Shown, desk: Asker, body: RecipeBody) -> Submitted:
    """Price a recipe of a framework. The job's result says what would be better."""
    if body.options.model:
        check_model(shown, body.options.model)
    request = body.model_dump(exclude={"priority"}) | {"options": asdict(body.options)}
    return submitted(desk.submit("recipe", request, body.priority))


@router.post("/explanations", status_code=202, tags=["explanations"])
def explain(shown: Shown, desk: Asker, body: ExplanationBody) -> Submitted:
    """Say why a plan is as it is. The job's result is the answer."""
    from planner.explain.asked import check_question  # noqa: PLC0415  brings in the planner

    shown.find(body.plan, "plan")
    check_question(body.options)
    request = {"plan": body.plan, "options": asdict(body.options)}
    return submitted(desk.submit("explanation", request, body.priority))


@router.post("/exports", status_code=202, tags=["exports"])
def export(shown: Shown, desk: Asker, body: ExportBody) -> Submitted:
    """Write a plan for a framework. The job's result names the file: `{"export": id}`."""
    shown.find(body.plan, "plan")
    request = body.model_dump(exclude={"priority"})
    return submitted(desk.submit("export", request, body.priority))


@router.get("/exports/{export_id}", tags=["exports"])
def exported(shown: Shown, export_id: ItemId) -> Response:
    """A file that was exported."""
    return _file(shown, export_id)


@router.get("/plans/{plan_id}/exports/{form}", tags=["exports"], responses={202: {}})
async def export_now(
    shown: Shown, desk: Asker, plan_id: ItemId, form: ExportFormat,
    suffix: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:  # fmt: skip
    """The file of a format, or a zip archive of its files; 202 if it takes long."""

    def begin() -> Job:
        shown.find(plan_id, "plan")
        body = ExportBody(plan=plan_id, format=form, suffix=suffix)
        return desk.submit("export", body.model_dump(exclude={"priority"}), MOST_PRIORITY)

    job = await run_in_threadpool(begin)
    until_s = time.monotonic() + EXPORT_WAIT_S
    while not job.is_over and time.monotonic() < until_s:
        await asyncio.sleep(_POLL_S)
        job = await run_in_threadpool(desk.find, job.id)
    if job.state == DONE and job.result is not None:
        return await run_in_threadpool(_file, shown, str(job.result["export"]))
    if job.is_over:
        return JSONResponse({"status": "error", "message": job.message}, 422)
    return JSONResponse(submitted(job).model_dump(), 202)


@router.get("/traces", tags=["traces"])
def traces(shown: Shown) -> list[dict[str, Any]]:
    """Timelines of simulations, the newest first."""
    return [item.to_dict() for item in shown.listed("trace")]


@router.get("/traces/{trace_id}", tags=["traces"])
def trace(shown: Shown, trace_id: ItemId) -> Response:
    """A timeline, for ui.perfetto.dev or chrome://tracing."""
    return Response(shown.content(trace_id, "trace"), media_type="application/json")


def _file(shown: VisibleStore, export_id: str) -> Response:
    item = shown.find(export_id, "export")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(item.name)}"}
    content = shown.content(export_id, "export")
    return Response(content, media_type="application/octet-stream", headers=headers)
