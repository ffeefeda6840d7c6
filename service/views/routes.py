"""`/v1/plans/{id}/views/...`: what the page shows of a plan, each with an entity tag."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response
from pydantic import StringConstraints

from ir.plan import Plan
from ir.plan_file import plan_from_json
from planner.repricing.other_circumstances import Factors
from planner.requests.errors import UserError, unknown_name
from planner.requests.machines import named_machine as uploaded_machine
from planner.requests.sources import Document
from service.store.items import is_item_id
from service.views.cache import Answer, ViewCache, answer, body_of
from service.views.cluster import cluster_view, machine_picture, mesh_view
from service.views.comparison import comparison_view
from service.views.exports import exports_view
from service.views.graph import Level, graph_view
from service.views.memory import memory_view
from service.views.operator import operator_view
from service.views.ready import FIRST, kept_name
from service.views.summary import summary_view
from service.views.table import table_view
from service.views.timeline import timeline_view
from service.views.whatif import sizes_view, whatif_view
from service.visible import VisibleStore
from topology.catalogue import cluster_names, is_machine, named_machine
from topology.cluster import Cluster
from topology.errors import TopologyError
from topology.machine import Machine

router = APIRouter(prefix="/v1", tags=["views"])

PLAIN_VIEWS: Mapping[str, Callable[[Plan], dict[str, Any]]] = MappingProxyType(
    {
        "summary": summary_view,
        "mesh": mesh_view,
        "timeline": timeline_view,
        "memory": memory_view,
        "operators": table_view,
        "sizes": sizes_view,
        "exports": exports_view,
    }
)
"""Views that depend on nothing but the plan."""

OTHER_VIEWS = (
    "cluster", "explanation", "graph", "whatif", "compare/OTHER", "operator/NAME", "why/OPERATOR",
)  # fmt: skip

PlanId = Annotated[str, Path(max_length=64)]
ModuleName = Annotated[str, StringConstraints(max_length=300)]
_CACHED = {"Cache-Control": "private, no-cache"}
"""Kept by the browser, asked for each time: the tag tells whether it still holds."""


class Views:
    """The views of the plans that the asker of a request may see."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._store: VisibleStore = request.app.state.store
        self._cache: ViewCache = request.app.state.views

    def plan(self, plan_id: str) -> Plan:
        """The plan, if the asker has it."""
        content = self._store.plan_bytes(plan_id)
        found: Plan = self._cache.plans.get(plan_id, lambda: plan_from_json(content.decode()))
        return found

    def machine(self, item_id: str) -> Machine:
        """An uploaded machine.

        Raises:
            NotFoundError: the asker has none of this id.
            UserError: it has not been read yet, could not be read, or is a rank table.
            TopologyError: it has faults.
        """
        item = self._store.find(item_id, "cluster")
        content = self._store.content(item_id, "cluster")
        if not item.is_ready:
            told = item.facts.get("message") or "a job reads it first"
            raise UserError(f"{item.name} cannot be drawn\n{told}")
        file = Document(item.name, content.decode())
        found: Machine = self._cache.machines.get(
            item_id, lambda: uploaded_machine(file, "the path")
        )
        return found

    def machine_of(self, plan: Plan) -> tuple[str, Machine | None]:
        """The uploaded machine that a plan was made for and its id; nothing for a bundled one."""
        name = plan.cluster.get("name")
        if is_machine(str(name)):
            return "", None
        for item in self._store.listed("cluster"):
            if item.is_ready and item.facts.get("form") == "cluster file":
                machine = self.machine(item.id)
                if machine.name == name and _is_of(plan, machine):
                    return item.id, machine
        return "", None

    def of_plan(
        self, plan_id: str, key: tuple[Hashable, ...], view: Callable[[Plan], Any], *,
        alone: bool = False,
    ) -> Response:  # fmt: skip
        """A view of one plan by what is asked of it: as it was kept with the plan, or made now; one
        that takes a while is made alone.
        """

        def make() -> Answer:
            kept = self._store.view(plan_id, kept_name(key)) if key in FIRST else None
            if kept is not None:
                return answer(kept)
            plan = self.plan(plan_id)
            with self._cache.pricing if alone else nullcontext():
                return answer(body_of(view(plan)))

        return self._respond((plan_id, *key), make, plan_id)

    def respond(self, key: Hashable, make: Callable[[], Any], *plans: str) -> Response:
        """The view of this key, or that it is still the one that the browser has."""
        return self._respond(key, lambda: answer(body_of(make())), *plans)

    def _respond(self, key: Hashable, make: Callable[[], Answer], *plans: str) -> Response:
        for plan_id in plans:
            self._store.check_plan(plan_id)
        found = self._cache.views.get(key, make)
        headers = {"ETag": found.tag, **_CACHED}
        if found.tag in self._request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=headers)
        return Response(found.body, media_type="application/json", headers=headers)


def _is_of(plan: Plan, machine: Machine) -> bool:
    """Whether a plan's view of its machine is that of this one."""
    try:
        return machine.cluster(plan.devices) == Cluster.from_dict(plan.cluster)
    except TopologyError:
        return False


