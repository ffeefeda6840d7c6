"""The routes of the views: tags, errors, and who may see what."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ir.plan_file import plan_to_json
from service.faults import add_fault_handlers
from service.store.items import Item, NotFoundError
from service.views.cache import ViewCache
from service.views.routes import PLAIN_VIEWS, router
from tests.service_views.plans_of import plan_of


class Store:
    """Two plans, of which one can be taken away."""

    def __init__(self) -> None:
        self.plans = {name: plan_to_json(plan_of(name)).encode() for name in ("layers", "products")}

        self.machines: dict[str, Item] = {}
        self.files: dict[str, bytes] = {}

    def plan_bytes(self, plan_id: str) -> bytes:
        if plan_id not in self.plans:
            raise NotFoundError(plan_id)
        return self.plans[plan_id]

    def check_plan(self, plan_id: str) -> None:
        self.plan_bytes(plan_id)

    def view(self, plan_id: str, name: str) -> bytes | None:
        return None

    def find(self, item_id: str, kind: str) -> Item:
        if kind != "cluster" or item_id not in self.machines:
            raise NotFoundError(item_id)
        return self.machines[item_id]

    def content(self, item_id: str, kind: str) -> bytes:
        return self.files[self.find(item_id, kind).id]

    def listed(self, kind: str) -> list[Item]:
        return list(self.machines.values()) if kind == "cluster" else []

    def keep(self, text: str, **facts: object) -> str:
        """Keep a machine of a file."""
        number = f"c_{len(self.machines):032x}"
        self.files[number] = text.encode()
        self.machines[number] = Item(number, "cluster", "own.yaml", "", 0, 0.0, facts)
        return number


def client() -> TestClient:
    app = FastAPI()
    app.state.store = Store()
    app.state.views = ViewCache()
    app.include_router(router)
    add_fault_handlers(app)
    return TestClient(app)


def test_every_view_answers_and_is_not_sent_twice() -> None:
    asking = client()
    names = [
        *PLAIN_VIEWS,
        "cluster",
        "graph?level=parts",
        "whatif?bandwidth=server:2",
        "compare/products",
    ]
    for name in names:
        first = asking.get(f"/v1/plans/layers/views/{name}")
        assert first.status_code == 200, first.text
        tag = first.headers["etag"]
        again = asking.get(f"/v1/plans/layers/views/{name}", headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")


def test_who_may_not_see_a_plan_sees_no_view_of_it_that_was_made_before() -> None:
    asking = client()
    store = asking.app.state.store  # type: ignore[attr-defined]
    assert asking.get("/v1/plans/layers/views/summary").status_code == 200
    assert asking.get("/v1/plans/products/views/compare/layers").status_code == 200
    del store.plans["layers"]
    assert asking.get("/v1/plans/layers/views/summary").status_code == 404
    assert asking.get("/v1/plans/products/views/compare/layers").status_code == 404


@pytest.mark.fast
def test_what_is_asked_wrongly_is_said_so() -> None:
    asking = client()
    for path in (
        "plans/layers/views/nothing",
        "plans/layers/views/graph?level=all",
        "plans/layers/views/whatif?devices=0",
        "plans/layers/views/whatif?devices=12",
        "plans/layers/views/whatif?bandwidth=server",
        "plans/layers/views/whatif?bandwidth=nowhere:2",
        "plans/layers/views/whatif?bandwidth=server:-1",
        "plans/layers/views/whatif?memory_bytes=nan",
        "plans/layers/views/why/no_such_operator",
        "clusters/nowhere/picture",
    ):
        assert asking.get(f"/v1/{path}").status_code == 422, path


def test_an_operator_with_slashes_in_its_name_says_why() -> None:
    asking = client()
    name = plan_of("layers").operators[0].name
    answer = asking.get(f"/v1/plans/layers/views/why/{name}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["name"] == name


def test_machines_are_drawn() -> None:
    answer = client().get("/v1/clusters/dgx-h100/picture").json()
    assert {box["kind"] for box in answer["boxes"]} >= {"server", "switch"}
    assert all(line["bytes"] is None for line in answer["lines"])


OWN = files("data").joinpath("clusters/atlas-800t-a2.yaml").read_text(encoding="utf-8")


def test_a_machine_of_a_file_is_drawn_once_a_job_has_read_it() -> None:
    asking = client()
    store = asking.app.state.store  # type: ignore[attr-defined]
    own = store.keep(OWN, state="ready", form="cluster file")
    drawn = asking.get(f"/v1/clusters/{own}/picture")
    assert drawn.json() == asking.get("/v1/clusters/atlas-800t-a2/picture").json()
    unread = store.keep(OWN, state="unread")
    assert asking.get(f"/v1/clusters/{unread}/picture").status_code == 422
    broken = store.keep("cluster: 3", state="refused", message="it is broken")
    answer = asking.get(f"/v1/clusters/{broken}/picture")
    assert (answer.status_code, "it is broken" in answer.text) == (422, True)
    assert asking.get(f"/v1/clusters/c_{'f' * 32}/picture").status_code == 404


def test_a_plan_for_a_machine_of_a_file_shows_that_machine() -> None:
    asking = client()
    store = asking.app.state.store  # type: ignore[attr-defined]
    plan = plan_of("layers")
    named = replace(plan, cluster={**plan.cluster, "name": "own"})
    store.plans["own"] = plan_to_json(named).encode()
    text = OWN.replace("name: atlas-800t-a2", "name: own")
    assert asking.get("/v1/plans/own/views/cluster").json()["picture"] is None
    store.keep(text.replace("6 GiB", "7 GiB"), state="ready", form="cluster file")
    assert asking.get("/v1/plans/own/views/cluster").json()["picture"] is None
    store.keep(text, state="ready", form="cluster file")
    found = asking.get("/v1/plans/own/views/cluster").json()["picture"]
    assert found == asking.get("/v1/plans/layers/views/cluster").json()["picture"]
    assert any(line["bytes"] for line in found["lines"])
