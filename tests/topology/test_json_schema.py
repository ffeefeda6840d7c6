"""The schema of cluster files that the docs publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import data
from tests.topology.machines import file
from topology.json_schema import cluster_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "cluster.schema.json"
CLUSTERS = [yaml.safe_load(data.read_text("clusters", f"{n}.yaml")) for n in data.names("clusters")]
SERVERS = [yaml.safe_load(data.read_text("servers", f"{n}.yaml")) for n in data.names("servers")]


def errors(given: object) -> list[str]:
    validator = Draft202012Validator(json.loads(PUBLISHED.read_text(encoding="utf-8")))
    return [error.message for error in validator.iter_errors(given)]


@pytest.mark.fast
def test_the_published_schema_is_that_of_the_program() -> None:
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    regenerate = "write it again: planner topology schema > docs/cluster.schema.json"
    assert published == json.loads(json.dumps(cluster_schema())), regenerate
    Draft202012Validator.check_schema(published)


@pytest.mark.parametrize("given", [*CLUSTERS, file()])
def test_cluster_files_fit_the_published_schema(given: dict[str, Any]) -> None:
    assert errors(given) == []


@pytest.mark.parametrize("server", SERVERS)
def test_server_files_fit_it_as_part_of_a_cluster_file(server: dict[str, Any]) -> None:
    assert errors(file(server)) == []


def test_a_changed_bundled_cluster_fits() -> None:
    changed = {"schema_version": 2, "name": "x", "use": "dgx-a100", "override": {"title": "y"}}
    assert errors(changed) == []


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 1},
        {"colour": "red"},
        {"cluster": {"servers": []}},
        {"cluster": {"servers": [{"use": "x", "count": 0}]}},
        {"servers": {"mine": {"chip": "b200"}}},
    ],
)
def test_what_the_program_refuses_does_not_fit(change: dict[str, Any]) -> None:
    assert errors(file() | change)
