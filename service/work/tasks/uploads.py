"""Uploads are read once, to say what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from importers.model_file import model_format
from planner.requests.machines import is_rank_table
from service.store.queue import Outcome
from service.work.given import Given
from service.work.tasks.searches import plan_facts
from topology.loading import load_machine
from topology.rank_tables.machine import machine_of_table

MOST_SHOWN = 100
"""Kinds of operators and open dimensions that are listed."""


def read_model(given: Given) -> Outcome:
    """Nodes, kinds of operators and open dimensions of a model.

    Raises:
        ModelError: it cannot be read.
    """
    item_id = str(given.request["model"])
    path = given.file(item_id, "model")
    facts = model_format(path).facts(path)
    common = sorted(facts.kinds.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_SHOWN]
    found = {
        "producer": facts.producer,
        "nodes": facts.nodes,
        "kinds": dict(common),
        "open_dims": [asdict(each) for each in facts.open_dims[:MOST_SHOWN]],
    }
    return _about(item_id, found)


def read_cluster(given: Given) -> Outcome:
    """Devices and tiers of a cluster file or rank table.

    Raises:
        TopologyError: it has faults.
    """
    item_id = str(given.request["cluster"])
    file = given.document(item_id, "cluster")
    if is_rank_table(file):
        table = machine_of_table(file.text, file.name, None)
        return _about(item_id, {"form": "rank table", "devices": table.cluster.devices})
    machine = load_machine(file.text, file.name)
    return _about(item_id, {"form": "cluster file", "devices": machine.max_devices})


def read_plan(given: Given) -> Outcome:
    """The figures of a plan that was made elsewhere.

    Raises:
        PlanFileError: it is none.
    """
    item_id = str(given.request["plan"])
    plan = given.plan(item_id, staged=True)
    return _about(item_id, plan_facts(plan, plan.graph.name, None))


def _about(item_id: str, found: Mapping[str, Any]) -> Outcome:
    return Outcome({"id": item_id, **found}, about=(item_id, {"state": "ready", **found}))
