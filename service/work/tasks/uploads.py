"""Uploads are read once, to say what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from importers.errors import ModelError
from importers.model_file import ModelFormat, model_format
from importers.open_sizes import reading
from planner.requests.machines import is_rank_table
from service.facts import plan_facts
from service.store.queue import Outcome
from service.views.ready import first_views
from service.work.given import Given
from topology.loading import load_machine
from topology.rank_tables.machine import machine_of_table

MOST_SHOWN = 100
"""Kinds of operators and open dimensions that are listed."""


def read_model(given: Given) -> Outcome:
    """Nodes, kinds of operators, open dimensions and parameters of a model.

    Raises:
        ModelError: it cannot be read.
    """
    item_id = str(given.request["model"])
    path = given.file(item_id, "model")
    source = model_format(path)
    facts = source.facts(path)
    common = sorted(facts.kinds.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_SHOWN]
    found = {
        "producer": facts.producer,
        "nodes": facts.nodes,
        "kinds": dict(common),
        "open_dims": [asdict(each) for each in facts.open_dims[:MOST_SHOWN]],
        **_parameters(source, path),
    }
    return _about(item_id, found)


def _parameters(source: ModelFormat, path: Path) -> dict[str, int]:
    """Tensors and elements; nothing of a model that needs sizes before it can be read."""
    try:
        held = reading(source, path, {}).graph.parameters
    except ModelError:
        return {}
    return {"parameters": len(held), "parameter_elements": sum(t.elements for t in held)}


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
    return _about(item_id, plan_facts(plan, plan.graph.name, None), first_views(plan))


def _about(
    item_id: str, found: Mapping[str, Any], views: Mapping[str, bytes] = MappingProxyType({})
) -> Outcome:
    about = (item_id, {"state": "ready", **found})
    return Outcome({"id": item_id, **found}, about=about, views=views)