Shown = Annotated[Views, Depends(Views)]


@router.get("/plans/{plan_id}/views/graph")
def graph(
    views: Shown, plan_id: PlanId, level: Level = Level.FOLDED,
    opened: Annotated[list[ModuleName] | None, Query(alias="open", max_length=64)] = None,
) -> Response:  # fmt: skip
    """Operators with positions; equal blocks folded and modules of large graphs gathered, `open`
    those whose inside is shown; all operators, or all their parts.
    """
    shown = tuple(sorted(set(opened or ())))
    key = ("graph", level, shown)
    return views.of_plan(plan_id, key, lambda plan: graph_view(plan, level, shown))


@router.get("/plans/{plan_id}/views/whatif")
def whatif(
    views: Shown,
    plan_id: PlanId,
    devices: Annotated[int | None, Query(ge=1, le=2**20)] = None,
    batch: Annotated[int | None, Query(ge=1, le=2**30)] = None,
    memory_bytes: Annotated[float | None, Query(gt=0, allow_inf_nan=False)] = None,
    bandwidth: Annotated[list[str] | None, Query(max_length=8)] = None,
) -> Response:
    """The same splits simulated with other factors; `bandwidth=server:2`, one for each tier."""
    factors = Factors(devices, batch, memory_bytes, dict(map(_factor, bandwidth or [])))
    key = ("whatif", devices, batch, memory_bytes, tuple(bandwidth or ()))
    return views.of_plan(plan_id, key, lambda plan: whatif_view(plan, factors), alone=True)


def _factor(text: str) -> tuple[str, float]:
    tier, _, number = text.rpartition(":")
    try:
        return tier, float(number)
    except ValueError:
        fix = "write tier and factor, such as server:2"
        raise UserError(f"{text[:80]!r} is no bandwidth", "bandwidth", fix) from None


@router.get("/plans/{plan_id}/views/compare/{other_id}")
def compare(views: Shown, plan_id: PlanId, other_id: PlanId) -> Response:
    """Two plans side by side."""

    def make() -> dict[str, Any]:
        return comparison_view(views.plan(plan_id), views.plan(other_id))

    return views.respond((plan_id, other_id), make, plan_id, other_id)


@router.get("/plans/{plan_id}/views/why/{operator:path}")
def why(
    views: Shown,
    plan_id: PlanId,
    operator: Annotated[str, Path(max_length=2000)],
    *,
    glance: bool = False,
) -> Response:
    """Why an operator is split as it is: the chosen and the rival candidates, what forces it; at a
    glance everything else stays as planned.
    """
    from service.views.why import glance_view, why_view  # noqa: PLC0415  brings in the solvers

    view = glance_view if glance else why_view
    key = ("why", operator, glance)
    return views.of_plan(plan_id, key, lambda plan: view(plan, operator), alone=True)


@router.get("/plans/{plan_id}/views/operator/{operator:path}")
def operator_facts(
    views: Shown, plan_id: PlanId, operator: Annotated[str, Path(max_length=2000)]
) -> Response:
    """Attributes of an operator, and the tensors that it reads and writes."""
    key = ("operator", operator)
    return views.of_plan(plan_id, key, lambda plan: operator_view(plan, operator))


@router.get("/plans/{plan_id}/views/explanation")
def explanation(views: Shown, plan_id: PlanId) -> Response:
    """What costs most, what limits memory, what links twice as fast would bring."""
    from service.views.why import explanation_view  # noqa: PLC0415  brings in the solvers

    return views.of_plan(plan_id, ("explanation",), explanation_view, alone=True)


@router.get("/plans/{plan_id}/views/cluster")
def cluster(
    views: Shown, plan_id: PlanId, servers: Annotated[int | None, Query(ge=1, le=16)] = None
) -> Response:
    """The machine with what a step sends over each link; an uploaded one where the plan has it.
    Two servers are drawn unless more are asked for.
    """
    item_id, machine = views.machine_of(views.plan(plan_id))
    key = ("cluster", item_id, servers)
    return views.of_plan(plan_id, key, lambda plan: cluster_view(plan, machine, servers))


@router.get("/plans/{plan_id}/views/{name}")
def plain(views: Shown, plan_id: PlanId, name: Annotated[str, Path(max_length=40)]) -> Response:
    """summary, mesh, timeline, memory, operators, sizes or exports."""
    view = PLAIN_VIEWS.get(name)
    if view is None:
        raise unknown_name("view", name[:80], (*PLAIN_VIEWS, *OTHER_VIEWS), "the path")
    return views.of_plan(plan_id, (name,), view)


@router.get("/clusters/{name}/picture")
def picture(views: Shown, name: Annotated[str, Path(max_length=80)]) -> Response:
    """A bundled or an uploaded machine drawn: servers, rings, switches."""
    if is_item_id(name):
        machine = views.machine(name)
    elif is_machine(name):
        machine = named_machine(name)
    else:
        raise unknown_name("machine", name, cluster_names(), "the path")
    return views.respond(("picture", name), lambda: machine_picture(machine))
